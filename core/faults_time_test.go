package core_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
)

// The tests of this file are named for faults that rate limiters have had with
// clocks and windows.

func TestAUnitAgedExactlyOneWindowNoLongerCounts(t *testing.T) {
	const ms = time.Millisecond
	run := func(t *testing.T, in backend, limit core.Limit, calls []struct {
		at   time.Duration
		want outcome
	}) {
		t.Helper()
		c := newHandClock()
		l := limiterAt(t, in.store(t, c), limit)
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
	eachStore(t, func(t *testing.T, in backend) {
		run(t, in, core.Per(1, 10*time.Second), calls{
			{0, outcome{true, 0, 0}},
			{9999 * ms, outcome{false, 0, ms}},
			{10 * time.Second, outcome{true, 0, 0}},
		})
		run(t, in, core.PerSecond(3), calls{
			{0, outcome{true, 2, 0}}, {0, outcome{true, 1, 0}}, {0, outcome{true, 0, 0}},
			{999 * ms, outcome{false, 0, ms}},
			{1000 * ms, outcome{true, 2, 0}}, {1000 * ms, outcome{true, 1, 0}}, {1000 * ms, outcome{true, 0, 0}},
			{1000 * ms, outcome{false, 0, 1000 * ms}},
		})
		// As others that were made later still count.
		run(t, in, core.PerSecond(2), calls{
			{0, outcome{true, 1, 0}}, {500 * ms, outcome{true, 0, 0}},
			{999 * ms, outcome{false, 0, ms}},
			{1000 * ms, outcome{true, 0, 0}},
			{1500*ms - time.Microsecond, outcome{false, 0, time.Microsecond}},
			{1500 * ms, outcome{true, 0, 0}},
		})
		// By slots: the end of the unit's slot and n slots more.
		run(t, in, core.PerSecond(1).Slotted(10), calls{
			{50 * ms, outcome{true, 0, 0}},
			{1100*ms - time.Microsecond, outcome{false, 0, time.Microsecond}},
			{1100 * ms, outcome{true, 0, 0}},
			{1199 * ms, outcome{false, 0, 1001 * ms}},
		})
	})
}

func TestWindowsThatAreNoWholeSeconds(t *testing.T) {
	for _, w := range []time.Duration{
		time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, 999 * time.Millisecond,
		1001 * time.Millisecond, 1500 * time.Millisecond, 1234567 * time.Microsecond, 366 * 24 * time.Hour,
	} {
		t.Run(w.String(), func(t *testing.T) {
			eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
				c := newHandClock()
				limit := as(core.Per(5, w))
				l := limiterAt(t, in.store(t, c), limit)
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
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		c := newHandClock()
		l := limiterAt(t, in.store(t, c), as(core.Per(5, 10*time.Second)))
		for i := range in.calls(1000) {
			if d := allow(t, l, 1); !d.Allowed {
				t.Fatalf("call %d: %+v", i, d.Shown())
			}
			c.advance(9 * time.Second)
		}
	})
}

func TestABurstAcrossAWindowsEdgeDoesNotDouble(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
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
			l := limiterAt(t, in.store(t, c), limit)
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
	eachStore(t, func(t *testing.T, in backend) {
		limit := core.PerMinute(100).Slotted(6) // slots of 10 s
		for _, first := range []time.Duration{0, time.Second, 9_999_999 * time.Microsecond, 10 * time.Second} {
			c := newHandClock()
			l := limiterAt(t, in.store(t, c), limit)
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
	})
}

func TestUnitsOfLongAgoDoNotComeBack(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		limit := as(core.Per(5, 10*time.Second)) // slots of 1 s
		for _, idle := range []time.Duration{11, 12, 20, 21, 22, 34, 100, 110, 1000, 100_000_000} {
			c := newHandClock()
			l := limiterAt(t, in.store(t, c), limit)
			c.at(time.Second)
			allow(t, l, 5)
			c.advance(idle * time.Second)
			if d := allow(t, l, 1); !d.Allowed || d.Shown().Remaining() != 4 {
				t.Errorf("%v idle: %v, %d remaining", idle*time.Second, d.Allowed, d.Shown().Remaining())
			}
		}
	})
}

func TestAClockSetBackNeitherBlocksNorFreesAnyone(t *testing.T) {
	eachStore(t, func(t *testing.T, in backend) {
		c := newHandClock()
		l := limiterAt(t, in.store(t, c), core.Per(3, 10*time.Second))
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
	})
}

func TestAnHourForwardAndBackBlocksNobodyLongerThanAWindow(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		c := newHandClock()
		limit := as(core.Per(3, 10*time.Second))
		l := limiterAt(t, in.store(t, c), limit)
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
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		c := newHandClock()
		limit := as(core.PerSecond(10))
		l := limiterAt(t, in.store(t, c), limit)
		random := rand.New(rand.NewPCG(6, 7))
		var admitted []core.Instant
		last := core.Instant(0)
		calls := in.calls(5_000)
		for i := range calls {
			c.advance(time.Duration(random.IntN(30_000)-14_000) * time.Microsecond)
			if i%1000 == 399 {
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
		// The clock goes on by a millisecond per call. Each time that it is set back
		// costs what had passed since the newest unit.
		if len(admitted) < calls/250 {
			t.Errorf("only %d were admitted", len(admitted))
		}
	})
}

func TestAStepForwardThatIsUndoneDropsNothingThatCounts(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		limit := as(core.Per(3, 10*time.Second))
		for _, look := range []bool{false, true} {
			c := newHandClock()
			l := limiterAt(t, in.store(t, c), limit)
			allow(t, l, 3)
			c.advance(9 * time.Second)
			wantUsed(t, l, 3)
			c.advance(2 * time.Second) // the units have left, unless the clock is wrong
			if look {
				peek(t, l, 1)
			}
			c.advance(-10 * time.Second)
			wantWait(t, "the step undone", limit, allow(t, l, 1), 9*time.Second)
			wantUsed(t, l, 3)
		}
	})
}

func TestManySmallStepsBackNeitherBlockNorFreeAnyone(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		c := newHandClock()
		limit := as(core.Per(4, 10*time.Second))
		l := limiterAt(t, in.store(t, c), limit)
		first := core.Instant(0)
		for i := range 4 {
			d := allow(t, l, 1)
			if !d.Allowed {
				t.Errorf("call %d: %+v", i, d.Shown())
			}
			if i == 0 {
				first = d.At()
			}
			c.advance(-time.Second)
		}
		d := allow(t, l, 1)
		if d.Allowed || d.At() < first {
			t.Errorf("allowed %v at %d, the first at %d", d.Allowed, d.At(), first)
		}
		if wait := d.RetryAfter(); wait <= 0 || wait > 10*time.Second+slotOf(limit) {
			t.Errorf("wait %v", wait)
		}
		c.advance(d.RetryAfter())
		if d := allow(t, l, 1); !d.Allowed {
			t.Errorf("when told: %+v", d.Shown())
		}
	})
}

func TestTimesWithFewDigitsOfMicroseconds(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		limit := as(core.PerSecond(2))
		for _, micros := range []core.Instant{0, 1, 7, 42, 999, 1000, 10_001, 99_999, 100_000, 999_999} {
			c := newHandClock()
			l := limiterAt(t, in.store(t, c), limit)
			c.set(start + micros)
			// One unit each before and after the microseconds change their digits.
			for range 2 {
				if d := allow(t, l, 1); !d.Allowed || d.At() != c.instant() {
					t.Errorf("%d µs: allowed %v at %d, want %d", micros, d.Allowed, d.At(), c.instant())
				}
				c.advance(time.Microsecond)
			}
			wantWait(t, fmt.Sprint(micros, " µs"), limit, allow(t, l, 1), time.Second-2*time.Microsecond)
			c.set(start + micros + 1_000_000 - 1)
			if slotOf(limit) == 0 {
				wantUsed(t, l, 2)
				c.advance(time.Microsecond)
				wantUsed(t, l, 1)
			}
			c.set(start + micros + 1_000_001 + core.Instant(slotOf(limit).Microseconds()))
			wantUsed(t, l, 0)
		}
	})
}

func TestComingBackWhenToldIsInTimeAndNoSoonerHelps(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		random := rand.New(rand.NewPCG(8, 9))
		for _, limits := range [][]core.Limit{
			{as(core.Per(7, 1500*time.Millisecond))},
			{as(core.PerMinute(20)), as(core.PerSecond(6))},
			{as(core.Per(5, 100*time.Millisecond)), as(core.Per(12, time.Second)), core.Per(9, 777*time.Millisecond)},
		} {
			c := newHandClock()
			l := limiterAt(t, in.store(t, c), limits...)
			for range in.calls(400) {
				c.advance(time.Duration(random.Int64N(200_000)) * time.Microsecond)
				cost := 1 + random.Int64N(5)
				d := allow(t, l, cost)
				if d.Allowed {
					continue
				}
				wait := d.RetryAfter()
				c.advance(wait - time.Microsecond)
				if d := allow(t, l, cost); d.Allowed || d.RetryAfter() != time.Microsecond {
					t.Fatalf("%v, a microsecond before %v are over: allowed %v, wait %v", limits, wait, d.Allowed, d.RetryAfter())
				}
				c.advance(time.Microsecond)
				if d := allow(t, l, cost); !d.Allowed {
					t.Fatalf("%v, after %v: %+v", limits, wait, d.Shown())
				}
			}
		}
	})
}

func TestUnitsMadeLateInAWindowCountForAWholeOne(t *testing.T) {
	eachStoreAndAlgorithm(t, func(t *testing.T, in backend, as func(core.Limit) core.Limit) {
		const w = 10 * time.Second
		for _, later := range []time.Duration{time.Microsecond, w / 2, 9 * w / 10, w - time.Microsecond, w, w + time.Microsecond, 3 * w / 2} {
			for _, offset := range []time.Duration{0, 3 * time.Second, w - time.Microsecond} {
				limit := as(core.Per(9, w))
				c := newHandClock()
				l := limiterAt(t, in.store(t, c), limit)
				c.at(offset)
				allow(t, l, 3)
				for range 2 {
					c.advance(later)
					if d := allow(t, l, 3); !d.Allowed {
						t.Errorf("%v later: %+v", later, d.Shown())
					}
				}
				c.advance(w - time.Microsecond)
				if got := used(t, l); got < 3 {
					t.Errorf("made every %v from %v on: %d count a microsecond before a window is over", later, offset, got)
				}
				c.advance(time.Microsecond + slotOf(limit))
				wantUsed(t, l, 0)
			}
		}
	})
}
