package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// logbook is a slog.Handler that keeps its records as lines of text.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (b *logbook) Enabled(context.Context, slog.Level) bool { return true }
func (b *logbook) WithAttrs([]slog.Attr) slog.Handler       { return b }
func (b *logbook) WithGroup(string) slog.Handler            { return b }

func (b *logbook) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line)
	return nil
}

func (b *logbook) read() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.lines)
}

// errDown is what a failing store says.
var errDown = errors.New("connection refused")

// failing returns a limiter on a store that fails while down says so.
func failing(t *testing.T, policy core.Policy, down func() error) (*core.Limiter, *logbook) {
	t.Helper()
	book := &logbook{}
	store := &scripted{answer: func(_ context.Context, c *core.Call) error {
		if err := down(); err != nil {
			return err
		}
		for i := range c.Parts {
			c.Parts[i].Done, c.Parts[i].At = true, start
		}
		return nil
	}}
	return limiterWith(t, core.Config{
		Name: "api", Limits: []core.Limit{core.PerMinute(5), core.PerHour(50)}, Store: store, OnFailure: policy, Logger: slog.New(book),
	}), book
}

func always() error { return errDown }

func TestOpenLetsPassWhatTheStoreDidNotDecide(t *testing.T) {
	l, _ := failing(t, core.Open, always)
	for _, cost := range []int64{1, 3, 99} {
		d := allow(t, l, cost)
		if !d.Allowed || d.Reason != core.Undecided || d.Cost != cost || d.RetryAfter() != 0 || d.At() != 0 || d.Shown() != (core.LimitState{}) {
			t.Errorf("cost %d: %+v", cost, d)
		}
		for s := range d.Limits() {
			t.Errorf("it tells of a limit: %+v", s)
		}
		if s, ok := d.Limit("1m"); ok {
			t.Errorf("it tells of a limit: %+v", s)
		}
	}
	if d, err := l.Wait(t.Context(), someone); err != nil || d.Reason != core.Undecided {
		t.Errorf("wait: %+v, %v", d, err)
	}
}

// There is nothing to let pass in a look.
func TestOpenGivesAnErrorToALook(t *testing.T) {
	l, _ := failing(t, core.Open, always)
	if d, err := l.Peek(t.Context(), someone); !errors.Is(err, core.ErrNoDecision) || !errors.Is(err, errDown) || d.Allowed {
		t.Errorf("peek: %+v, %v", d, err)
	}
}

func TestOpenLetsAReservationPassUncounted(t *testing.T) {
	l, _ := failing(t, core.Open, always)
	r, d, err := l.Reserve(t.Context(), someone, 1)
	if err != nil || r != nil || !d.Allowed || d.Reason != core.Undecided {
		t.Errorf("reserve: %v, %+v, %v", r, d, err)
	}
	if err := r.Commit(t.Context()); !errors.Is(err, core.ErrEnded) {
		t.Errorf("commit of what was not counted: %v", err)
	}
}

func TestClosedAndLocalGiveTheStoresError(t *testing.T) {
	for _, policy := range []core.Policy{core.Closed, core.Local} {
		l, _ := failing(t, policy, always)
		d, err := l.Allow(t.Context(), someone)
		if !errors.Is(err, core.ErrNoDecision) || !errors.Is(err, errDown) || d.Allowed || d.Shown() != (core.LimitState{}) {
			t.Errorf("%v: %+v, %v", policy, d, err)
		}
		if want := "slidegate: no decision: connection refused"; err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", policy, err, want)
		}
	}
}

func TestAFailingStoreIsLoggedOncePerChange(t *testing.T) {
	for _, policy := range []core.Policy{core.Open, core.Closed, core.Local} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var err error
				l, book := failing(t, policy, func() error { return err })
				call := func(n int) {
					for range n {
						_, _ = l.Allow(t.Context(), someone)
					}
				}
				var want []string
				check := func(more ...string) {
					t.Helper()
					want = append(want, more...)
					if got := book.read(); !slices.Equal(got, want) {
						t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
				}
				call(5)
				check()
				err = errDown
				call(7)
				check("WARN slidegate: the store gives no decision limiter=api policy=" + policy.String() + " error=connection refused")
				time.Sleep(3 * time.Second)
				err = nil
				call(4)
				check("INFO slidegate: the store answers again limiter=api undecided=7 after=3s")
				err = errors.New("another reason")
				call(1)
				check("WARN slidegate: the store gives no decision limiter=api policy=" + policy.String() + " error=another reason")
				err = nil
				time.Sleep(time.Second - time.Millisecond)
				call(1)
				check()
				time.Sleep(time.Millisecond)
				call(1)
				check("INFO slidegate: the store answers again limiter=api undecided=1 after=1s")
			})
		})
	}
}

// A dead shard among live ones must not fill the log.
func TestAStoreThatAnswersEverySecondCallIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		l, book := failing(t, core.Open, func() error {
			if calls++; calls%2 == 0 {
				return errDown
			}
			return nil
		})
		for range 1000 {
			allow(t, l, 1)
			time.Sleep(10 * time.Millisecond)
		}
		if lines := book.read(); len(lines) != 1 {
			t.Errorf("%d lines, of which %q", len(lines), lines[:min(3, len(lines))])
		}
	})
}

// The caller's own end says nothing about the store.
func TestACallerWhoWentAwayIsNoFailure(t *testing.T) {
	for _, policy := range []core.Policy{core.Open, core.Closed, core.Local} {
		before, cancel := context.WithCancel(t.Context())
		cancel()
		l, book := failing(t, policy, always)
		for name, call := range map[string]func(context.Context) error{
			"allow":   func(ctx context.Context) error { _, err := l.Allow(ctx, someone); return err },
			"peek":    func(ctx context.Context) error { _, err := l.Peek(ctx, someone); return err },
			"reserve": func(ctx context.Context) error { _, _, err := l.Reserve(ctx, someone, 1); return err },
			"wait":    func(ctx context.Context) error { _, err := l.Wait(ctx, someone); return err },
		} {
			if err := call(before); err != context.Canceled {
				t.Errorf("%v, %s: %v", policy, name, err)
			}
		}
		var during context.Context
		gone, away := context.WithCancel(t.Context())
		during = gone
		l2, book2 := failing(t, policy, func() error { away(); return errDown })
		if d, err := l2.Allow(during, someone); err != context.Canceled || d.Allowed {
			t.Errorf("%v, went away during the call: %+v, %v", policy, d, err)
		}
		late, stop := context.WithDeadline(t.Context(), time.Now().Add(-1))
		if _, err := l.Allow(late, someone); err != context.DeadlineExceeded {
			t.Errorf("%v, after its deadline: %v", policy, err)
		}
		stop()
		if lines := append(book.read(), book2.read()...); len(lines) != 0 {
			t.Errorf("%v: logged %q", policy, lines)
		}
	}
}

func TestFailuresOfManyCallersAreCounted(t *testing.T) {
	synctest.Test(t, testFailuresOfManyCallers)
}

func testFailuresOfManyCallers(t *testing.T) {
	var mu sync.Mutex
	err := errDown
	l, book := failing(t, core.Open, func() error {
		mu.Lock()
		defer mu.Unlock()
		return err
	})
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for range 10 {
				allow(t, l, 1)
			}
		})
	}
	group.Wait()
	mu.Lock()
	err = nil
	mu.Unlock()
	time.Sleep(time.Second)
	allow(t, l, 1)
	lines := book.read()
	if len(lines) != 2 || !strings.Contains(lines[1], "undecided=640 ") {
		t.Errorf("logged %q", lines)
	}
}

func TestAfterCloseNothingIsDecided(t *testing.T) {
	for _, policy := range []core.Policy{core.Local, core.Open, core.Closed} {
		ctx := t.Context()
		book := &logbook{}
		l := limiterWith(t, core.Config{Limits: []core.Limit{core.PerMinute(5)}, OnFailure: policy, Logger: slog.New(book)})
		r := reserve(t, l, 1)
		for range 3 {
			if err := l.Close(); err != nil {
				t.Fatalf("%v: close: %v", policy, err)
			}
		}
		for name, call := range map[string]func() error{
			"allow":   func() error { _, err := l.Allow(ctx, someone); return err },
			"allow n": func() error { _, err := l.AllowN(ctx, someone, 9); return err },
			"peek":    func() error { _, err := l.Peek(ctx, someone); return err },
			"wait":    func() error { _, err := l.Wait(ctx, someone); return err },
			"reserve": func() error { _, _, err := l.Reserve(ctx, someone, 1); return err },
			"reset":   func() error { return l.Reset(ctx, someone) },
			"commit":  func() error { return r.Commit(ctx) },
		} {
			if err := call(); err != core.ErrClosed { // no missing decision, and nothing of a store
				t.Errorf("%v, %s: %v", policy, name, err)
			}
		}
		if lines := book.read(); len(lines) != 0 {
			t.Errorf("%v: logged %q", policy, lines)
		}
	}
}

func TestCloseLeavesAGivenStoreOpen(t *testing.T) {
	store := &scripted{}
	l := limiterWith(t, core.Config{Name: "test", Limits: []core.Limit{core.PerMinute(5)}, Store: store})
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if store.closed != 0 {
		t.Errorf("the store was closed %d times", store.closed)
	}
	if d := allow(t, l, 1); !d.Allowed {
		t.Errorf("%+v", d)
	}
}

func TestLimitersThatAreMadeAndClosedLeaveNothingRunning(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 1000 {
		l, err := core.New(core.Config{Limits: []core.Limit{core.PerMinute(5)}})
		if err != nil {
			t.Fatal(err)
		}
		allow(t, l, 1)
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines became %d", before, runtime.NumGoroutine())
}

// A slow store holds up only those who wait for it: the limiter holds no lock
// meanwhile, and no caller of another.
func TestASlowStoreDelaysNobodyTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &scripted{answer: func(context.Context, *core.Call) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		}}
		l := limiterWith(t, core.Config{Name: "test", Limits: []core.Limit{core.PerMinute(5)}, Store: store})
		began := time.Now()
		var group sync.WaitGroup
		for i := range 50 {
			group.Go(func() { allowKey(t, l, keyfunc.User(string(rune('A'+i))), 1) })
		}
		group.Wait()
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("50 calls took %v", took)
		}
	})
}
