package main

import (
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// workerArg makes the program an instance that takes its jobs from standard input.
const workerArg = "-worker"

// job is what an instance does to one key. It travels between processes.
type job struct {
	Name    string // of the limiter
	N       int64
	Window  time.Duration
	Slots   int     // 0: exact
	Hot     float64 // 0: exact or slotted
	Callers int
	MaxCost int64   // calls cost 1 to this
	Rate    float64 // calls per second of all callers together; 0: as many as they can
	Lasts   time.Duration
	// Refusals are reported too.
	Refusals bool
	Seed     uint64
}

func (j *job) limit() core.Limit {
	l := core.Per(j.N, j.Window)
	switch {
	case j.Hot > 0:
		return l.Hybrid(j.Slots, j.Hot)
	case j.Slots > 0:
		return l.Slotted(j.Slots)
	}
	return l
}

// heard is an answer with the cost it was given for.
type heard struct {
	cost int64
	answer
}

// tally is what an instance heard in a job, in the order of the instants. All
// numbers are small, and take gob a byte or two.
type tally struct {
	Gaps     []int64 // from one instant to the next
	Costs    []int64
	Waits    []int64 // FitsAt-At of refusals, 0 of admissions, -1 of never
	Offered  int64   // units
	Calls    int64
	Errors   int64 // calls without a decision
	AnyError string
}

func (t *tally) pack(list []heard) {
	slices.SortFunc(list, func(a, b heard) int { return cmp.Compare(a.at, b.at) })
	var before core.Instant
	for _, h := range list {
		wait := int64(h.fits - h.at)
		switch {
		case h.admitted:
			wait = 0
		case h.fits <= h.at:
			wait = -1 // no answer that makes sense, so it need not be kept whole
		}
		t.Gaps, t.Costs, t.Waits = append(t.Gaps, int64(h.at-before)), append(t.Costs, h.cost), append(t.Waits, wait)
		before = h.at
	}
}

func (t *tally) unpack() (list []heard) {
	var at core.Instant
	for i, gap := range t.Gaps {
		at += core.Instant(gap)
		h := heard{cost: t.Costs[i], answer: answer{admitted: t.Waits[i] == 0, at: at, fits: at + core.Instant(t.Waits[i])}}
		if t.Waits[i] < 0 {
			h.fits = 0
		}
		list = append(list, h)
	}
	return list
}

// work is an instance: it reads servers and then lists of jobs, does the jobs of a
// list at the same time, and writes their tallies. It ends when in does.
func work(ctx context.Context, in io.Reader, out io.Writer, open func(servers) (core.Store, error)) (err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	orders, lists := gob.NewDecoder(in), make(chan []job)
	var where servers
	if err := orders.Decode(&where); err != nil {
		return fmt.Errorf("read the servers: %w", err)
	}
	store, err := open(where)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	go func() {
		// Beside the work, so that the end of the parent ends it.
		for {
			var list []job
			if err := orders.Decode(&list); err != nil {
				stop(err)
				return
			}
			select {
			case lists <- list:
			case <-ctx.Done():
				return
			}
		}
	}()
	answers := gob.NewEncoder(out)
	for {
		select {
		case list := <-lists:
			if err := answers.Encode(doAll(ctx, store, list)); err != nil {
				return fmt.Errorf("write the tallies: %w", err)
			}
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, io.EOF) {
				return err
			}
			return nil
		}
	}
}

func doAll(ctx context.Context, store core.Store, list []job) []tally {
	tallies := make([]tally, len(list))
	var all sync.WaitGroup
	for i := range list {
		all.Go(func() { tallies[i] = list[i].do(ctx, store) })
	}
	all.Wait()
	return tallies
}

// do has all callers of the job call.
func (j *job) do(ctx context.Context, store core.Store) (t tally) {
	l, err := core.New(core.Config{Name: j.Name, Limits: []core.Limit{j.limit()}, Store: store, Budget: patience})
	if err != nil {
		return tally{Errors: 1, AnyError: err.Error()}
	}
	ctx, stop := context.WithTimeout(ctx, j.Lasts+2*patience)
	defer stop()
	callers, lists := make([]tally, j.Callers), make([][]heard, j.Callers)
	began := time.Now()
	var all sync.WaitGroup
	for i := range callers {
		rng := rand.New(rand.NewPCG(j.Seed, uint64(i)))
		all.Go(func() { lists[i] = j.call(ctx, l, rng, began, &callers[i]) })
	}
	all.Wait()
	for _, c := range callers {
		t.Offered += c.Offered
		t.Calls += c.Calls
		t.Errors += c.Errors
		t.AnyError = cmp.Or(t.AnyError, c.AnyError)
	}
	t.pack(slices.Concat(lists...))
	return t
}

// call calls at random instants, or without a pause, until the job is over.
func (j *job) call(ctx context.Context, l *core.Limiter, rng *rand.Rand, began time.Time, t *tally) (list []heard) {
	key, next := keyfunc.Name("everybody"), began
	for {
		if j.Rate > 0 {
			mean := float64(time.Second) * float64(j.Callers) / j.Rate
			next = next.Add(time.Duration(rng.ExpFloat64() * mean))
			if next.Sub(began) >= j.Lasts {
				return list
			}
			sleep(ctx, time.Until(next))
		}
		if ctx.Err() != nil || time.Since(began) >= j.Lasts && j.Rate == 0 {
			return list
		}
		cost := 1 + rng.Int64N(j.MaxCost)
		d, err := l.AllowN(ctx, key, cost)
		t.Offered += cost
		t.Calls++
		switch {
		case err != nil:
			t.Errors++
			t.AnyError = err.Error()
		case d.Allowed || j.Refusals:
			list = append(list, heard{cost, read(d)})
		}
	}
}
