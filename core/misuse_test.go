package core_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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
			c.Parts[0].Done, c.Parts[0].At, c.Parts[0].FitsAt = true, 1, 1
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

// A store that heeds its context and nothing else is bounded by the limiter.
func TestRequestWaitsForItsStoreNoLongerThanTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &scripted{answer: func(ctx context.Context, _ *core.Call) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		for policy, allowed := range map[core.Policy]bool{core.Open: true, core.Closed: false, core.Local: false} {
			l := limiterWith(t, core.Config{Name: "api", Limits: []core.Limit{core.PerMinute(1)}, Store: store, OnFailure: policy})
			start := time.Now()
			d, err := l.Allow(t.Context(), someone)
			if waited := time.Since(start); waited != core.DefaultBudget {
				t.Errorf("%v: waited %v", policy, waited)
			}
			if d.Allowed != allowed || d.Reason != core.Undecided || !allowed && !errors.Is(err, core.ErrNoDecision) {
				t.Errorf("%v: %+v, %v", policy, d, err)
			}
		}
	})
}

func TestReservationThatWasNeverMadeHasEnded(t *testing.T) {
	var r core.Reservation
	for name, err := range map[string]error{
		"commit": r.Commit(t.Context()), "cancel": r.Cancel(t.Context()), "correct": r.Correct(t.Context(), 1),
	} {
		if !errors.Is(err, core.ErrEnded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A store may raise N for some keys. What the limit says by itself is then not
// the last word.
func TestQuotaThatAStoreHasRaisedIsShownAndWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		store := &scripted{answer: func(_ context.Context, c *core.Call) error {
			p := &c.Parts[0]
			p.N, p.At, p.OldestLeaves = 10, core.InstantOf(time.Now()), core.InstantOf(time.Now())+1e6
			calls++
			p.Done = calls > 2 // one look before the line, one at its head
			p.FitsAt = p.At
			if !p.Done {
				p.Used, p.FitsAt = 8, p.At+2e6
			}
			return nil
		}}
		l := limiterWith(t, core.Config{Name: "api", Limits: []core.Limit{core.PerMinute(1)}, Store: store})
		start := time.Now()
		if d, err := l.WaitN(t.Context(), someone, 5); err != nil || !d.Allowed || time.Since(start) < 2*time.Second {
			t.Errorf("after %v: %+v, %v", time.Since(start), d, err)
		}
		if got := through(l, get()).Header.Get("X-RateLimit-Limit"); got != "10" {
			t.Errorf("X-RateLimit-Limit: %s, want the quota in force", got)
		}
	})
}

func TestAnswerThatMakesNoSenseDoesNotMakeWaitSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		store := &scripted{answer: func(_ context.Context, c *core.Call) error {
			calls++
			c.Parts[0].At, c.Parts[0].FitsAt, c.Parts[0].Done = 5, 5, false
			return nil
		}}
		l := limiterWith(t, core.Config{Name: "api", Limits: []core.Limit{core.PerMinute(1)}, Store: store})
		ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer stop()
		if _, err := l.Wait(ctx, someone); !errors.Is(err, context.DeadlineExceeded) || calls > 101 {
			t.Errorf("%d calls, %v", calls, err)
		}
	})
}

func TestLimiterThatIsPrintedHidesItsSecret(t *testing.T) {
	secret := []byte("swordfish swordfish swordfish")
	l := limiterWith(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}, Secret: secret})
	for _, format := range []string{"%v", "%+v", "%s"} {
		text := fmt.Sprintf(format, l)
		if strings.Contains(text, "swordfish") || strings.Contains(text, strings.Trim(fmt.Sprint(secret[:9]), "[]")) {
			t.Errorf("%s shows the secret", format)
		}
	}
}

// What an outer handler has said of the body that it expected is not true of a
// refusal: with its Content-Length, the body would be cut off.
func TestRefusalDropsHeadersOfAnotherBody(t *testing.T) {
	l := limiterOn(t, newHandClock(), core.PerMinute(1))
	allow(t, l, 1)
	refuse := l.Handler(http.NotFoundHandler(), nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{"Content-Length": "4", "ETag": `"x"`, "Content-Encoding": "br", "Last-Modified": "now"} {
			w.Header().Set(name, value)
		}
		r.RemoteAddr = "192.0.2.1:1234"
		refuse.ServeHTTP(w, r)
	}))
	defer server.Close()
	for _, want := range []int{http.StatusNotFound, http.StatusTooManyRequests} {
		res, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != want {
			t.Fatalf("status %d, want %d", res.StatusCode, want)
		}
		if want == http.StatusTooManyRequests &&
			(len(body) < 10 || res.Header.Get("ETag")+res.Header.Get("Content-Encoding")+res.Header.Get("Last-Modified") != "") {
			t.Errorf("body %q, headers %v", body, res.Header)
		}
	}
}

func TestEmptyOriginIsNoPreflight(t *testing.T) {
	l := limiterOn(t, newHandClock(), core.PerMinute(1))
	for _, headers := range [][]string{{"Origin", "", "Access-Control-Request-Method", "PUT"}, {"Origin", "https://a.example", "Access-Control-Request-Method", ""}} {
		r := get(headers...)
		r.Method = http.MethodOptions
		if v := l.Admit(http.Header{}, keyfunc.NewRequest(r, nil, nil)); !v.Counted {
			t.Errorf("%v passes uncounted", headers)
		}
	}
}
