package redisstore_test

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
	"github.com/slidegate/slidegate/core/storetest"
	"github.com/slidegate/slidegate/keyfunc"
)

// cached is a store with a refusal cache on the stage's time, and what it asks of Redis.
func (s *stage) cached(tb testing.TB) (*redisstore.Store, *asking) {
	tb.Helper()
	c := &asking{Client: s.client(tb)}
	store, err := redisstore.New(c, quiet, redisstore.NoFallback(), redisstore.RefusalClock(func() time.Duration { return s.Now().Sub(start) }))
	if err != nil {
		tb.Fatal(err)
	}
	return store, c
}

// With one instance nothing differs from asking Redis each time.
func TestStoreWithARefusalCache(t *testing.T) {
	onMiniredis(t)
	storetest.Run(t, func(tb testing.TB) *storetest.Harness {
		s := newStage(tb)
		store, _ := s.cached(tb)
		h := s.harness(nil)
		h.Open = func(testing.TB) core.Store { return store }
		h.Step = nil // a step of Redis's clock comes from elsewhere
		h.Checks, h.Calls, h.Filled = max(traces()/3, 5), 160, 50
		return h
	})
}

// Who goes on asking costs Redis a call per second, and one for each unit that leaves;
// the announced instant stays, and at that instant Redis admits.
func TestRefusalsAreRemembered(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, c *core.Counter) {
		s := newStage(t)
		store, redis := s.cached(t)
		take(t, store, c, 5, 3)
		s.advance(time.Second)
		take(t, store, c, 5, 2)
		first := do(t, store, call(core.OpTake, c, 5, 4))
		if first.Done || first.FitsAt == 0 {
			t.Fatalf("%+v", first)
		}
		asked := redis.asked.Load()
		for i := range 1000 {
			s.advance(5 * time.Millisecond)
			x := do(t, store, call(core.OpTake, c, 5, 4))
			if x.Done || x.FitsAt != first.FitsAt || x.Used != 5 || x.N != 5 || x.At < s.Now()-1 || x.At > s.Now() {
				t.Fatalf("call %d: %+v, first %+v", i, x, first)
			}
		}
		if n := redis.asked.Load() - asked; n > 6 {
			t.Errorf("1000 refusals in 5 s cost Redis %d calls", n)
		}
		if x := do(t, store, call(core.OpTake, c, 5, 3)); x.Done || x.FitsAt >= first.FitsAt && c.Algorithm == core.Exact {
			t.Errorf("a smaller cost fits sooner, and not now: %+v", x)
		}
		s.advance(first.FitsAt.Sub(s.Now()))
		if x := do(t, store, call(core.OpTake, c, 5, 4)); !x.Done {
			t.Errorf("refused at the announced instant: %+v", x)
		}
		// With room left, a smaller cost of somebody else could prolong the wait.
		asked = redis.asked.Load()
		for range 3 {
			do(t, store, call(core.OpTake, c, 5, 4))
		}
		if n := redis.asked.Load() - asked; n != 3 {
			t.Errorf("3 refusals with room left asked Redis %d times", n)
		}
	})
}

// Events of this instance are heeded at once, those of others within a second.
func TestWhatEndsARefusalEarly(t *testing.T) {
	for name, test := range map[string]struct {
		n   int64 // of the later calls
		end func(tb testing.TB, by core.Store, c *core.Counter, held *core.Call)
	}{
		"reset": {5, func(tb testing.TB, by core.Store, c *core.Counter, _ *core.Call) {
			do(tb, by, call(core.OpReset, c, 5, 1))
		}},
		"cancelled": {5, func(tb testing.TB, by core.Store, _ *core.Counter, held *core.Call) {
			held.Op = core.OpCancel
			do(tb, by, held)
		}},
		"corrected": {5, func(tb testing.TB, by core.Store, _ *core.Counter, held *core.Call) {
			held.Op, held.Parts[0].Cost = core.OpCorrect, 0
			do(tb, by, held)
		}},
		"raised": {6, func(testing.TB, core.Store, *core.Counter, *core.Call) {}},
	} {
		t.Run(name, func(t *testing.T) {
			for where, wait := range map[string]time.Duration{"here": 0, "elsewhere": time.Second} {
				s := newStage(t)
				store, _ := s.cached(t)
				by := core.Store(store)
				if where == "elsewhere" {
					by = s.store(t)
				}
				c := counter("limit", core.Exact, time.Minute, 0)
				held := reserve(t, store, c, 5, 5)
				if take(t, store, c, 5, 1).Done {
					t.Fatal("not refused")
				}
				test.end(t, by, c, held)
				s.advance(wait)
				if x := take(t, store, c, test.n, 1); !x.Done {
					t.Errorf("%s: still refused after %v: %+v", where, wait, x)
				}
			}
		})
	}
}

// A refusal is that of a key, its limits, their N and a cost; several limits keep their
// own answers.
func TestWhatARefusalCovers(t *testing.T) {
	s := newStage(t)
	store, redis := s.cached(t)
	tight, loose := counter("tight", core.Exact, time.Minute, 0), counter("loose", core.Slotted, time.Hour, 6)
	both := func(cost int64) *core.Call {
		return &core.Call{Op: core.OpTake, Parts: []core.Part{part(tight, 2, cost), part(loose, 50, cost)}}
	}
	for range 3 {
		do(t, store, both(1))
	}
	asked := redis.asked.Load()
	x := both(1)
	do(t, store, x)
	if redis.asked.Load() != asked || x.Parts[0].Done || !x.Parts[1].Done || x.Parts[0].FitsAt <= x.Parts[0].At || x.Parts[1].FitsAt != x.Parts[1].At || x.Parts[1].Used != 2 {
		t.Errorf("remembered: %+v", x.Parts)
	}
	x = both(60) // never fits the loose one
	do(t, store, x)
	if redis.asked.Load() != asked+1 || x.Parts[0].FitsAt != 0 || x.Parts[1].FitsAt != 0 {
		t.Errorf("another cost, which never fits: %+v", x.Parts)
	}
	for name, c := range map[string]*core.Call{
		"another key":    {Op: core.OpTake, Parts: []core.Part{{Counter: tight, Key: keyfunc.User("other"), N: 2, Cost: 1}}},
		"one limit only": call(core.OpTake, loose, 50, 1),
	} {
		if !do(t, store, c).Done {
			t.Errorf("%s is refused", name)
		}
	}
	watched := both(1)
	watched.Parts[1].Watched = true
	asked = redis.asked.Load()
	for range 3 {
		do(t, store, watched)
	}
	if n := redis.asked.Load() - asked; n != 1 || !watched.Parts[1].Done || watched.Parts[0].Done {
		t.Errorf("watched beside a refusal: %d calls, %+v", n, watched.Parts)
	}
}

// An instance with a cache and others without one, on one Redis: whoever is refused from
// memory would be refused by Redis too.
func TestRememberedRefusalsAreTrue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newStage(t)
		store, redis := s.cached(t)
		bare := s.store(t)
		n := rapid.Int64Range(1, 6).Draw(rt, "n")
		a := rapid.SampledFrom([]core.Algorithm{core.Exact, core.Slotted, core.Hybrid}).Draw(rt, "algorithm")
		c := counter("limit", a, time.Duration(rapid.Int64Range(1000, 5_000_000).Draw(rt, "window"))*time.Microsecond, 7)
		for range 60 {
			s.advance(time.Duration(rapid.Int64Range(0, 700_000).Draw(rt, "gap")) * time.Microsecond)
			if rapid.Bool().Draw(rt, "elsewhere") {
				take(t, bare, c, n, 1)
				continue
			}
			cost := rapid.Int64Range(1, 3).Draw(rt, "cost")
			asked := redis.asked.Load()
			x := take(t, store, c, n, cost)
			if redis.asked.Load() > asked {
				continue
			}
			truth := do(t, bare, call(core.OpPeek, c, n, cost))
			if truth.Done || x.Done || x.At != truth.At || x.Used != truth.Used || x.FitsAt != truth.FitsAt || x.OldestLeaves != truth.OldestLeaves {
				rt.Fatalf("from memory %+v, but Redis says %+v", x, truth)
			}
		}
	})
}

// An answer that is older than an event is not remembered.
func TestAnOldRefusalIsNotRemembered(t *testing.T) {
	st := newStage(t)
	g := &gate{Client: st.client(t), open: make(chan struct{})}
	store, err := redisstore.New(g, quiet, redisstore.NoFallback())
	if err != nil {
		t.Fatal(err)
	}
	c := counter("limit", core.Exact, time.Minute, 0)
	take(t, store, c, 1, 1)
	g.closed.Store(true)
	var late sync.WaitGroup
	late.Go(func() { take(t, store, c, 1, 1) })
	for g.passed.Load() < 2 && st.mini.CommandCount() < 4 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // refused by now, and the answer is held back
	other := st.store(t)
	do(t, other, call(core.OpReset, c, 1, 1))
	g.closed.Store(false)
	do(t, store, call(core.OpReset, c, 1, 1)) // the event, of this instance
	close(g.open)
	late.Wait()
	if x := take(t, store, c, 1, 1); !x.Done {
		t.Errorf("refused by an answer from before the reset: %+v", x)
	}
}

func TestTheRefusalCacheCostsNoMemoryPerHit(t *testing.T) {
	s := newStage(t)
	store, _ := s.cached(t)
	c := counter("limit", core.Exact, time.Minute, 0)
	take(t, store, c, 1, 1)
	x := call(core.OpTake, c, 1, 1)
	do(t, store, x)
	if got := testing.AllocsPerRun(100, func() { _ = store.Do(context.Background(), x) }); got > 0 && !underRaceDetector() {
		t.Errorf("%v allocations", got)
	}
}

// Many goroutines on few keys, some of which give back: no unit over N, and whoever
// waits as long as is announced passes.
func TestTheRefusalCacheUnderLoad(t *testing.T) {
	server := redistest.Need(t)
	store, err := redisstore.Open("redis://"+server.Addr()+"?pool_timeout=20s", quiet, redisstore.NoFallback())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	c := counter("limit", core.Exact, 200*time.Millisecond, 0)
	var callers sync.WaitGroup
	var early atomic.Int64
	for range 16 {
		callers.Go(func() {
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				x := call(core.OpReserve, c, 4, 1)
				_, _ = rand.Read(x.ID[:])
				x.Budget = 20 * time.Second
				p := do(t, store, x)
				if !p.Done {
					if p.FitsAt <= p.At || p.FitsAt-p.At > 200_000 {
						early.Add(1)
					}
					time.Sleep(time.Millisecond)
					continue
				}
				x.Op, x.Parts[0].Reserved, x.Parts[0].ReservedAt = core.OpCancel, 1, p.At
				do(t, store, x)
			}
		})
	}
	callers.Wait()
	if early.Load() > 0 {
		t.Errorf("%d refusals announce an instant that is none", early.Load())
	}
}

// Redis's clock was set forward, and another cost has told so: what was remembered would
// be over by it, and is asked for again.
func TestARefusalThatAForwardStepHasEnded(t *testing.T) {
	s := newStage(t)
	store, redis := s.cached(t)
	c := counter("limit", core.Exact, time.Minute, 0)
	take(t, store, c, 5, 1)
	s.advance(10 * time.Second)
	take(t, store, c, 5, 4)
	for range 2 {
		if x := take(t, store, c, 5, 1); x.Done {
			t.Fatalf("%+v", x)
		}
	}
	asked := redis.asked.Load()
	s.mini.SetTime(s.Now().Time().Add(51 * time.Second)) // the first unit has left
	if x := take(t, store, c, 5, 2); x.Done || redis.asked.Load() != asked+1 {
		t.Fatalf("%+v, asked %d times", x, redis.asked.Load()-asked)
	}
	x := take(t, store, c, 5, 1)
	if !x.Done || redis.asked.Load() != asked+2 {
		t.Errorf("%+v, asked %d times: want it admitted by Redis", x, redis.asked.Load()-asked)
	}
	if x.FitsAt < x.At {
		t.Errorf("a wait below zero: %+v", x)
	}
}

// What is taken from one of its limits alone ends what is remembered of both.
func TestARefusalIsOutdatedByAnotherCallOnItsLimits(t *testing.T) {
	s := newStage(t)
	store, _ := s.cached(t)
	a, b := counter("a", core.Exact, time.Minute, 0), counter("b", core.Exact, time.Minute, 0)
	both := func() *core.Call {
		return &core.Call{Op: core.OpTake, Parts: []core.Part{part(a, 10, 1), part(b, 1, 1)}}
	}
	for i, done := range []bool{true, false, false} {
		if x := do(t, store, both()); x.Used != 1 || x.Done != true && done {
			t.Fatalf("call %d: %+v", i, x)
		}
	}
	take(t, store, a, 10, 2)
	if x := do(t, store, both()); x.Used != 3 {
		t.Errorf("%d used of the limit that has room, want 3", x.Used)
	}
}
