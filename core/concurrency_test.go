package core_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// together runs n goroutines that start at the same moment.
func together(n int, run func(i int)) {
	var ready, done sync.WaitGroup
	barrier := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-barrier
			run(i)
		})
	}
	ready.Wait()
	close(barrier)
	done.Wait()
}

func TestManyCallersOfOneKeyGetExactlyN(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		l := limiterWith(t, core.Config{Limits: []core.Limit{as(core.PerHour(500))}})
		var admitted atomic.Int64
		together(64, func(int) {
			for range 50 {
				if d := allow(t, l, 1); d.Allowed {
					admitted.Add(1)
				}
			}
		})
		if got := admitted.Load(); got != 500 {
			t.Errorf("%d were admitted", got)
		}
	})
}

func TestCallersThatArriveTogetherDoNotOvershoot(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		l := limiterWith(t, core.Config{Limits: []core.Limit{as(core.PerMinute(25))}})
		for round := range 50 {
			key := keyfunc.User(fmt.Sprint(round))
			var admitted, refused atomic.Int64
			together(50, func(int) {
				if d := allowKey(t, l, key, 1); d.Allowed {
					admitted.Add(1)
				} else {
					refused.Add(1)
				}
			})
			if admitted.Load() != 25 || refused.Load() != 25 {
				t.Fatalf("round %d: %d admitted, %d refused", round, admitted.Load(), refused.Load())
			}
		}
	})
}

func TestLimitersThatShareAStoreDoNotOvershootTogether(t *testing.T) {
	m, err := core.NewMemory(core.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	cfg := core.Config{Name: "shared", Limits: []core.Limit{core.PerMinute(50), core.PerHour(80).Slotted(6)}, Store: m}
	limiters := []*core.Limiter{limiterWith(t, cfg), limiterWith(t, cfg)}
	var admitted atomic.Int64
	together(200, func(i int) {
		if d := allow(t, limiters[i%2], 1); d.Allowed {
			admitted.Add(1)
		}
	})
	if got := admitted.Load(); got != 50 {
		t.Errorf("%d were admitted", got)
	}
	s, _ := func() (core.LimitState, bool) { d := peek(t, limiters[0], 1); return d.Limit("1h") }()
	if s.Used != 50 {
		t.Errorf("the other limit counts %d", s.Used)
	}
}

func TestTenKeysUnderLoadGetExactlyTheirQuotas(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		l := limiterWith(t, core.Config{Limits: []core.Limit{as(core.PerDay(4))}})
		var admitted [10]atomic.Int64
		together(20, func(int) {
			for i := range 500 {
				k := i % len(admitted)
				if d := allowKey(t, l, keyfunc.User(fmt.Sprint(k)), 1); d.Allowed {
					admitted[k].Add(1)
				}
			}
		})
		for k := range admitted {
			if got := admitted[k].Load(); got != 4 {
				t.Errorf("key %d: %d were admitted", k, got)
			}
		}
	})
}

// No caller is judged at an instant before that of one judged before it, even
// when the clock goes back and forth: else old units would be trimmed by a
// newer instant and counted by an older one.
func TestNoUnitIsOlderThanOneAdmittedBeforeIt(t *testing.T) {
	for name, clock := range map[string]func() time.Time{
		"clock of the process": nil,
		"clock that jumps":     func() time.Time { return time.UnixMicro(int64(start) + rand.Int64N(50)) },
	} {
		t.Run(name, func(t *testing.T) {
			m, err := core.NewMemory(core.MemoryConfig{Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			l := limiterWith(t, core.Config{Name: "test", Limits: []core.Limit{core.PerDay(10_000)}, Store: m})
			var mu sync.Mutex
			var states []core.LimitState
			together(64, func(int) {
				for range 100 {
					d := allow(t, l, 1)
					mu.Lock()
					states = append(states, d.Shown())
					mu.Unlock()
				}
			})
			slices.SortFunc(states, func(a, b core.LimitState) int { return cmp.Compare(a.Used, b.Used) })
			for i, s := range states {
				if s.Used != int64(i+1) {
					t.Fatalf("unit %d was counted as number %d", i+1, s.Used)
				}
				if i > 0 && s.At < states[i-1].At {
					t.Fatalf("unit %d is of %d, the one before it of %d", i+1, s.At, states[i-1].At)
				}
			}
		})
	}
}

// Calls that need the same keys in opposite order wait for each other in no
// circle, and both limits of each call count the same.
func TestCallsThatCrossDoNotLockUp(t *testing.T) {
	l := limiterWith(t, core.Config{Limits: []core.Limit{
		core.PerDay(core.MaxUnits).Named("from").Key(keyfunc.ByIP()),
		core.PerDay(core.MaxUnits).Named("to").Key(keyfunc.ByIP()),
		core.PerHour(core.MaxUnits).Named("all"),
	}})
	keys := make([]keyfunc.Key, 16)
	for i := range keys {
		keys[i] = keyfunc.User(fmt.Sprint(i))
	}
	const callers, calls = 32, 200
	together(callers, func(int) {
		for range calls {
			from, to := rand.IntN(len(keys)), rand.IntN(len(keys))
			allow(t, l, 1, core.ForLimit("from", keys[from]), core.ForLimit("to", keys[to]))
			allow(t, l, 1, core.ForLimit("from", keys[to]), core.ForLimit("to", keys[from]))
		}
	})
	var from, to int64
	for _, k := range keys {
		d := peek(t, l, 1, core.ForLimit("from", k), core.ForLimit("to", k))
		f, _ := d.Limit("from")
		o, _ := d.Limit("to")
		all, _ := d.Limit("all")
		from, to = from+f.Used, to+o.Used
		if f.Used != o.Used || all.Used != 2*callers*calls {
			t.Errorf("%v: %d from, %d to, %d in all", k, f.Used, o.Used, all.Used)
		}
	}
	if from != 2*callers*calls || to != from {
		t.Errorf("%d from, %d to", from, to)
	}
}

// All that can be asked at once, at once: for the race detector, and for the sum
// at the end.
func TestEveryOperationAtOnce(t *testing.T) {
	ctx := context.Background()
	l := limiterWith(t, core.Config{Secret: make([]byte, core.MinSecret), Limits: []core.Limit{
		core.PerDay(core.MaxUnits), core.PerHour(core.MaxUnits).Slotted(6), core.PerMinute(core.MaxUnits).Named("m").Hybrid(6, 0.1),
	}})
	var counted atomic.Int64
	together(16, func(i int) {
		for k := range 60 {
			var r *core.Reservation
			var err error
			if (i+k)%6 < 3 {
				if r, _, err = l.Reserve(ctx, someone, 5); err != nil {
					t.Error(err)
				}
			}
			switch (i + k) % 6 {
			case 0:
				err = r.Commit(ctx)
				counted.Add(5)
			case 1:
				err = r.Correct(ctx, 2)
				counted.Add(2)
			case 2:
				err = r.Cancel(ctx)
			case 3:
				_, err = l.Peek(ctx, someone)
			case 4:
				_, err = l.Wait(ctx, someone)
				counted.Add(1)
			case 5:
				if err = l.Reset(ctx, keyfunc.User("other")); err == nil {
					_, err = l.AllowN(ctx, someone, 3)
				}
				counted.Add(3)
			}
			if err != nil {
				t.Errorf("caller %d, round %d: %v", i, k, err)
			}
		}
	})
	d := peek(t, l, 1)
	for s := range d.Limits() {
		if s.Used != counted.Load() {
			t.Errorf("%s counts %d, want %d", s.Name(), s.Used, counted.Load())
		}
	}
}
