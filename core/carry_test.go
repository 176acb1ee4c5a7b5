package core_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// keeping returns a limiter that keeps its decisions.
func keeping(t *testing.T, name string, limit core.Limit) *core.Limiter {
	return limiterWith(t, core.Config{Name: name, Limits: []core.Limit{limit}, Store: memoryOn(t, newHandClock()), KeepDecision: true})
}

type userKey struct{}

func TestHandlersFindTheDecision(t *testing.T) {
	outer, inner := keeping(t, "outer", core.PerHour(100)), keeping(t, "inner", core.PerMinute(5))
	stranger := keeping(t, "stranger", core.PerDay(1))
	ran := false
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ran = true
		ctx := r.Context()
		for _, test := range []struct {
			name      string
			find      func(context.Context) (core.Decision, bool)
			found     bool
			remaining int64
		}{
			{"the innermost", core.DecisionFrom, true, 4},
			{"the inner limiter's", inner.DecisionFrom, true, 4},
			{"the outer limiter's", outer.DecisionFrom, true, 99},
			{"that of a limiter elsewhere", stranger.DecisionFrom, false, 0},
		} {
			d, ok := test.find(ctx)
			if ok != test.found || d.Allowed != test.found || d.Shown().Remaining() != test.remaining {
				t.Errorf("%s: found %v with %d remaining", test.name, ok, d.Shown().Remaining())
			}
		}
		if ctx.Value(userKey{}) != "ada" {
			t.Error("the values of the context around it are gone")
		}
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the deadline of the context around it is gone")
		}
	})
	between := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.Handler(handler, nil).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, "ada")))
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	outer.Handler(between, nil).ServeHTTP(blank{http.Header{}}, get().WithContext(ctx))
	if !ran {
		t.Error("the handler did not run")
	}
}

func TestNobodyFindsADecisionThatIsNotKept(t *testing.T) {
	skip := func(*http.Request) bool { return true }
	for name, cfg := range map[string]core.Config{
		"not asked to keep": {Limits: []core.Limit{core.PerMinute(5)}},
		"not counted":       {Limits: []core.Limit{core.PerMinute(5)}, KeepDecision: true, Skip: skip},
	} {
		t.Run(name, func(t *testing.T) {
			l := limiterWith(t, cfg)
			r := get()
			l.Handler(http.HandlerFunc(func(_ http.ResponseWriter, got *http.Request) {
				if got != r {
					t.Error("the request was copied for nothing")
				}
				if d, ok := core.DecisionFrom(got.Context()); ok {
					t.Errorf("found %v", d)
				}
				if d, ok := l.DecisionFrom(got.Context()); ok {
					t.Errorf("found %v", d)
				}
			}), nil).ServeHTTP(blank{http.Header{}}, r)
		})
	}
}

func TestDecisionThatNobodyMadeIsKeptAsUndecided(t *testing.T) {
	l := limiterWith(t, core.Config{
		Name: "api", Limits: []core.Limit{core.PerMinute(5)}, Store: failingStore(), OnFailure: core.Open,
		KeepDecision: true, Logger: logInto(&strings.Builder{}),
	})
	r := get()
	v := l.Admit(http.Header{}, keyfunc.NewRequest(r, nil, nil))
	d, ok := core.DecisionFrom(l.Carry(r, &v).Context())
	if !ok || !d.Allowed || d.Reason != core.Undecided {
		t.Errorf("found %v: %+v", ok, d)
	}
}

func TestOnceChargesOnceOnHoweverManyLevels(t *testing.T) {
	asked := 0
	var log strings.Builder
	l := limiterWith(t, core.Config{
		Name: "api", Limits: []core.Limit{core.PerMinute(5)}, Once: true, Logger: logInto(&log),
		Store: admitting(func(*core.Call) { asked++ }),
	})
	other := keeping(t, "other", core.PerMinute(1))
	handler := http.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if d, ok := l.DecisionFrom(r.Context()); !ok || !d.Allowed {
			t.Error("the decision is not in the context")
		}
	}))
	w := blank{http.Header{}}
	l.Handler(other.Handler(l.Handler(l.Handler(handler, nil), nil), nil), nil).ServeHTTP(w, get())
	if asked != 1 || log.Len() > 0 {
		t.Errorf("charged %d times, log %q", asked, log.String())
	}
	// The other limiter, which is tighter, is shown.
	if got := w.h.Get("X-RateLimit-Limit"); got != "1" {
		t.Errorf("Limit %q", got)
	}
}
