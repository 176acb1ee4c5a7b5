package main

import (
	"context"
	"errors"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// answer is what a limiter says to an offer.
type answer struct {
	// admitted: the units were taken; of the end of a reservation: it was there.
	admitted bool
	// skipped: the offer ends a reservation that was never made.
	skipped bool
	at      core.Instant // of the decision
	fits    core.Instant // when the cost would fit; 0: never
}

// subject is whatever is judged.
type subject interface {
	answer(offer) (answer, error)
}

// backend is a store and the hand on its clock.
type backend struct {
	store core.Store
	// set makes the store's clock read t from now on, or waits until it does.
	set func(t core.Instant)
}

// opener opens an empty backend. Another store is judged by the same traces
// once there is an opener for it.
type opener func() (backend, error)

// patience is how long a call may take: a busy machine shall give decisions, no
// timeouts.
const patience = 5 * time.Second

// openMemory opens a small store in memory, in virtual time.
func openMemory() (backend, error) { return memoryOf(1)() }

// memoryOf opens stores in memory for so many keys, in virtual time.
func memoryOf(keys int) opener {
	return func() (backend, error) {
		now := start
		m, err := core.NewMemory(core.MemoryConfig{MaxKeys: keys, Clock: func() time.Time { return now.Time() }})
		return backend{store: m, set: func(t core.Instant) { now = t }}, err
	}
}

// gate is a slidegate limiter under judgement.
type gate struct {
	backend
	limiter *core.Limiter
	key     keyfunc.Key
	open    map[int]*core.Reservation
}

func newGate(open opener, limit core.Limit) (*gate, error) {
	b, err := open()
	if err != nil {
		return nil, err
	}
	l, err := core.New(core.Config{Name: "accuracy", Limits: []core.Limit{limit}, Store: b.store, Budget: patience})
	if err != nil {
		return nil, errors.Join(err, b.store.Close())
	}
	return &gate{b, l, keyfunc.Name("attacker"), make(map[int]*core.Reservation)}, nil
}

func (g *gate) close() error { return errors.Join(g.limiter.Close(), g.store.Close()) }

func (g *gate) answer(o offer) (answer, error) {
	ctx := context.Background()
	g.set(o.clock)
	switch o.deed {
	case take:
		d, err := g.limiter.AllowN(ctx, g.key, o.cost)
		return read(d), err
	case reserve:
		r, d, err := g.limiter.Reserve(ctx, g.key, o.cost)
		if r != nil {
			g.open[o.ref] = r
		}
		return read(d), err
	}
	return g.end(ctx, o)
}

// end ends a reservation. The clock does not move between that and the peek
// that tells the instant.
func (g *gate) end(ctx context.Context, o offer) (answer, error) {
	r := g.open[o.ref]
	if r == nil {
		return answer{skipped: true}, nil
	}
	delete(g.open, o.ref)
	var err error
	switch o.deed {
	case commit:
		err = r.Commit(ctx)
	case correct:
		err = r.Correct(ctx, o.cost)
	case cancel:
		err = r.Cancel(ctx)
	}
	lapsed := errors.Is(err, core.ErrLapsed)
	if err != nil && !lapsed {
		return answer{}, err
	}
	d, err := g.limiter.Peek(ctx, g.key)
	return answer{admitted: !lapsed, at: d.At()}, err
}

func read(d core.Decision) answer {
	s := d.Shown()
	return answer{admitted: d.Allowed, at: s.At, fits: s.FitsAt}
}
