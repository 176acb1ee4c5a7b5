package limittest_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/limittest"
	"github.com/slidegate/slidegate/core/storetest"
	"github.com/slidegate/slidegate/nethttp"
)

var (
	_       core.Store = (*limittest.Store)(nil)
	errDown            = errors.New("connection refused")
)

func TestStoreIsAStore(t *testing.T) {
	storetest.Run(t, func(tb testing.TB) *storetest.Harness {
		clock := limittest.NewClock()
		store := limittest.NewStore(tb, clock)
		return &storetest.Harness{
			Open:    func(testing.TB) core.Store { return store },
			Now:     func() core.Instant { return core.InstantOf(clock.Now()) },
			Advance: clock.Advance,
			Checks:  10, Calls: 640, Filled: 300,
		}
	})
}

func TestNewStoreIsClosedWithTheTest(t *testing.T) {
	var store *limittest.Store
	f := try(t, func(t testing.TB) { store = limittest.NewStore(t, limittest.NewClock()) })
	said(t, f)
	f.end()
	if err := store.Do(t.Context(), new(core.Call)); !errors.Is(err, core.ErrClosed) {
		t.Errorf("after the test: %v", err)
	}
}

func TestNewStoreRefusesAClockThatNobodyMade(t *testing.T) {
	_, err := core.NewMemory(core.MemoryConfig{Clock: func() time.Time { return time.Time{} }})
	f := try(t, func(t testing.TB) { limittest.NewStore(t, new(limittest.Clock)) })
	fatal(t, f, "limittest: the clock was not made by NewClock: "+err.Error())
}

// on returns a limiter of 5 in a minute on the store.
func on(t *testing.T, store core.Store, cfg core.Config) *core.Limiter {
	t.Helper()
	cfg.Name, cfg.Store, cfg.Logger, cfg.Limits = "api", store, quiet, []core.Limit{core.PerMinute(5)}
	return limittest.New(t, nil, cfg)
}

func TestABrokenStoreGivesNoDecision(t *testing.T) {
	store := limittest.NewStore(t, limittest.NewClock())
	l := on(t, store, core.Config{})
	limittest.Use(t, l, someone, 2)
	store.Break(errDown)
	for range 3 {
		if _, err := l.Allow(t.Context(), someone); !errors.Is(err, core.ErrNoDecision) || !errors.Is(err, errDown) {
			t.Errorf("broken: %v", err)
		}
	}
	store.Mend()
	if d, err := l.Peek(t.Context(), someone); err != nil || d.Shown().Used != 2 {
		t.Errorf("mended: %+v, %v", d, err)
	}
	store.Break(nil)
	want := "slidegate: no decision: slidegate: the store is broken, by limittest.Store.Break"
	if _, err := l.Allow(t.Context(), someone); !errors.Is(err, core.ErrNoDecision) || err.Error() != want {
		t.Errorf("broken for no reason: %v, want %s", err, want)
	}
}

func TestRequestsOfABrokenStore(t *testing.T) {
	for name, x := range map[string]struct {
		cfg    core.Config
		status int
	}{
		"closed": {core.Config{OnFailure: core.Closed}, 503},
		"local":  {core.Config{}, 503},
		"open":   {core.Config{OnFailure: core.Open}, 200},
		"an answer of one's own": {core.Config{OnError: func(w http.ResponseWriter, _ *http.Request, err error) {
			if errors.Is(err, core.ErrNoDecision) && errors.Is(err, errDown) {
				w.WriteHeader(http.StatusTeapot)
			}
		}}, http.StatusTeapot},
	} {
		t.Run(name, func(t *testing.T) {
			store := limittest.NewStore(t, limittest.NewClock())
			handler := nethttp.Middleware(on(t, store, x.cfg))(http.HandlerFunc(fine))
			limittest.Admitted(t, send(handler, "GET", "/"))
			store.Break(errDown)
			if w := send(handler, "GET", "/"); w.Code != x.status {
				t.Errorf("status %d, want %d", w.Code, x.status)
			}
			store.Mend()
			w := send(handler, "GET", "/")
			limittest.Admitted(t, w)
			limittest.Remaining(t, w, 3)
		})
	}
}

func TestAHangingStoreUsesUpTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := limittest.NewStore(t, nil)
		l := on(t, store, core.Config{Budget: 30 * time.Millisecond})
		store.Hang()
		start := time.Now()
		_, err := l.Allow(t.Context(), someone)
		if !errors.Is(err, core.ErrNoDecision) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if took := time.Since(start); took != 30*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		store.Mend()
		if d, err := l.Peek(t.Context(), someone); err != nil || d.Shown().Used != 0 {
			t.Errorf("the call was counted: %+v, %v", d, err)
		}
	})
}

func TestAHangingStoreLetsGoOfCallersThatGo(t *testing.T) {
	store := limittest.NewStore(t, nil)
	store.Hang()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.Do(ctx, new(core.Call)); err != context.Canceled {
		t.Errorf("%v", err)
	}
}

func TestCallsThatHangAreAnsweredByWhatFollows(t *testing.T) {
	for name, x := range map[string]struct {
		then func(*limittest.Store)
		want error
	}{
		"mend":         {(*limittest.Store).Mend, nil},
		"break":        {func(s *limittest.Store) { s.Break(errDown) }, errDown},
		"close":        {func(s *limittest.Store) { _ = s.Close() }, core.ErrClosed},
		"hang and end": {func(s *limittest.Store) { s.Hang(); s.Mend() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := limittest.NewStore(t, nil)
				l := on(t, store, core.Config{Budget: time.Hour})
				store.Hang()
				var group sync.WaitGroup
				for range 3 {
					group.Go(func() {
						if _, err := l.Allow(t.Context(), someone); !errors.Is(err, x.want) {
							t.Errorf("%v, want %v", err, x.want)
						}
					})
				}
				time.Sleep(59 * time.Minute)
				x.then(store)
				group.Wait()
				if x.want != nil {
					return
				}
				if d, err := l.Peek(t.Context(), someone); err != nil || d.Shown().Used != 3 {
					t.Errorf("%+v, %v", d, err)
				}
			})
		})
	}
}

func TestACallThatHangsGoesOnHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := limittest.NewStore(t, nil)
		store.Hang()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		done := make(chan error)
		go func() { done <- store.Do(ctx, new(core.Call)) }()
		synctest.Wait()
		store.Hang()
		start := time.Now()
		if err := <-done; err != context.DeadlineExceeded || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestAClosedStoreStaysClosed(t *testing.T) {
	store := limittest.NewStore(t, nil)
	for range 2 {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		store.Break(errDown)
		if err := store.Do(t.Context(), new(core.Call)); err != core.ErrClosed {
			t.Errorf("broken: %v", err)
		}
		store.Hang()
		if err := store.Do(t.Context(), new(core.Call)); err != core.ErrClosed {
			t.Errorf("hanging: %v", err)
		}
	}
}

func TestAStoreIsChangedWhileItIsUsed(t *testing.T) {
	store := limittest.NewStore(t, limittest.NewClock())
	l := on(t, store, core.Config{Budget: time.Minute})
	var callers, changers sync.WaitGroup
	for range 4 {
		changers.Go(func() {
			for range 500 {
				store.Hang()
				store.Break(errDown)
				store.Mend()
			}
		})
		callers.Go(func() {
			for range 500 {
				if _, err := l.Allow(t.Context(), someone); err != nil && !errors.Is(err, errDown) {
					t.Errorf("%v", err)
				}
			}
		})
	}
	changers.Wait()
	store.Mend()
	callers.Wait()
}
