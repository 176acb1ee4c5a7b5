package fallback_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/fallback"
)

// probes notes when each lane was probed.
type probes struct {
	mu     sync.Mutex
	at     []time.Duration
	lanes  []int
	began  time.Time
	broken uint64 // lanes whose probes fail
	busy   atomic.Int32
	budget time.Duration
}

func (p *probes) probe(ctx context.Context, lane int, budget time.Duration) error {
	if p.busy.Add(1) > 1 {
		panic("two probes at once")
	}
	defer p.busy.Add(-1)
	time.Sleep(time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.lanes, p.budget = append(p.at, time.Since(p.began)), append(p.lanes, lane), budget
	if ctx.Err() != nil || p.broken&(1<<lane) != 0 {
		return errors.New("still down")
	}
	return nil
}

// seen returns when each lane was probed.
func (p *probes) seen() (at []time.Duration, lanes []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.at), slices.Clone(p.lanes)
}

func (p *probes) set(broken uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = broken
}

// After a few failures in a row the primary is left alone, but for one probe at a time
// that come less and less often, up to every half second; once one succeeds, it is
// asked again.
func TestABreakerOpensAndAProberClosesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &probes{began: time.Now(), broken: 1}
		h := newHouse(t, fallback.Config{Probe: p.probe})
		h.primary.fail(outage(core.FailureRefused))
		h.admits(4, 1000)
		if n := h.primary.asked.Load(); n != 4 {
			t.Errorf("asked %d times", n)
		}
		h.primary.mend() // a success in between starts the count anew
		h.admits(1, 1000)
		h.primary.fail(outage(core.FailureRefused))
		h.admits(100, 1000)
		if n := h.primary.asked.Load(); n != 10 {
			t.Errorf("asked %d times, want 5 of 100", n-5)
		}
		time.Sleep(10 * time.Second)
		h.admits(100, 1000)
		if n := h.primary.asked.Load(); n != 10 {
			t.Errorf("asked while the breaker is open: %d times", n)
		}
		at, _ := p.seen()
		if n := len(at); n < 20 || n > 50 || at[0] > 26*time.Millisecond || p.budget != time.Minute {
			t.Errorf("%d probes in 10 s, the first after %v, budget %v", n, at[0], p.budget)
		}
		for i := 1; i < len(at); i++ {
			if gap := at[i] - at[i-1]; gap > 502*time.Millisecond || i > 6 && gap < 250*time.Millisecond {
				t.Errorf("%v between probes %d and %d", gap, i-1, i)
			}
		}
		h.primary.mend()
		p.set(0)
		time.Sleep(510 * time.Millisecond)
		if c := h.do(call(core.OpTake, 1000, 1)); c.Failure != core.NoFailure {
			t.Errorf("half a second after the primary answers: %v", c.Failure)
		}
		if h.Status().Healthy {
			t.Error("healthy at once, before it is known whether that lasts")
		}
		before, _ := p.seen()
		time.Sleep(2 * time.Second) // nobody asks: the prober says that all is well
		h.wantLog("WARN gives no decision failure=refused", "INFO answers again decided_locally=\"refused=204\" undecided=0 after=1")
		at, _ = p.seen()
		if st := h.Status(); !st.Healthy || !st.Since.IsZero() || len(at) != len(before) {
			t.Errorf("%+v, %d probes more", st, len(at)-len(before))
		}
	})
}

// A primary that breaks again while it is watched has one prober, soon at work.
func TestABreakerThatOpensAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &probes{began: time.Now()}
		h := newHouse(t, fallback.Config{Probe: p.probe})
		// Each time it is asked again later than the time before.
		for _, wait := range []time.Duration{25, 50, 100, 200, 400, 500, 500} {
			wait *= time.Millisecond
			h.primary.fail(outage(core.FailureTimeout))
			h.admits(10, 1000)
			if b := wait / 2; b > time.Millisecond {
				time.Sleep(b - time.Millisecond)
				if c := h.do(call(core.OpTake, 1000, 1)); c.Failure == core.NoFailure {
					t.Errorf("asked again within %v", b)
				}
			}
			h.primary.mend()
			time.Sleep(wait + 2*time.Millisecond)
			if c := h.do(call(core.OpTake, 1000, 1)); c.Failure != core.NoFailure {
				t.Errorf("%v after it broke and was mended: %v", wait, c.Failure)
			}
		}
		if at, _ := p.seen(); len(at) != 7 {
			t.Errorf("%d probes, want 7", len(at))
		}
		h.wantLog("WARN")
		time.Sleep(3 * time.Second)
		h.wantLog("WARN", "INFO decided_locally=\"timeout=77\"")
	})
}

func TestWithoutAProbeACallIsLetThroughNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, fallback.Config{Failures: 2})
		h.primary.fail(outage(core.FailureTimeout))
		h.admits(10, 10_000)
		if n := h.primary.asked.Load(); n != 2 {
			t.Fatalf("asked %d times", n)
		}
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			h.admits(1, 10_000)
		}
		if n := h.primary.asked.Load() - 2; n < 20 || n > 42 {
			t.Errorf("%d calls were let through in 10 s", n)
		}
		h.primary.mend()
		time.Sleep(510 * time.Millisecond)
		h.admits(1, 10_000)
		if c := h.do(call(core.OpTake, 10_000, 1)); c.Failure != core.NoFailure {
			t.Error("one call was answered, and the next is not let through")
		}
	})
}

// Lanes fail one by one. A call that needs a lane that is open is not asked; one probe
// fails in a turn, and lanes that work are not held up by others.
func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &probes{began: time.Now(), broken: 1<<3 | 1<<63}
		var lanes atomic.Uint64
		h := newHouse(t, fallback.Config{Probe: p.probe, Failures: 1, Lanes: func(*core.Call) uint64 { return lanes.Load() }})
		ask := func(mask uint64) core.Failure {
			lanes.Store(mask)
			return h.do(call(core.OpTake, 10_000, 1)).Failure
		}
		h.primary.fail(outage(core.FailureClusterDown))
		for _, mask := range []uint64{1 << 3, 1 << 17, 1<<18 | 1<<19, 1 << 63} {
			ask(mask)
		}
		h.primary.mend()
		for mask, want := range map[uint64]core.Failure{
			1: core.NoFailure, 1 << 3: core.FailureClusterDown, 1<<2 | 1<<3: core.FailureClusterDown, 1 << 62: core.NoFailure,
			1 << 18: core.FailureClusterDown, 1 << 63: core.FailureClusterDown,
		} {
			if got := ask(mask); got != want {
				t.Errorf("lanes %b: %v, want %v", mask, got, want)
			}
		}
		time.Sleep(200 * time.Millisecond)
		for _, mask := range []uint64{1 << 17, 1 << 18, 1 << 19, 1<<17 | 1<<19} {
			if got := ask(mask); got != core.NoFailure {
				t.Errorf("lane %b is not asked again, since others fail: %v", mask, got)
			}
		}
		if got := ask(1 << 63); got != core.FailureClusterDown {
			t.Errorf("lane 63 works: %v", got)
		}
		_, before := p.seen()
		time.Sleep(5 * time.Second)
		_, after := p.seen()
		if n := len(after) - len(before); n > 20 {
			t.Errorf("%d probes in 5 s", n)
		}
		if seen := after[len(before):]; !slices.Contains(seen, 3) || !slices.Contains(seen, 63) {
			t.Errorf("probed %v: not all in turn", seen)
		}
		p.set(0)
		time.Sleep(510 * time.Millisecond)
		if ask(1<<3) != core.NoFailure || ask(1<<63) != core.NoFailure {
			t.Error("lanes that answer are not asked")
		}
	})
}

// A late answer closes no breaker whose prober is at work.
func TestALateAnswerClosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &probes{began: time.Now(), broken: 1}
		h := newHouse(t, fallback.Config{Probe: p.probe, Failures: 1})
		slow := &slow{Store: h.primary.Store}
		h.primary.Store = slow
		var late sync.WaitGroup
		late.Go(func() { _ = h.Store.Do(t.Context(), call(core.OpTake, 10, 1)) })
		synctest.Wait()
		h.primary.fail(outage(core.FailureTimeout))
		h.admits(1, 10)
		late.Wait()
		h.primary.mend()
		if c := h.do(call(core.OpTake, 10, 1)); c.Failure != core.FailureTimeout {
			t.Errorf("the breaker is closed: %v", c.Failure)
		}
		if h.Status().Healthy {
			t.Error("healthy")
		}
	})
}

// slow is a store that takes a second to answer.
type slow struct{ core.Store }

func (s slow) Do(ctx context.Context, c *core.Call) error {
	time.Sleep(time.Second)
	return s.Store.Do(ctx, c)
}

// Closing ends the prober, at once, even while it rests.
func TestClosingEndsTheProber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
		p := &probes{began: time.Now(), broken: 1}
		h := newHouse(t, fallback.Config{Probe: p.probe, Failures: 1})
		h.primary.fail(outage(core.FailureRefused))
		h.admits(1, 10)
		time.Sleep(3 * time.Second)
		began := time.Now()
		if err := h.Store.Close(); err != nil || time.Since(began) > 10*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestDecisionsTakeNoMemory(t *testing.T) {
	h := newHouse(t, fallback.Config{})
	c := call(core.OpTake, core.MaxUnits, 1)
	c.Budget = 0 // else the primary, which keeps none by itself, is given a timer
	measure := func(what string, want core.Failure) {
		h.do(c)
		got := testing.AllocsPerRun(200, func() {
			if err := h.Store.Do(context.Background(), c); err != nil || c.Failure != want {
				t.Fatal(err, c.Failure)
			}
		})
		if got != 0 {
			t.Errorf("%s: %v allocations", what, got)
		}
	}
	if !raceDetector() {
		measure("healthy", core.NoFailure)
		h.primary.fail(outage(core.FailureRefused))
		h.admits(10, core.MaxUnits)
		measure("in an outage", core.FailureRefused)
	}
}

// A master of a cluster that is dead keeps no lane of another one waiting, however many
// lanes it has and however long their probes take.
func TestManyDeadLanesHoldUpNoOther(t *testing.T) {
	for name, dead := range map[string][2]int{"in front": {0, 21}, "amid": {22, 43}, "at the end": {43, 64}} {
		for _, alive := range []int{0, 21, 30, 43, 63} {
			if alive >= dead[0] && alive < dead[1] {
				continue
			}
			for _, order := range []string{"the dead first", "the other first"} {
				synctest.Test(t, func(t *testing.T) {
					var broken, lanes atomic.Uint64
					for lane := dead[0]; lane < dead[1]; lane++ {
						broken.Store(broken.Load() | 1<<lane)
					}
					h := newHouse(t, fallback.Config{
						Failures: 1, Lanes: func(*core.Call) uint64 { return lanes.Load() },
						Probe: func(_ context.Context, lane int, budget time.Duration) error {
							if broken.Load()&(1<<lane) == 0 {
								return nil
							}
							time.Sleep(300 * time.Millisecond)
							return context.DeadlineExceeded
						},
					})
					ask := func(mask uint64) core.Failure {
						lanes.Store(mask)
						return h.do(call(core.OpTake, 10_000, 1)).Failure
					}
					h.primary.fail(outage(core.FailureTimeout))
					list := []int{alive}
					for lane := dead[0]; lane < dead[1]; lane++ {
						list = append(list, lane)
					}
					if order == "the dead first" {
						slices.Reverse(list)
					}
					for _, lane := range list {
						ask(1 << lane)
					}
					h.primary.mend()
					time.Sleep(time.Second)
					if got := ask(1 << alive); got != core.NoFailure {
						t.Errorf("dead lanes %s, lane %d, %s: %v after a second", name, alive, order, got)
					}
					// And when they answer again, all do soon.
					broken.Store(0)
					time.Sleep(850 * time.Millisecond)
					for lane := dead[0]; lane < dead[1]; lane++ {
						if got := ask(1 << lane); got != core.NoFailure {
							t.Errorf("dead lanes %s: lane %d is not asked: %v", name, lane, got)
						}
					}
				})
			}
		}
	}
}

// Whoever finds the store healthy finds the line about it in the log.
func TestTheEndOfAnOutageIsSaidBeforeItIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &probes{began: time.Now()}
		h := newHouse(t, fallback.Config{Probe: p.probe, Failures: 1})
		h.log.slow = func() {
			if h.Status().Healthy {
				t.Error("healthy while the line is being written")
			}
		}
		h.primary.fail(outage(core.FailureTimeout))
		h.admits(1, 1000)
		h.primary.mend()
		time.Sleep(5 * time.Second)
		if !h.Status().Healthy {
			t.Error("not healthy")
		}
		h.wantLog("WARN gives no decision", "INFO answers again")
	})
}

// A call that is under way when the store is closed is told so, and no outage is logged.
func TestClosedUnderACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, fallback.Config{Failures: 1})
		h.primary.fail(errors.New("connection closed"))
		h.primary.before = func() { _ = h.Store.Close() }
		if err := h.Store.Do(t.Context(), call(core.OpTake, 10, 1)); !errors.Is(err, core.ErrClosed) || errors.Is(err, core.ErrNoDecision) {
			t.Errorf("%v", err)
		}
		h.wantLog()
	})
}
