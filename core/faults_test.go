package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// The tests of this file are named for faults that rate limiters have had.

// wantWait fails the test unless d is a refusal whose wait is the exact one, or
// up to a slot longer.
func wantWait(t *testing.T, what string, limit core.Limit, d core.Decision, exact time.Duration) {
	t.Helper()
	if late := d.RetryAfter() - exact; d.Allowed || late < 0 || late > slotOf(limit) {
		t.Errorf("%s: allowed %v, wait %v, want %v and up to %v more", what, d.Allowed, d.RetryAfter(), exact, slotOf(limit))
	}
}

func TestSameInstantRequestsAreEachCounted(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		for _, callers := range []int{1, 100} {
			limit := as(core.PerMinute(5))
			cfg := core.Config{Name: "test", Limits: []core.Limit{limit}, Store: memoryOn(t, newHandClock())}
			limiters := []*core.Limiter{limiterWith(t, cfg), limiterWith(t, cfg)}
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

func TestExpiredUnitsLeaveTheStore(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		limit := as(core.PerSecond(3))
		l := limiterOn(t, c, limit)
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

func TestAUnitAgedExactlyOneWindowNoLongerCounts(t *testing.T) {
	const ms = time.Millisecond
	run := func(limit core.Limit, calls []struct {
		at   time.Duration
		want outcome
	}) {
		t.Helper()
		c := newHandClock()
		l := limiterOn(t, c, limit)
		for i, call := range calls {
			c.at(call.at)
			if got := outcomeOf(allow(t, l, 1)); got != call.want {
				t.Errorf("%v, call %d at %v: %+v, want %+v", limit, i, call.at, got, call.want)
			}
		}
	}
	type calls = []struct {
		at   time.Duration
		want outcome
	}
	run(core.Per(1, 10*time.Second), calls{
		{0, outcome{true, 0, 0}},
		{9999 * ms, outcome{false, 0, ms}},
		{10 * time.Second, outcome{true, 0, 0}},
	})
	run(core.PerSecond(3), calls{
		{0, outcome{true, 2, 0}}, {0, outcome{true, 1, 0}}, {0, outcome{true, 0, 0}},
		{999 * ms, outcome{false, 0, ms}},
		{1000 * ms, outcome{true, 2, 0}}, {1000 * ms, outcome{true, 1, 0}}, {1000 * ms, outcome{true, 0, 0}},
		{1000 * ms, outcome{false, 0, 1000 * ms}},
	})
	// By slots: the end of the unit's slot and n slots more.
	run(core.PerSecond(1).Slotted(10), calls{
		{50 * ms, outcome{true, 0, 0}},
		{1100*ms - time.Microsecond, outcome{false, 0, time.Microsecond}},
		{1100 * ms, outcome{true, 0, 0}},
		{1199 * ms, outcome{false, 0, 1001 * ms}},
	})
}

func TestACostCountsInFullNotAsOneCall(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		limit := as(core.PerMinute(10))
		l := limiterOn(t, newHandClock(), limit)
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
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		limit := as(core.PerMinute(10))
		l := limiterOn(t, c, limit)
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
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		l := limiterOn(t, newHandClock(), as(core.PerMinute(10)))
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
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		limit := as(core.PerMinute(10))
		l := limiterOn(t, c, limit)
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
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		limit := as(core.PerMinute(5))
		l := limiterOn(t, c, limit)
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
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		m := memoryOn(t, c)
		build := func(n int64) *core.Limiter {
			return limiterWith(t, core.Config{Name: "api", Limits: []core.Limit{as(core.PerMinute(n))}, Store: m})
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
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		small := as(core.PerMinute(2).Named("b"))
		for _, limits := range [][]core.Limit{
			{as(core.PerMinute(10).Named("a")), small},
			{small, as(core.PerMinute(10).Named("a"))},
		} {
			c := newHandClock()
			l := limiterOn(t, c, limits...)
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

func TestWindowsThatAreNoWholeSeconds(t *testing.T) {
	for _, w := range []time.Duration{
		time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, 999 * time.Millisecond,
		1001 * time.Millisecond, 1500 * time.Millisecond, 1234567 * time.Microsecond, 366 * 24 * time.Hour,
	} {
		t.Run(w.String(), func(t *testing.T) {
			eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
				c := newHandClock()
				limit := as(core.Per(5, w))
				l := limiterOn(t, c, limit)
				for range 3 {
					for want := int64(4); want >= 0; want-- {
						if d := allow(t, l, 1); !d.Allowed || d.Shown().Remaining() != want {
							t.Fatalf("%v, %d remaining, want %d", d.Allowed, d.Shown().Remaining(), want)
						}
					}
					d := allow(t, l, 1)
					wantWait(t, "the sixth", limit, d, w)
					c.advance(w - time.Microsecond)
					if d := allow(t, l, 1); d.Allowed {
						t.Fatal("admitted before a window had passed")
					}
					c.advance(time.Microsecond + slotOf(limit))
				}
			})
		})
	}
}

func TestASteadyCallerWithinTheLimitIsNeverRefused(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		l := limiterOn(t, c, as(core.Per(5, 10*time.Second)))
		for i := range 1000 {
			if d := allow(t, l, 1); !d.Allowed {
				t.Fatalf("call %d: %+v", i, d.Shown())
			}
			c.advance(9 * time.Second)
		}
	})
}

func TestUnitsGivenBackTooLateDoNotLowerTheCount(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		ctx := context.Background()
		for name, end := range map[string]func(*core.Reservation) error{
			"cancel":       func(r *core.Reservation) error { return r.Cancel(ctx) },
			"correct to 0": func(r *core.Reservation) error { return r.Correct(ctx, 0) },
		} {
			for _, between := range []int64{0, 2} {
				c := newHandClock()
				l := limiterOn(t, c, as(core.PerMinute(3)))
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

func TestABurstAcrossAWindowsEdgeDoesNotDouble(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		limit := as(core.PerMinute(10))
		for _, test := range []struct {
			first, second time.Duration
			early         int64
		}{
			{58_700 * time.Millisecond, 60_200 * time.Millisecond, 10},
			{59 * time.Second, 61 * time.Second, 9},
			{59_999_999 * time.Microsecond, 60 * time.Second, 10},
			{time.Second, 60 * time.Second, 10},
		} {
			c := newHandClock()
			l := limiterOn(t, c, limit)
			c.at(test.first)
			admitted := int64(0)
			for range test.early {
				if d := allow(t, l, 1); d.Allowed {
					admitted++
				}
			}
			c.at(test.second)
			for range 10 {
				d := allow(t, l, 1)
				if d.Allowed {
					admitted++
					continue
				}
				wantWait(t, "after the edge", limit, d, test.first+time.Minute-test.second)
			}
			if admitted != 10 {
				t.Errorf("%v and %v: %d were admitted", test.first, test.second, admitted)
			}
		}
	})
}

func TestNoSlotIsForgottenBeforeItsLastUnitMayGo(t *testing.T) {
	limit := core.PerMinute(100).Slotted(6) // slots of 10 s
	for _, first := range []time.Duration{0, time.Second, 9_999_999 * time.Microsecond, 10 * time.Second} {
		c := newHandClock()
		l := limiterOn(t, c, limit)
		c.at(first)
		allow(t, l, 100)
		leaves := first.Truncate(10*time.Second) + 70*time.Second
		for at := first; at < leaves; at += 333 * time.Millisecond {
			c.at(at)
			if got := used(t, l); got != 100 {
				t.Fatalf("units of %v: %d count at %v", first, got, at)
			}
		}
		c.at(leaves - time.Microsecond)
		wantUsed(t, l, 100)
		c.at(leaves)
		wantUsed(t, l, 0)
	}
}

func TestUnitsOfLongAgoDoNotComeBack(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		limit := as(core.Per(5, 10*time.Second)) // slots of 1 s
		for _, idle := range []time.Duration{11, 12, 20, 21, 22, 34, 100, 110, 1000, 100_000_000} {
			c := newHandClock()
			l := limiterOn(t, c, limit)
			c.at(time.Second)
			allow(t, l, 5)
			c.advance(idle * time.Second)
			if d := allow(t, l, 1); !d.Allowed || d.Shown().Remaining() != 4 {
				t.Errorf("%v idle: %v, %d remaining", idle*time.Second, d.Allowed, d.Shown().Remaining())
			}
		}
	})
}

func TestWhatRemainsIsAdmittedAndNoMore(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		l := limiterOn(t, c, as(core.PerMinute(100)), as(core.PerSecond(30)))
		random := rand.New(rand.NewPCG(4, 5))
		for range 500 {
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

func TestAClockSetBackNeitherBlocksNorFreesAnyone(t *testing.T) {
	c := newHandClock()
	l := limiterOn(t, c, core.Per(3, 10*time.Second))
	// When the clock reads 50 s, the key's time goes on from 102 s.
	for _, call := range []struct {
		at   time.Duration
		want outcome
	}{
		{100_000, outcome{true, 2, 0}},
		{101_000, outcome{true, 1, 0}},
		{102_000, outcome{true, 0, 0}},
		{50_000, outcome{false, 0, 8 * time.Second}},
		{57_999, outcome{false, 0, time.Millisecond}},
		{58_000, outcome{true, 0, 0}},
		{58_999, outcome{false, 0, time.Millisecond}},
		{59_000, outcome{true, 0, 0}},
	} {
		c.at(call.at * time.Millisecond)
		if got := outcomeOf(allow(t, l, 1)); got != call.want {
			t.Errorf("at %v: %+v, want %+v", call.at*time.Millisecond, got, call.want)
		}
	}
}

func TestAnHourForwardAndBackBlocksNobodyLongerThanAWindow(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		limit := as(core.Per(3, 10*time.Second))
		l := limiterOn(t, c, limit)
		allow(t, l, 1)
		c.at(time.Hour)
		allow(t, l, 3)
		c.at(time.Second)
		wantWait(t, "set back", limit, allow(t, l, 1), 10*time.Second)
		c.advance(10*time.Second - time.Microsecond)
		if d := allow(t, l, 1); d.Allowed {
			t.Error("setting the clock back has freed units")
		}
		c.advance(time.Microsecond + slotOf(limit))
		if d := allow(t, l, 3); !d.Allowed {
			t.Errorf("a window later: %+v", d.Shown())
		}
	})
}

func TestAClockThatJitters(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		limit := as(core.PerSecond(10))
		l := limiterOn(t, c, limit)
		random := rand.New(rand.NewPCG(6, 7))
		var admitted []core.Instant
		last := core.Instant(0)
		for i := range 10_000 {
			c.advance(time.Duration(random.IntN(30_000)-14_000) * time.Microsecond)
			if i%1000 == 999 {
				c.advance(-time.Hour)
			}
			d := allow(t, l, 1)
			wait := d.RetryAfter()
			if d.At() < last && d.Allowed || wait < 0 || wait > time.Second+slotOf(limit) || d.Allowed == (wait > 0) {
				t.Fatalf("call %d: at %d after %d, wait %v", i, d.At(), last, wait)
			}
			if d.Allowed {
				last = d.At()
				admitted = append(admitted, d.At())
			}
		}
		for i := 10; i < len(admitted); i++ {
			if admitted[i].Sub(admitted[i-10]) < time.Second {
				t.Fatalf("eleven units within %v", admitted[i].Sub(admitted[i-10]))
			}
		}
		if len(admitted) < 60 { // the clock goes on by a millisecond per call: 10 s
			t.Errorf("only %d were admitted", len(admitted))
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
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		m := memoryOn(t, c)
		build := func(n int64) *core.Limiter {
			return limiterWith(t, core.Config{Name: "api", Limits: []core.Limit{as(core.PerMinute(n))}, Store: m})
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
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		m := memoryOn(t, c)
		build := func(limits ...core.Limit) *core.Limiter {
			return limiterWith(t, core.Config{Name: "api", Limits: limits, Store: m})
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
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		m := memoryOn(t, c)
		build := func(limit core.Limit) *core.Limiter {
			return limiterWith(t, core.Config{Name: "api", Limits: []core.Limit{as(limit).Named("quota")}, Store: m})
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
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		m := memoryOn(t, c)
		build := func(limit core.Limit) *core.Limiter {
			return limiterWith(t, core.Config{Name: "api", Limits: []core.Limit{as(limit).Named("quota")}, Store: m})
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
