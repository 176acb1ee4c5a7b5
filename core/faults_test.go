package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// The tests of this file are named for faults that rate limiters have had. They run
// on every kind of store that a fault could come back on.

// wantWait fails the test unless d is a refusal whose wait is the exact one, or
// up to a slot longer.
func wantWait(t *testing.T, what string, limit core.Limit, d core.Decision, exact time.Duration) {
	t.Helper()
	if late := d.RetryAfter() - exact; d.Allowed || late < 0 || late > slotOf(limit) {
		t.Errorf("%s: allowed %v, wait %v, want %v and up to %v more", what, d.Allowed, d.RetryAfter(), exact, slotOf(limit))
	}
}

func TestSameInstantRequestsAreEachCounted(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		for _, callers := range []int{1, 100} {
			limit := as(core.PerMinute(5))
			s := in.store(t, newHandClock())
			limiters := []*core.Limiter{limiterAt(t, s, limit), limiterAt(t, another(t, s), limit)}
			remaining := make(chan int64, 100)
			together(callers, func(caller int) {
				for i := range 100 / callers {
					d := allow(t, limiters[(caller+i)%2], 1)
					if d.Allowed {
						remaining <- d.Shown().Remaining()
						continue
					}
					wantWait(t, "one too many", limit, d, time.Minute)
				}
			})
			close(remaining)
			seen := [6]int{}
			for r := range remaining {
				seen[r]++
			}
			if seen != [6]int{1, 1, 1, 1, 1, 0} {
				t.Errorf("%d callers: admitted with %v of each remaining", callers, seen)
			}
			wantUsed(t, limiters[0], 5)
		}
	})
}

func TestSameInstantCostsAreEachCountedInFull(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		c := newHandClock()
		limit := as(core.PerMinute(20))
		s := in.store(t, c)
		limiters := []*core.Limiter{limiterAt(t, s, limit), limiterAt(t, another(t, s), limit)}
		for _, at := range []time.Duration{0, time.Microsecond} { // another instant, or the same slot
			c.at(at)
			for i, cost := range []int64{2, 3, 2, 3} {
				if d := allow(t, limiters[i%2], cost); !d.Allowed {
					t.Errorf("cost %d: %+v", cost, d.Shown())
				}
			}
		}
		wantUsed(t, limiters[0], 20)
		c.at(time.Second)
		wantWait(t, "one more", limit, allow(t, limiters[1], 1), 59*time.Second)
		c.at(time.Minute + time.Microsecond + slotOf(limit))
		wantUsed(t, limiters[0], 0)
	})
}

func TestExpiredUnitsLeaveTheStore(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		c := newHandClock()
		limit := as(core.PerSecond(3))
		l := limiterAt(t, in.store(t, c), limit)
		for range 50 {
			for want := int64(2); want >= 0; want-- {
				if d := allow(t, l, 1); !d.Allowed || d.Shown().Remaining() != want {
					t.Fatalf("%+v", d.Shown())
				}
			}
			c.advance(time.Second + slotOf(limit))
		}
		wantUsed(t, l, 0)
	})
}

func TestACostCountsInFullNotAsOneCall(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		limit := as(core.PerMinute(10))
		l := limiterAt(t, in.store(t, newHandClock()), limit)
		for _, call := range []struct {
			cost      int64
			allowed   bool
			remaining int64
		}{{8, true, 2}, {3, false, 2}, {2, true, 0}, {1, false, 0}} {
			if d := allow(t, l, call.cost); d.Allowed != call.allowed || d.Shown().Remaining() != call.remaining {
				t.Errorf("cost %d: %v, %d remaining", call.cost, d.Allowed, d.Shown().Remaining())
			}
		}
	})
}

func TestTheWaitOfACostCountsAllUnitsThatMustLeave(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		c := newHandClock()
		limit := as(core.PerMinute(10))
		l := limiterAt(t, in.store(t, c), limit)
		for _, call := range []struct {
			at   time.Duration
			cost int64
		}{{0, 4}, {10 * time.Second, 4}, {20 * time.Second, 2}} {
			c.at(call.at)
			allow(t, l, call.cost)
		}
		c.at(30 * time.Second)
		for cost, want := range map[int64]time.Duration{1: 30, 4: 30, 5: 40, 7: 40, 8: 40, 9: 50, 10: 50} {
			wantWait(t, fmt.Sprintf("cost %d", cost), limit, allow(t, l, cost), want*time.Second)
		}
	})
}

func TestANegativeCostHandsNothingBack(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		l := limiterAt(t, in.store(t, newHandClock()), as(core.PerMinute(10)))
		allow(t, l, 10)
		for _, cost := range []int64{-5, -1, 0, -1 << 63} {
			_, err := l.AllowN(context.Background(), someone, cost)
			wantFault(t, err, "cost", fmt.Sprint(cost))
		}
		wantUsed(t, l, 10)
		if d := allow(t, l, 1); d.Allowed {
			t.Error("a unit was handed back")
		}
	})
}

func TestTheWaitIsNotTheWholeWindow(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		c := newHandClock()
		limit := as(core.PerMinute(10))
		l := limiterAt(t, in.store(t, c), limit)
		for i := range 10 {
			c.at(time.Duration(2*i) * time.Second)
			allow(t, l, 1)
		}
		c.at(20 * time.Second)
		d := allow(t, l, 1)
		wantWait(t, "the eleventh", limit, d, 40*time.Second)
		if d.Shown().OldestLeaves != d.Shown().FitsAt {
			t.Errorf("the oldest leaves at %d, one unit fits at %d", d.Shown().OldestLeaves, d.Shown().FitsAt)
		}
	})
}

func TestRefusalsDoNotCountAndDoNotProlongThemselves(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		c := newHandClock()
		limit := as(core.PerMinute(5))
		l := limiterAt(t, in.store(t, c), limit)
		for i := range 25 {
			if d := allow(t, l, 1); d.Allowed != (i < 5) {
				t.Errorf("call %d: %v", i, d.Allowed)
			}
		}
		fits := peekState(t, l).FitsAt
		for c.now().Before(fits.Time()) {
			if d := allow(t, l, 1); d.Allowed || d.Shown().FitsAt != fits || d.Shown().Used != 5 && d.Shown().Used != 4 {
				t.Fatalf("while refused: %+v", d.Shown())
			}
			c.advance(777 * time.Millisecond)
		}
		c.set(fits)
		if d := allow(t, l, 1); !d.Allowed {
			t.Errorf("who kept knocking is still refused: %+v", d.Shown())
		}
	})
}

func TestARaisedLimitIsNotEatenUpByEarlierRefusals(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		c := newHandClock()
		s := in.store(t, c)
		build := func(n int64) *core.Limiter {
			return limiterAt(t, s, as(core.PerMinute(n)))
		}
		low := build(5)
		for range 25 {
			allow(t, low, 1)
		}
		high := build(10)
		c.at(time.Second)
		for want := int64(4); want >= 0; want-- {
			if d := allow(t, high, 1); !d.Allowed || d.Shown().Remaining() != want {
				t.Errorf("%v, %d remaining, want %d", d.Allowed, d.Shown().Remaining(), want)
			}
		}
		wantWait(t, "the sixth", as(core.PerMinute(10)), allow(t, high, 1), 59*time.Second)
	})
}

func TestWhatOneLimitRefusesIsNotChargedToAnother(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		small := as(core.PerMinute(2).Named("b"))
		for _, limits := range [][]core.Limit{
			{as(core.PerMinute(10).Named("a")), small},
			{small, as(core.PerMinute(10).Named("a"))},
		} {
			c := newHandClock()
			l := limiterAt(t, in.store(t, c), limits...)
			for i := range 5 {
				c.at(time.Duration(i) * time.Second)
				d := allow(t, l, 1)
				if d.Allowed != (i < 2) {
					t.Errorf("call %d: %v", i, d.Allowed)
				}
				if i < 4 {
					continue
				}
				wantWait(t, "the last", small, d, 56*time.Second)
				a, _ := d.Limit("a")
				b, _ := d.Limit("b")
				if a.Remaining() != 8 || a.Violated || b.Remaining() != 0 || !b.Violated || d.Shown() != b {
					t.Errorf("a: %+v, b: %+v", a, b)
				}
			}
		}
	})
}

func TestUnitsGivenBackTooLateDoNotLowerTheCount(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		ctx := context.Background()
		for name, end := range map[string]func(*core.Reservation) error{
			"cancel":       func(r *core.Reservation) error { return r.Cancel(ctx) },
			"correct to 0": func(r *core.Reservation) error { return r.Correct(ctx, 0) },
		} {
			for _, between := range []int64{0, 2} {
				c := newHandClock()
				l := limiterAt(t, in.store(t, c), as(core.PerMinute(3)))
				r := reserve(t, l, 1)
				c.advance(61 * time.Second)
				if between > 0 {
					allow(t, l, between)
				}
				if err := end(r); !errors.Is(err, core.ErrLapsed) {
					t.Errorf("%s: %v", name, err)
				}
				for want := 2 - between; want >= 0; want-- {
					if d := allow(t, l, 1); !d.Allowed || d.Shown().Remaining() != want {
						t.Errorf("%s: %v, %d remaining, want %d", name, d.Allowed, d.Shown().Remaining(), want)
					}
				}
				if d := allow(t, l, 1); d.Allowed {
					t.Errorf("%s: one unit too many", name)
				}
			}
		}
	})
}

func TestWhatRemainsIsAdmittedAndNoMore(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		c := newHandClock()
		l := limiterAt(t, in.store(t, c), as(core.PerMinute(100)), as(core.PerSecond(30)))
		random := rand.New(rand.NewPCG(4, 5))
		for range in.calls(500) {
			c.advance(time.Duration(random.IntN(3_000_000)) * time.Microsecond)
			d := allow(t, l, 1+random.Int64N(20))
			if random.IntN(10) > 0 {
				continue
			}
			d = peek(t, l, 1)
			left := d.Shown().Remaining()
			for s := range d.Limits() {
				left = min(left, s.Remaining())
			}
			for i := range left {
				if d := allow(t, l, 1); !d.Allowed {
					t.Fatalf("%d remained, %d were admitted", left, i)
				}
			}
			if d := allow(t, l, 1); d.Allowed {
				t.Fatalf("%d remained, one more was admitted", left)
			}
		}
	})
}

func TestLimitsThatAreNoneAreRefusedWhenMade(t *testing.T) {
	for _, n := range []int64{0, -1, -1 << 63} {
		for name, l := range map[string]core.Limit{
			"per": core.Per(n, time.Minute), "second": core.PerSecond(n), "minute": core.PerMinute(n), "hour": core.PerHour(n),
			"day": core.PerDay(n), "slotted": core.PerMinute(n).Slotted(6), "hybrid": core.PerMinute(n).Hybrid(6, 0),
		} {
			_, err := core.New(core.Config{Limits: []core.Limit{l}})
			t.Run(name, func(t *testing.T) { wantFault(t, err, "Limits[0].N", fmt.Sprint(n)) })
		}
	}
	for _, w := range []time.Duration{0, -time.Second, 999 * time.Microsecond, -1 << 63} {
		_, err := core.New(core.Config{Limits: []core.Limit{core.Per(1, w)}})
		wantFault(t, err, "Limits[0].Window", w.String())
	}
}

func TestRemainingIsNeverNegative(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		c := newHandClock()
		s := in.store(t, c)
		build := func(n int64) *core.Limiter {
			return limiterAt(t, s, as(core.PerMinute(n)))
		}
		l := build(5)
		for i, want := range []int64{4, 3, 2, 1, 0, 0, 0} {
			if d := allow(t, l, 1); d.Shown().Remaining() != want || d.Allowed != (i < 5) {
				t.Errorf("call %d: %d remaining, want %d", i, d.Shown().Remaining(), want)
			}
		}
		d := allow(t, build(2), 1)
		if s := d.Shown(); d.Allowed || s.Remaining() != 0 || s.Used != 5 || s.N != 2 {
			t.Errorf("a lowered limit: %+v", s)
		}
		wantWait(t, "a lowered limit", as(core.PerMinute(2)), d, time.Minute)
	})
}

// Only memory has a number of keys that it must not exceed.
func TestAFloodOfKeysDoesNotFreeABlockedOne(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		m, err := core.NewMemory(core.MemoryConfig{MaxKeys: 1000, Clock: c.now})
		if err != nil {
			t.Fatal(err)
		}
		l := limiterWith(t, core.Config{Name: "test", Limits: []core.Limit{as(core.PerMinute(5))}, Store: m})
		allow(t, l, 5)
		for i := range 2000 {
			c.advance(time.Millisecond)
			allowKey(t, l, keyfunc.User(fmt.Sprint(i)), 1)
			if m.Len() > 1000 {
				t.Fatalf("%d keys", m.Len())
			}
		}
		if d := allow(t, l, 1); d.Allowed || d.Shown().Used != 5 {
			t.Errorf("%+v", d.Shown())
		}
	})
}

// Redis drops idle keys by their TTL, which tests of their own look at.
func TestIdleKeysDoNotPileUp(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		m := memoryOn(t, c)
		l := limiterWith(t, core.Config{Name: "test", Limits: []core.Limit{as(core.Per(5, 50*time.Millisecond))}, Store: m})
		for i := range 5_000 {
			c.advance(time.Millisecond)
			allowKey(t, l, keyfunc.User(fmt.Sprint(i)), 1)
		}
		// About 55 are live at any time.
		if got := m.Len(); got > 1000 {
			t.Errorf("%d keys are kept", got)
		}
	})
}

func TestTwoPeriodsOnOneStoreCountApart(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		c := newHandClock()
		s := in.store(t, c)
		build := func(limits ...core.Limit) *core.Limiter {
			return limiterAt(t, s, limits...)
		}
		a, b := build(as(core.PerMinute(10))), build(as(core.PerHour(30)))
		for range 10 {
			if !allow(t, a, 1).Allowed || !allow(t, b, 1).Allowed {
				t.Fatal("refused")
			}
		}
		if left := peekState(t, a).Remaining(); left != 0 {
			t.Errorf("per minute: %d remaining", left)
		}
		if left := peekState(t, b).Remaining(); left != 20 {
			t.Errorf("per hour: %d remaining", left)
		}
		c.advance(2 * time.Minute)
		if left := peekState(t, a).Remaining(); left != 10 {
			t.Errorf("per minute, later: %d remaining", left)
		}
		if left := peekState(t, b).Remaining(); left != 20 {
			t.Errorf("per hour, later: %d remaining", left)
		}
	})
}

func TestAShortWindowDoesNotTrimTheUnitsOfALongOneOfTheSameName(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		c := newHandClock()
		s := in.store(t, c)
		build := func(limit core.Limit) *core.Limiter {
			return limiterAt(t, s, as(limit).Named("quota"))
		}
		long, short := build(core.PerMinute(10)), build(core.PerSecond(3))
		allow(t, long, 5)
		c.advance(1100 * time.Millisecond)
		allow(t, short, 1)
		if d := allow(t, long, 1); !d.Allowed || d.Shown().Remaining() != 4 {
			t.Errorf("%v, %d remaining", d.Allowed, d.Shown().Remaining())
		}
		if left := peekState(t, short).Remaining(); left != 2 {
			t.Errorf("the short one: %d remaining", left)
		}
	})
}

func TestAChangedLimitKeepsItsCountsAndAChangedWindowStartsAnew(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		c := newHandClock()
		s := in.store(t, c)
		build := func(limit core.Limit) *core.Limiter {
			return limiterAt(t, s, as(limit).Named("quota"))
		}
		allow(t, build(core.PerMinute(10)), 6)
		c.advance(time.Second)
		lowered := build(core.PerMinute(8))
		if d := allow(t, lowered, 1); !d.Allowed || d.Shown().Remaining() != 1 {
			t.Errorf("the limit changed: %v, %d remaining", d.Allowed, d.Shown().Remaining())
		}
		if d := allow(t, build(core.Per(8, 30*time.Second)), 1); !d.Allowed || d.Shown().Remaining() != 7 {
			t.Errorf("the window changed: %v, %d remaining", d.Allowed, d.Shown().Remaining())
		}
		// The old window's units go by themselves.
		c.advance(2 * time.Minute)
		if left := peekState(t, lowered).Remaining(); left != 8 {
			t.Errorf("the old window, later: %d remaining", left)
		}
	})
}

func TestConcurrentCostsDoNotOvershoot(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		s := in.store(t, newHandClock())
		limit := as(core.PerMinute(25))
		limiters := []*core.Limiter{limiterAt(t, s, limit), limiterAt(t, another(t, s), limit)}
		for round := range in.calls(20) {
			for _, costs := range [][]int64{{1}, {2, 3}, {1, 7, 30}} {
				key := keyfunc.User(fmt.Sprint(round, costs))
				var units atomic.Int64
				together(50, func(i int) {
					cost := costs[i%len(costs)]
					if d := allowKey(t, limiters[i/len(costs)%2], key, cost); d.Allowed {
						units.Add(cost)
					}
				})
				// What does not fit is less than the smallest cost.
				if got := units.Load(); got > 25 || got <= 25-costs[0] {
					t.Fatalf("costs %v: %d units were admitted", costs, got)
				}
			}
		}
	})
}

func TestUnitsGivenBackTwiceCountOnce(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		ctx := context.Background()
		l := limiterAt(t, in.store(t, newHandClock()), as(core.PerMinute(6)))
		first, second := reserve(t, l, 2), reserve(t, l, 3)
		allow(t, l, 1)
		if err := first.Cancel(ctx); err != nil {
			t.Error(err)
		}
		for name, again := range map[string]error{
			"cancel": first.Cancel(ctx), "correct": first.Correct(ctx, 0), "commit": first.Commit(ctx),
		} {
			if !errors.Is(again, core.ErrEnded) {
				t.Errorf("%s: %v", name, again)
			}
		}
		wantUsed(t, l, 4)
		if err := second.Correct(ctx, 1); err != nil {
			t.Error(err)
		}
		wantUsed(t, l, 2)
		for want := int64(3); want >= 0; want-- {
			if d := allow(t, l, 1); !d.Allowed || d.Shown().Remaining() != want {
				t.Errorf("%v, %d remaining, want %d", d.Allowed, d.Shown().Remaining(), want)
			}
		}
		if d := allow(t, l, 1); d.Allowed {
			t.Error("one unit too many")
		}
	})
}

func TestUnitsGivenBackAreExactlyThoseOfTheFailedCalls(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		c := newHandClock()
		limit := as(core.PerMinute(3))
		l := limiterAt(t, in.store(t, c), limit)
		for range 3 {
			if err := reserve(t, l, 1).Cancel(context.Background()); err != nil {
				t.Error(err)
			}
			c.advance(time.Second)
		}
		for range 3 {
			if err := reserve(t, l, 1).Commit(context.Background()); err != nil {
				t.Error(err)
			}
			c.advance(time.Second)
		}
		wantWait(t, "the seventh", limit, allow(t, l, 1), 57*time.Second)
	})
}

func TestLimitsOnKeysOfTheirOwnAreChargedTogetherOrNotAtAll(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		tenant := as(core.PerMinute(10).Named("tenant")).Key(keyfunc.ByIP())
		mine := as(core.PerMinute(2).Named("mine"))
		for _, limits := range [][]core.Limit{{tenant, mine}, {mine, tenant}} {
			l := limiterAt(t, in.store(t, newHandClock()), limits...)
			own := core.ForLimit("tenant", keyfunc.User("tenant"))
			for i, user := range []string{"a", "a", "a", "b", "a", "b", "b", "c"} {
				// The third of a user is refused.
				if d := allowKey(t, l, keyfunc.User(user), 1, own); d.Allowed != (i != 2 && i != 4 && i != 6) {
					t.Errorf("call %d of %s: %v", i, user, d.Allowed)
				}
			}
			d, err := l.Peek(context.Background(), keyfunc.User("d"), own)
			if err != nil {
				t.Fatal(err)
			}
			if s, _ := d.Limit("tenant"); s.Used != 5 {
				t.Errorf("the tenant: %+v", s)
			}
			if s, _ := d.Limit("mine"); s.Used != 0 {
				t.Errorf("a new user: %+v", s)
			}
		}
	})
}

func TestLimitsOfOneNameThatCountInAnotherWayCountApart(t *testing.T) {
	eachStore(t, func(t *testing.T, in backend) {
		c := newHandClock()
		s := in.store(t, c)
		limit := core.PerMinute(5).Named("quota")
		for round, l := range []core.Limit{limit, limit.Slotted(10), limit.Slotted(6), limit.Hybrid(10, 0.5), limit.Hybrid(6, 0.5)} {
			l := limiterAt(t, s, l)
			for want := int64(4); want >= 0; want-- {
				if d := allow(t, l, 1); !d.Allowed || d.Shown().Remaining() != want {
					t.Errorf("%d: %v, %d remaining, want %d", round, d.Allowed, d.Shown().Remaining(), want)
				}
			}
		}
		for _, name := range []string{"other", "test/quota", "quota"} {
			l := limiterWith(t, core.Config{Name: name, Limits: []core.Limit{limit}, Store: s, Budget: 10 * time.Second})
			if d := allow(t, l, 5); !d.Allowed {
				t.Errorf("another limiter, %s: %+v", name, d.Shown())
			}
		}
	})
}

func TestAResetForgetsAllAndFreesAtOnce(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		l := limiterAt(t, in.store(t, newHandClock()), as(core.PerMinute(5)), as(core.PerHour(6)))
		r := reserve(t, l, 2)
		allow(t, l, 3)
		if err := l.Reset(context.Background(), someone); err != nil {
			t.Fatal(err)
		}
		wantUsed(t, l, 0)
		if err := r.Cancel(context.Background()); !errors.Is(err, core.ErrLapsed) {
			t.Errorf("the end of a reservation that was forgotten: %v", err)
		}
		if d := allow(t, l, 5); !d.Allowed || d.Shown().Remaining() > 1 {
			t.Errorf("%+v", d.Shown())
		}
	})
}
