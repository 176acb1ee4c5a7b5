package core_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// inVirtualTime runs a test with a limiter on the default clock, which stands
// still but for those who sleep.
func inVirtualTime(t *testing.T, test func(t *testing.T, l *core.Limiter), limits ...core.Limit) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, limiterWith(t, core.Config{Limits: limits})) })
}

func TestWaitReturnsAtOnceWhileThereIsRoom(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *core.Limiter) {
		began := time.Now()
		for i := int64(1); i <= 3; i++ {
			d, err := l.Wait(t.Context(), someone)
			if err != nil || !d.Allowed || d.Shown().Used != i {
				t.Errorf("call %d: %+v, %v", i, d, err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
	}, core.PerMinute(3))
}

func TestWaitWakesAtTheInstantItFits(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		limit := as(core.PerMinute(3))
		inVirtualTime(t, func(t *testing.T, l *core.Limiter) {
			time.Sleep(1234567 * time.Nanosecond) // between two microseconds
			allow(t, l, 1)
			time.Sleep(7 * time.Second)
			allow(t, l, 2)
			fits := fitsAt(t, l, 1)
			if later := fitsAt(t, l, 3); later <= fits {
				t.Errorf("three fit at %d, one at %d", later, fits)
			}
			d, err := l.Wait(t.Context(), someone)
			if now := core.InstantOf(time.Now()); err != nil || !d.Allowed || d.At() != fits || now != fits {
				t.Errorf("woke at %d, decided at %d, want %d: %v", now, d.At(), fits, err)
			}
			fits = fitsAt(t, l, 3)
			d, err = l.WaitN(t.Context(), someone, 3)
			if err != nil || !d.Allowed || d.Cost != 3 || core.InstantOf(time.Now()) != fits {
				t.Errorf("woke at %d, want %d: %v", core.InstantOf(time.Now()), fits, err)
			}
		}, limit)
	})
}

// Those who wait for one key are served in the order in which they came, even
// where a later one asks for less and would fit sooner.
func TestWaitersAreServedInTheOrderTheyCame(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *core.Limiter) {
		allow(t, l, 4)
		var mu sync.Mutex
		var served []int
		var at []time.Duration
		var group sync.WaitGroup
		began := time.Now()
		for i, cost := range []int64{3, 1, 4, 1, 2} {
			group.Go(func() {
				d, err := l.WaitN(t.Context(), someone, cost)
				if err != nil || !d.Allowed {
					t.Errorf("caller %d: %v", i, err)
				}
				mu.Lock()
				defer mu.Unlock()
				served = append(served, i)
				at = append(at, time.Since(began))
			})
			synctest.Wait() // it is in line before the next comes
		}
		group.Wait()
		if want := []int{0, 1, 2, 3, 4}; !slices.Equal(served, want) {
			t.Errorf("served %v", served)
		}
		if want := []time.Duration{time.Minute, time.Minute, 2 * time.Minute, 3 * time.Minute, 3 * time.Minute}; !slices.Equal(at, want) {
			t.Errorf("served at %v, want %v", at, want)
		}
	}, core.PerMinute(4))
}

func TestWaitersOfOtherKeysAreNotHeldUp(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *core.Limiter) {
		allow(t, l, 1)
		began := time.Now()
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := l.Wait(t.Context(), someone); err != nil || time.Since(began) != time.Minute {
				t.Errorf("someone: %v after %v", err, time.Since(began))
			}
		})
		synctest.Wait()
		if _, err := l.Wait(t.Context(), keyfunc.User("other")); err != nil || time.Since(began) != 0 {
			t.Errorf("the other: %v after %v", err, time.Since(began))
		}
		group.Wait()
	}, core.PerMinute(1))
}

// Others take units while a caller sleeps: it waits on, and takes nothing early.
func TestWaitGoesOnWhenOthersWereFaster(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *core.Limiter) {
		allow(t, l, 1)
		began := time.Now()
		var group sync.WaitGroup
		group.Go(func() {
			d, err := l.Wait(t.Context(), someone)
			if err != nil || !d.Allowed || time.Since(began) != 90*time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
		synctest.Wait()
		time.Sleep(30 * time.Second)
		if err := l.Reset(t.Context(), someone); err != nil {
			t.Fatal(err)
		}
		allow(t, l, 1) // leaves at 90 s
		group.Wait()
	}, core.PerMinute(1))
}

func TestWaitTellsAtOnceThatItIsTooLate(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *core.Limiter) {
		allow(t, l, 1)
		for _, deadline := range []time.Duration{time.Microsecond, 30 * time.Second, time.Minute - 1} {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			began := time.Now()
			d, err := l.Wait(ctx, someone)
			if !errors.Is(err, core.ErrTooLate) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 0 {
				t.Errorf("%v: %v after %v", deadline, err, time.Since(began))
			}
			if d.Allowed || d.Reason != core.Refused || d.RetryAfter() != time.Minute {
				t.Errorf("%v: %+v", deadline, d)
			}
			cancel()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Nanosecond)
		defer cancel()
		if d, err := l.Wait(ctx, someone); err != nil || !d.Allowed {
			t.Errorf("just in time: %v", err)
		}
		if got := used(t, l); got != 1 {
			t.Errorf("%d units were taken", got)
		}
	}, core.PerMinute(1))
}

// A cost that no window holds is refused at once, however long the line is.
func TestWaitTellsAtOnceThatACostNeverFits(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *core.Limiter) {
		allow(t, l, 2)
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := l.WaitN(t.Context(), someone, 2); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		began := time.Now()
		d, err := l.WaitN(t.Context(), someone, 3)
		if !errors.Is(err, core.ErrNeverFits) || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if want := `slidegate: the cost is greater than a whole window holds (cost 3, limit "1m" of 2)`; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if d.Reason != core.NeverFits || d.Allowed || d.Cost != 3 {
			t.Errorf("%+v", d)
		}
		_, err = l.WaitN(t.Context(), someone, 0)
		wantFault(t, err, "cost", "0")
		if took := time.Since(began); took != 0 {
			t.Errorf("a cost that is none: after %v", took)
		}
		group.Wait()
	}, core.PerHour(5), core.PerMinute(2))
}

func TestWaitEndsWithItsContext(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *core.Limiter) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if d, err := l.Wait(ended, someone); err != context.Canceled || d.Allowed || d.Cost != 1 {
			t.Errorf("ended before: %+v, %v", d, err)
		}
		wantUsed(t, l, 0)
		allow(t, l, 1)

		began := time.Now()
		var group sync.WaitGroup
		wait := func(name string, ctx context.Context, want error, after time.Duration) {
			group.Go(func() {
				d, err := l.Wait(ctx, someone)
				if !errors.Is(err, want) || time.Since(began) != after || d.Allowed != (want == nil) || d.Cost != 1 {
					t.Errorf("%s: %+v, %v after %v", name, d, err, time.Since(began))
				}
			})
			synctest.Wait()
		}
		sleeping, wake := context.WithCancel(t.Context())
		inLine, leave := context.WithCancel(t.Context())
		late, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		wait("first, sleeping", sleeping, context.Canceled, 30*time.Second)
		wait("in line", inLine, context.Canceled, 10*time.Second)
		wait("in line with a deadline", late, context.DeadlineExceeded, 20*time.Second)
		wait("last", t.Context(), nil, time.Minute)
		time.Sleep(10 * time.Second)
		leave()
		time.Sleep(20 * time.Second)
		wake()
		group.Wait()
		wantUsed(t, l, 1)
	}, core.PerMinute(1))
}

// A line that everybody has left, in whatever way, is gone: many keys must not
// pile up.
func TestLinesOfWaitersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &scripted{}
		l := limiterWith(t, core.Config{Name: "test", Limits: []core.Limit{core.PerMinute(1)}, Store: store, Logger: slog.New(slog.DiscardHandler)})
		key := keyfunc.User("in line")
		first, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		store.answer = func(context.Context, *core.Call) error {
			once.Do(func() { close(first); <-release })
			return errors.New("not now")
		}
		var group sync.WaitGroup
		group.Go(func() { _, _ = l.Wait(t.Context(), key) })
		<-first
		ctx, cancel := context.WithCancel(t.Context())
		for range 10 {
			group.Go(func() { _, _ = l.Wait(ctx, key) })
		}
		synctest.Wait()
		if got := core.Waiting(l); got != 1 {
			t.Errorf("%d lines with eleven in one", got)
		}
		cancel()
		synctest.Wait()
		if got := core.Waiting(l); got != 1 {
			t.Errorf("%d lines with one in it", got)
		}
		close(release)
		group.Wait()
		if got := core.Waiting(l); got != 0 {
			t.Errorf("%d lines are left", got)
		}
	})
}

func TestWaitPassesOnWhatWentWrong(t *testing.T) {
	broken := errors.New("store on fire")
	store := &scripted{answer: func(context.Context, *core.Call) error { return broken }}
	l := limiterWith(t, core.Config{Name: "test", Limits: []core.Limit{core.PerMinute(1)}, Store: store, Logger: slog.New(slog.DiscardHandler)})
	for range 2 { // the first has left the line
		if _, err := l.Wait(t.Context(), someone); !errors.Is(err, core.ErrNoDecision) || !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
}

func TestWaitsOfManyAdmitNoMoreThanFits(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, l *core.Limiter) {
		var mu sync.Mutex
		var at []core.Instant
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				d, err := l.Wait(t.Context(), someone)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				at = append(at, d.At())
			})
		}
		group.Wait()
		slices.Sort(at)
		for i := 7; i < len(at); i++ {
			if at[i]-at[i-7] != 1_000_000 {
				t.Fatalf("units %d and %d: %d µs apart", i-7, i, at[i]-at[i-7])
			}
		}
	}, core.PerSecond(7))
}

func fitsAt(t testing.TB, l *core.Limiter, units int64) core.Instant {
	t.Helper()
	d := peek(t, l, units)
	return d.Shown().FitsAt
}
