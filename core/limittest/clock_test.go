package limittest_test

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/core/limittest"
)

func TestAClockStartsWhereTheTimeOfABubbleDoes(t *testing.T) {
	want := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	if got := limittest.NewClock().Now(); !got.Equal(want) || got.Location() != time.UTC {
		t.Errorf("it reads %v, want %v", got, want)
	}
	synctest.Test(t, func(t *testing.T) {
		if got := limittest.NewClock().Now(); !got.Equal(time.Now()) {
			t.Errorf("it reads %v in a bubble, where it is %v", got, time.Now())
		}
	})
}

func TestAClockTurnsForwardOnly(t *testing.T) {
	clock := limittest.NewClock()
	start := clock.Now()
	for _, x := range []struct{ d, want time.Duration }{
		{0, 0}, {-1, 0}, {1, 1}, {-time.Hour, 1}, {math.MinInt64, 1}, {time.Hour, time.Hour + 1}, {time.Microsecond, time.Hour + 1001},
	} {
		clock.Advance(x.d)
		if got := clock.Now().Sub(start); got != x.want {
			t.Errorf("Advance(%v): %v after the start, want %v", x.d, got, x.want)
		}
	}
}

// As a sum of durations, the time would become negative after 292 years.
func TestAClockDoesNotWrap(t *testing.T) {
	clock := limittest.NewClock()
	for range 5 {
		before := clock.Now()
		if clock.Advance(math.MaxInt64); !clock.Now().After(before) {
			t.Fatalf("%v became %v", before, clock.Now())
		}
	}
}

func TestAClockIsTurnedByManyGoroutines(t *testing.T) {
	clock := limittest.NewClock()
	start := clock.Now()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			last := clock.Now()
			for range 1000 {
				clock.Advance(time.Microsecond)
				now := clock.Now()
				if !now.After(last) {
					t.Errorf("%v became %v", last, now)
				}
				last = now
			}
		})
	}
	group.Wait()
	if got := clock.Now().Sub(start); got != 8*time.Millisecond {
		t.Errorf("it was turned by %v, want 8ms", got)
	}
}
