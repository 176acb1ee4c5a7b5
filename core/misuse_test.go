package core_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

func TestSecretFromAnUnsetVariableIsAFaultAndNotNoSecret(t *testing.T) {
	_, err := core.New(core.Config{Limits: []core.Limit{core.PerMinute(1)}, Secret: []byte("")})
	if err == nil || !strings.Contains(err.Error(), "Secret = 0 bytes") {
		t.Errorf("an empty secret: %v", err)
	}
}

func TestPointerToNoStoreIsAFaultAndNoPanicLater(t *testing.T) {
	var none *core.Memory
	_, err := core.New(core.Config{Name: "api", Limits: []core.Limit{core.PerMinute(1)}, Store: none})
	if err == nil || !strings.Contains(err.Error(), "Store = *core.Memory(nil)") {
		t.Errorf("a nil *Memory: %v", err)
	}
}

func TestLimitIsGivenOneKeyAndAMisspelledNameIsNamed(t *testing.T) {
	asked := 0
	l := limiterWith(t, core.Config{
		Name: "api", Limits: []core.Limit{core.PerMinute(1).Named("address").Key(keyfunc.ByIP())},
		Store: admitting(func(*core.Call) { asked++ }),
	})
	for problem, own := range map[string][]core.LimitKey{
		"the limit is given two keys":   {core.ForLimit("address", keyfunc.User("a")), core.ForLimit("address", keyfunc.User("b"))},
		"the limiter has no such limit": {core.ForLimit("adress", keyfunc.User("a"))},
	} {
		_, err := l.Allow(t.Context(), someone, own...)
		var fault *core.FieldError
		if !errors.As(err, &fault) || fault.Problem != problem || fault.Value != own[0].Limit {
			t.Errorf("%v: %v", own, err)
		}
	}
	if asked != 0 {
		t.Errorf("the store was asked %d times", asked)
	}
}

// The deferred Cancel of a handler runs when the request's context has ended.
func TestEndOfTheRequestDoesNotLoseTheEndOfItsReservation(t *testing.T) {
	l := limiterOn(t, newHandClock(), core.PerHour(5))
	for name, end := range map[string]func(context.Context, *core.Reservation) error{
		"cancel":  func(ctx context.Context, r *core.Reservation) error { return r.Cancel(ctx) },
		"correct": func(ctx context.Context, r *core.Reservation) error { return r.Correct(ctx, 0) },
	} {
		ctx, stop := context.WithCancel(t.Context())
		r, _, err := l.Reserve(ctx, someone, 5)
		if err != nil || r == nil {
			t.Fatal(err)
		}
		stop()
		if err := end(ctx, r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := used(t, l); got != 0 {
			t.Errorf("%s: %d units are still used", name, got)
		}
	}
}

// An end that the store does not answer is given up after the budget.
func TestEndOfAReservationWaitsNoLongerThanTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &scripted{answer: func(ctx context.Context, c *core.Call) error {
			if c.Op == core.OpCancel {
				<-ctx.Done()
				return ctx.Err()
			}
			c.Parts[0].Done, c.Parts[0].At, c.Parts[0].Fits = true, 1, 1
			return nil
		}}
		l := limiterWith(t, core.Config{Name: "api", Limits: []core.Limit{core.PerMinute(1)}, Store: store, Budget: 70 * time.Millisecond})
		r, _, err := l.Reserve(t.Context(), someone, 1)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := r.Cancel(t.Context()); !errors.Is(err, core.ErrNoDecision) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancel: %v", err)
		}
		if waited := time.Since(start); waited != 70*time.Millisecond {
			t.Errorf("waited %v", waited)
		}
	})
}

// Callers of a limiter whose limits have keys of their own all pass the zero
// key. They are different parties all the same.
func TestStrangersDoNotWaitInOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiterWith(t, core.Config{Limits: []core.Limit{core.PerHour(1).Named("user").Key(keyfunc.ByIP())}})
		busy, free := core.ForLimit("user", keyfunc.User("busy")), core.ForLimit("user", keyfunc.User("free"))
		if _, err := l.Wait(t.Context(), keyfunc.Key{}, busy); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = l.Wait(t.Context(), keyfunc.Key{}, busy) }()
		synctest.Wait() // it sleeps at the head of its line
		start := time.Now()
		if _, err := l.Wait(t.Context(), keyfunc.Key{}, free); err != nil || time.Since(start) != 0 {
			t.Errorf("waited %v behind a stranger: %v", time.Since(start), err)
		}
	})
}

func TestFaultOfAKeyFunctionIsLoggedOnce(t *testing.T) {
	var log strings.Builder
	broken := errors.New("no connection to the session store")
	l := limiterWith(t, core.Config{
		Limits: []core.Limit{core.PerMinute(5)}, Logger: logInto(&log),
		Key: keyfunc.ByUser(func(r *http.Request) (string, error) { return "", broken }),
	})
	for range 3 {
		wantStatus(t, through(l, get()), http.StatusServiceUnavailable)
	}
	if n := strings.Count(log.String(), broken.Error()); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
}

// What a client gets wrong is no fault of the program's.
func TestMissingKeyIsNotLogged(t *testing.T) {
	var log strings.Builder
	l := limiterWith(t, core.Config{
		Limits: []core.Limit{core.PerMinute(5)}, Logger: logInto(&log),
		Key: keyfunc.Required(keyfunc.ByAPIKey("X-API-Key")),
	})
	wantStatus(t, through(l, get()), http.StatusBadRequest)
	if log.Len() != 0 {
		t.Errorf("logged:\n%s", &log)
	}
}
