package redisstore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/keyfunc"
)

// lead asks until there is a lease for the counter, and returns what is left of it.
func lead(tb testing.TB, s *redisstore.Leased, c *core.Counter, n int64) (left int64) {
	tb.Helper()
	for range 2000 {
		x := call(core.OpTake, c, n, 1)
		if err := s.Do(context.Background(), x); err != nil || !x.Parts[0].Done {
			tb.Fatalf("%+v: %v", x.Parts[0], err)
		}
		if left, leads := s.Left(x); leads && left > 1 {
			return left
		}
		time.Sleep(2 * time.Millisecond)
	}
	tb.Fatal("no lease within 2000 calls")
	return 0
}

// spend spends n units of a lease, and returns the last answer.
func spend(tb testing.TB, s *redisstore.Leased, c *core.Counter, n, units int64) core.Part {
	tb.Helper()
	var x *core.Call
	for range units {
		x = call(core.OpTake, c, n, 1)
		if !s.Spend(x) {
			tb.Fatalf("no unit of the lease: %+v", x.Parts[0])
		}
	}
	return x.Parts[0]
}

// The units of an instance that dies count until a window after the last instant at which
// it could have spent them.
func TestALeaseOfADeadInstance(t *testing.T) {
	for name, a := range algorithms {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				const n, length = 1000, 50 * time.Millisecond
				c := counter("limit", a, 2*time.Second, 10)
				s, die := w.instance(t, length)
				left := lead(t, s, c, n)
				began := do(t, s, call(core.OpPeek, c, n, 1)).At
				for now := began; now.Sub(began) < length-5*time.Millisecond; now += 1000 {
					time.Sleep(time.Millisecond)
					if _, leads := s.Left(call(core.OpTake, c, n, 1)); !leads {
						t.Fatal("the lease has ended")
					}
				}
				die()
				last := spend(t, s, c, n, left)
				other, _ := w.instance(t, length)
				time.Sleep(2*time.Second - time.Millisecond)
				before := do(t, other, call(core.OpPeek, c, n, 1))
				if before.At < last.At+1_990_000 || before.Used < left {
					t.Errorf("%v after the last of %d units was spent: %+v", before.At.Sub(last.At), left, before)
				}
				time.Sleep(8 * time.Millisecond)
				if x := do(t, other, call(core.OpPeek, c, n, 1)); x.Used > before.Used-left {
					t.Errorf("%v after: %+v", x.At.Sub(last.At), x)
				}
			})
		})
	}
}

// A lease admits within its limits alone: all else goes to Redis.
func TestWhatALeaseCovers(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		const n = 1000
		c := counter("limit", core.Exact, 10*time.Second, 0)
		s, _ := w.instance(t, 50*time.Millisecond)
		left := lead(t, s, c, n)
		var asked int
		w.change(func() { asked = w.asked })
		for name, change := range map[string]func(x *core.Call){
			"another key":     func(x *core.Call) { x.Parts[0].Key = keyfunc.User("another") },
			"another counter": func(x *core.Call) { x.Parts[0].Counter = counter("other", core.Exact, 10*time.Second, 0) },
			"another N":       func(x *core.Call) { x.Parts[0].N++ },
			"watched":         func(x *core.Call) { x.Parts[0].Watched = true },
			"too much":        func(x *core.Call) { x.Parts[0].Cost = left + 1 },
			"no cost":         func(x *core.Call) { x.Parts[0].Cost = 0 },
			"one more limit": func(x *core.Call) {
				x.Parts = append(x.Parts, part(counter("second", core.Exact, time.Minute, 0), n, 1))
			},
			"peek":    func(x *core.Call) { x.Op = core.OpPeek },
			"reserve": func(x *core.Call) { x.Op = core.OpReserve },
		} {
			x := call(core.OpTake, c, n, 1)
			change(x)
			if s.Spend(x) {
				t.Errorf("%s: answered from the lease", name)
			}
			if name != "no cost" {
				do(t, s, x)
			}
		}
		w.change(func() { asked = w.asked - asked })
		if now, _ := s.Left(call(core.OpTake, c, n, 1)); now != left || asked != 8 {
			t.Errorf("%d of %d units are left, and Redis was asked %d times, want 8", now, left, asked)
		}
		used := do(t, s, call(core.OpPeek, c, n, 1)).Used
		x := spend(t, s, c, n, left)
		if !x.Done || x.FitsAt != x.At || x.Used > used || x.Used < left || x.OldestLeaves < x.At {
			t.Errorf("the last unit of the lease: %+v", x)
		}
		if s.Spend(call(core.OpTake, c, n, 1)) {
			t.Error("more than the units of the lease")
		}
	})
}

// What is left is given back: at the end of the lease, and at the latest by Close.
func TestLeasesAreGivenBack(t *testing.T) {
	for name, end := range map[string]func(s *redisstore.Leased){
		"end":   func(*redisstore.Leased) { time.Sleep(60 * time.Millisecond) },
		"close": func(s *redisstore.Leased) { _ = s.Close() },
	} {
		for algorithm, a := range algorithms {
			t.Run(name+" "+algorithm, func(t *testing.T) {
				inWorld(t, 1, func(t *testing.T, w *world) {
					const n = 1000
					c := counter("limit", a, 10*time.Second, 10)
					s, _ := w.instance(t, 50*time.Millisecond)
					left := lead(t, s, c, n)
					before := do(t, s, call(core.OpPeek, c, n, 1)).Used
					spend(t, s, c, n, 3)
					end(s)
					other, _ := w.instance(t, 50*time.Millisecond)
					if after := do(t, other, call(core.OpPeek, c, n, 1)).Used; after != before-left+3 {
						t.Errorf("%d used before, %d after 3 of %d units were spent", before, after, left)
					}
					if s.Spend(call(core.OpTake, c, n, 1)) {
						t.Error("a unit was spent after the end")
					}
					if s.Kept(call(core.OpTake, c, n, 1)) {
						t.Error("the lease is still kept")
					}
				})
			})
		}
	}
}

// A reset by this instance ends its lease, and one that is just being asked for.
func TestResetEndsALease(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		const n = 1000
		c := counter("limit", core.Exact, 10*time.Second, 0)
		s, _ := w.instance(t, 50*time.Millisecond)
		lead(t, s, c, n)
		do(t, s, call(core.OpReset, c, n, 1))
		if s.Spend(call(core.OpTake, c, n, 1)) {
			t.Error("a unit was spent after the reset")
		}
		time.Sleep(time.Second)
		if x := do(t, s, call(core.OpPeek, c, n, 1)); x.Used != 0 {
			t.Errorf("%d used after the reset", x.Used)
		}
		spend(t, s, c, n, lead(t, s, c, n))
		w.change(func() { w.delay = 10 * time.Millisecond })
		synctest.Wait() // the keeper has asked for the next
		do(t, s, call(core.OpReset, c, n, 1))
		for range 40 {
			if _, leads := s.Left(call(core.OpTake, c, n, 1)); leads {
				t.Fatal("a lease from before the reset has begun")
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// When the reply to a keeper is lost, what Redis may have begun is taken back as soon as
// it can be reached; and what is left of a lease may be spent meanwhile.
func TestLeasesWhileRedisIsAway(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		const n = 1000
		c := counter("limit", core.Exact, 30*time.Second, 0)
		s, _ := w.instance(t, 50*time.Millisecond)
		left := lead(t, s, c, n)
		before := do(t, s, call(core.OpPeek, c, n, 1)).Used
		w.deaf.Store(true)
		spend(t, s, c, n, left) // all of it, so that the next is asked for
		time.Sleep(20 * time.Millisecond)
		if s.Spend(call(core.OpTake, c, n, 1)) {
			t.Error("a unit was spent of a lease of which nobody knows")
		}
		w.deaf.Store(false)
		if x := do(t, s, call(core.OpPeek, c, n, 1)); x.Used <= before {
			t.Fatalf("%d used, before that %d: Redis has begun no lease", x.Used, before)
		}
		time.Sleep(8 * time.Second)
		if x := do(t, s, call(core.OpPeek, c, n, 1)); x.Used != before {
			t.Errorf("%d used, want %d: the lost lease was not taken back", x.Used, before)
		}
	})
}

// Limits of one key share a lease, which fits all of them.
func TestALeaseOnSeveralLimits(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		tight, loose := counter("tight", core.Exact, 2*time.Second, 0), counter("loose", core.Slotted, time.Hour, 6)
		both := func(op core.Op) *core.Call {
			return &core.Call{Op: op, Parts: []core.Part{part(tight, 300, 1), part(loose, 5000, 1)}}
		}
		s, _ := w.instance(t, 50*time.Millisecond)
		admitted, local := int64(0), 0
		for range 2000 {
			x := both(core.OpTake)
			if s.Spend(x) {
				local++
			} else {
				do(t, s, x)
			}
			if x.Parts[0].Done && x.Parts[1].Done {
				admitted++
			}
			time.Sleep(500 * time.Microsecond)
		}
		time.Sleep(100 * time.Millisecond)
		x := both(core.OpPeek)
		do(t, s, x)
		if admitted != 300 || local < 100 || x.Parts[0].Used != 300 || x.Parts[1].Used != 300 {
			t.Errorf("%d admitted, %d of them locally, used %d and %d; want 300", admitted, local, x.Parts[0].Used, x.Parts[1].Used)
		}
	})
}

// Blocks follow the rate of their key.
func TestSizesOfLeases(t *testing.T) {
	const length = 50 * time.Millisecond
	for _, x := range []struct {
		units, spent int64
		took         time.Duration
		want         int64
	}{
		{100, 100, length, 100},                              // just right
		{100, 100, length / 2, 200},                          // spent early
		{100, 100, time.Microsecond, 400},                    // not more than four times as much
		{100, 80, length, 80},                                // some left
		{100, 10, length, 50},                                // not less than half
		{1 << 50, 1 << 50, length, 1 << 50},                  // as large as limits are
		{core.MaxUnits, core.MaxUnits, 1, core.MaxUnits * 4}, // Redis gives no more than there is
	} {
		if got := redisstore.NextLease(x.units, x.spent, x.took, length); got != x.want {
			t.Errorf("after %d of %d units in %v: %d, want %d", x.spent, x.units, x.took, got, x.want)
		}
	}
	for d, want := range map[time.Duration]time.Duration{0: length, time.Millisecond: time.Millisecond, time.Second: time.Second, time.Microsecond: 0, -1: 0, 2 * time.Second: 0} {
		got, err := redisstore.LeaseLength(d)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("length %v: %v, %v", d, got, err)
		}
	}
}

func TestLeasesTellWhatTheyDo(t *testing.T) {
	st := newStage(t)
	var spent, freed atomic.Int64
	s := redisstore.NewLeased(st.store(t), 50*time.Millisecond, func(c *core.Call) {
		if x := c.Parts[0]; c.Op == core.OpTake && x.Done && x.Key == someone && x.N == 100_000 {
			spent.Add(x.Cost)
		}
	}, func(c *core.Call) {
		if c.Parts[0].Key == someone {
			freed.Add(1)
		}
	}, nil)
	c := counter("limit", core.Exact, time.Minute, 0)
	local := int64(0)
	for local < 100 {
		x := call(core.OpTake, c, 100_000, 1)
		if s.Spend(x) {
			local++
		} else {
			do(t, s, x)
		}
	}
	_ = s.Close()
	if spent.Load() != local || freed.Load() == 0 {
		t.Errorf("%d units spent, told of %d; %d times given back", local, spent.Load(), freed.Load())
	}
}

func TestSpendingCostsNoMemory(t *testing.T) {
	st := newStage(t)
	s := redisstore.NewLeased(st.store(t), 100*time.Millisecond, nil, nil, nil)
	t.Cleanup(func() { _ = s.Close() })
	c := counter("limit", core.Exact, time.Hour, 0)
	x := call(core.OpTake, c, 1e9, 1)
	for {
		do(t, s, x)
		if left, _ := s.Left(x); left > 200 {
			break
		}
	}
	if got := testing.AllocsPerRun(100, func() { s.Spend(x) }); got > 0 && !underRaceDetector() {
		t.Errorf("%v allocations", got)
	}
}

// A key lives at least until the last unit of a lease has left.
func TestALeaseKeepsItsKey(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, c *core.Counter) {
		st := newStage(t)
		s := redisstore.NewLeased(st.store(t), 50*time.Millisecond, nil, nil, nil)
		c = counter("limit", c.Algorithm, 2*time.Second, 10)
		x := call(core.OpTake, c, 100_000, 1)
		for left := int64(0); left == 0; left, _ = s.Left(x) {
			do(t, s, x)
		}
		for _, k := range st.mini.Keys() {
			if ttl := st.mini.TTL(k); ttl < 2050*time.Millisecond || ttl > 5*time.Second {
				t.Errorf("%s lives for %v", k, ttl)
			}
		}
		_ = s.Close()
		st.advance(6 * time.Second)
		if keys := st.mini.Keys(); len(keys) > 0 {
			t.Errorf("left behind: %v", keys)
		}
	})
}

// Many goroutines, on some keys of a real cluster, two instances: what was admitted is what
// is used in the end, and nothing more than N.
func TestLeasesOnACluster(t *testing.T) {
	var instances []*redisstore.Leased
	for range 2 {
		s := redisstore.NewLeased(storeOn(t, realClusterClient(t), redisstore.Prefix(t.Name())), 10*time.Millisecond, nil, nil, nil)
		t.Cleanup(func() { _ = s.Close() })
		instances = append(instances, s)
	}
	c := counter("limit", core.Hybrid, time.Hour, 10)
	const keys, n = 3, 4000
	var admitted [keys]atomic.Int64
	var local atomic.Int64
	var all sync.WaitGroup
	for g := range 24 {
		all.Go(func() {
			s := instances[g%2]
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				x := call(core.OpTake, c, n, 1)
				x.Parts[0].Key, x.Budget = keyfunc.User(string('a'+rune(g%keys))), 5*time.Second
				if s.Spend(x) {
					local.Add(1)
					time.Sleep(100 * time.Microsecond)
				} else if err := s.Do(t.Context(), x); err != nil {
					t.Error(err)
					return
				}
				if x.Parts[0].Done {
					admitted[g%keys].Add(1)
				}
			}
		})
	}
	all.Wait()
	for _, s := range instances {
		_ = s.Close()
	}
	for k := range admitted {
		x := call(core.OpPeek, c, n, 1)
		x.Parts[0].Key = keyfunc.User(string('a' + rune(k)))
		if used := do(t, instances[0], x).Used; used != admitted[k].Load() || used > n {
			t.Errorf("key %d: %d admitted, %d used, N is %d", k, admitted[k].Load(), used, n)
		}
	}
	if local.Load() < 100 {
		t.Errorf("%d decisions were made by leases: that tests little", local.Load())
	}
}
