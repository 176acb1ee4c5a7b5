package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// unit is what was admitted: when by Redis's clock, and how much.
type unit struct {
	at   core.Instant
	cost int64
}

// 512 callers ask for costs of few keys and many, and go away at random: no window holds
// more than N, all others are answered, and nothing goes on behind Close.
func TestManyCallersOfWhomManyLeave(t *testing.T) {
	server := redistest.Need(t)
	before := runtime.NumGoroutine()
	s, err := redisstore.Open("redis://"+server.Addr(), quiet, redisstore.NoFallback(), redisstore.NoRefusalCache())
	if err != nil {
		t.Fatal(err)
	}
	const callers, n, window = 512, 400, 200 * time.Millisecond
	counters := []*core.Counter{
		counter("load", core.Exact, window, 0), counter("slots", core.Slotted, window, 10), counter("both", core.Hybrid, window, 10),
	}
	var mu sync.Mutex
	admitted := map[string][]unit{}
	end := time.Now().Add(2 * time.Second)
	var all sync.WaitGroup
	for g := range callers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			for time.Now().Before(end) {
				c := counters[max(0, random.IntN(6)-3)]
				x := keyed(call(core.OpTake, c, n, 1+random.Int64N(3)), fmt.Sprint(random.IntN(1+g%20)))
				x.Budget = 5 * time.Second
				if random.IntN(8) == 0 {
					x.Op = core.OpPeek
				}
				ctx, cancel := context.WithCancel(context.Background())
				leaves := random.IntN(10) == 0
				if leaves {
					time.AfterFunc(time.Duration(random.Int64N(int64(3*time.Millisecond))), cancel)
				}
				err := s.Do(ctx, x)
				cancel()
				p := x.Parts[0]
				switch {
				case err != nil && (!leaves || !errors.Is(err, context.Canceled)):
					t.Errorf("%v", err)
				case err == nil && p.Done && x.Op == core.OpTake:
					mu.Lock()
					name := c.Limit + " of " + p.Key.String()
					admitted[name] = append(admitted[name], unit{p.At, p.Cost})
					mu.Unlock()
				}
				x.Parts[0].Cost = -1 // the call is the caller's again
			}
		})
	}
	all.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	total := 0
	for name, units := range admitted {
		total += len(units)
		if most := fullestWindow(units, core.Instant(window.Microseconds())); most > n {
			t.Errorf("%s: %d units in one window of %v, the limit is %d", name, most, window, n)
		}
	}
	if total < 1000 {
		t.Errorf("only %d admitted", total)
	}
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// fullestWindow returns the most units in any window (t-w, t].
func fullestWindow(units []unit, w core.Instant) (most int64) {
	slices.SortFunc(units, func(a, b unit) int { return int(a.at - b.at) })
	var sum int64
	first := 0
	for _, u := range units {
		sum += u.cost
		for units[first].at <= u.at-w {
			sum -= units[first].cost
			first++
		}
		most = max(most, sum)
	}
	return most
}

// What is answered in batches is what each call would have been answered by itself: two
// servers on one clock are asked the same, the one call by call, the other in batches.
func TestBatchesAnswerAsIfEachCallCameAlone(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 7))
		a, b := newStage(t), newStage(t)
		alone := a.store(t, redisstore.NoBatch())
		batched := newStation(t, b.mini.Addr())
		a.mini.FlushAll()
		b.mini.FlushAll()
		counters := []*core.Counter{
			counter("exact", core.Exact, time.Minute, 0), counter("other", core.Exact, 10*time.Second, 0),
			counter("slots", core.Slotted, time.Minute, 6), counter("both", core.Hybrid, time.Minute, 6),
		}
		pair := [2]*core.Counter{counter("one", core.Exact, time.Minute, 0), counter("two", core.Slotted, 20*time.Second, 4)}
		for round := range 12 {
			step := time.Duration(random.Int64N(int64(25 * time.Second)))
			if random.IntN(8) == 0 {
				step = -step / 3
			}
			a.move(step)
			b.move(step)
			// One operation on each counter and key, since only their calls keep their order.
			ops := map[string]core.Op{}
			var first, second []*core.Call
			for i := range 1 + random.IntN(12) {
				c, key := counters[random.IntN(len(counters))], fmt.Sprint(random.IntN(3))
				op, known := ops[c.Limit+key]
				if !known {
					op = [...]core.Op{core.OpTake, core.OpTake, core.OpTake, core.OpPeek, core.OpReserve}[random.IntN(5)]
					ops[c.Limit+key] = op
				}
				x := keyed(call(op, c, 6, 1+random.Int64N(3)), key)
				if op == core.OpReserve {
					x.ID[0], x.ID[1] = byte(round), byte(i)
				} else if random.IntN(6) == 0 {
					x = keyed(&core.Call{Op: core.OpTake, Parts: []core.Part{part(pair[0], 6, 1), part(pair[1], 4, 1+random.Int64N(2))}}, key)
				}
				y := *x
				y.Parts = slices.Clone(x.Parts)
				first, second = append(first, x), append(second, &y)
			}
			for _, x := range first {
				do(t, alone, x)
			}
			none(t, batched.gather(second, nil))
			for i := range first {
				for k := range first[i].Parts {
					if p, q := first[i].Parts[k], second[i].Parts[k]; p != q {
						t.Fatalf("seed %d, round %d, %s:\nby itself %+v\nbatched   %+v", seed, round, first[i].Op, p, q)
					}
				}
			}
		}
	}
}
