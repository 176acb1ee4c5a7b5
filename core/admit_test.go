package core_test

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// What adapters of frameworks that write errors themselves are told.
func TestStatusAndMessageOfAVerdict(t *testing.T) {
	cost := int64(1)
	costs := func(*http.Request) (int64, error) { return cost, nil }
	limits := []core.Limit{core.PerMinute(2)}
	for _, test := range []struct {
		name    string
		cfg     core.Config
		headers []string
		cost    int64
		status  int
		message string
	}{
		{"refused", core.Config{Limits: limits}, nil, 2, 429, "Too Many Requests. Try again in 60 s."},
		{"never fits", core.Config{Limits: limits}, nil, 3, 400, `The request costs 3 units; limit "1m" never allows more than 2.`},
		{"costs more than any limit", core.Config{Limits: limits}, nil, core.MaxUnits + 1, 400, "The request costs more than any limit allows."},
		{"costs nothing", core.Config{Limits: limits}, nil, 0, 503, "Service Unavailable. Try again later."},
		{"lacks a key", core.Config{Limits: limits, Key: keyfunc.Required(keyfunc.ByHeader("X-User"))}, nil, 1, 400, "The request lacks header X-User."},
		{"lacks some key", core.Config{Limits: limits, Key: func(keyfunc.Request) (keyfunc.Key, error) { return keyfunc.Key{}, keyfunc.ErrRequired }},
			nil, 1, 400, "The request lacks a key."},
		{"has two keys", core.Config{Limits: limits, Key: keyfunc.ByAPIKey("X-Key")}, []string{"X-Key", "a", "X-Key", "b"}, 1, 400,
			"The request carries a key that can be read in more than one way."},
		{"the store is down", core.Config{Limits: limits, Store: vocal{err: errors.New("on fire")}}, nil, 1, 503, "Service Unavailable. Try again later."},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.cfg.Name, test.cfg.Cost, test.cfg.Logger = "api", costs, logInto(new(strings.Builder))
			if test.cfg.Store == nil {
				test.cfg.Store = memoryOn(t, newHandClock())
			}
			l := limiterWith(t, test.cfg)
			r := get()
			for i := 0; i < len(test.headers); i += 2 {
				r.Header.Add(test.headers[i], test.headers[i+1])
			}
			var v core.Verdict
			for cost = min(test.cost, 2); ; cost = test.cost {
				if v = l.Admit(http.Header{}, keyfunc.NewRequest(r, nil, nil)); !v.Proceed() {
					break
				}
			}
			if v.Status() != test.status || v.Message() != test.message {
				t.Errorf("%d %q, want %d %q", v.Status(), v.Message(), test.status, test.message)
			}
			w := httptest.NewRecorder()
			if l.Refuse(w, r, v); w.Code != test.status || strings.TrimSpace(w.Body.String()) != test.message {
				t.Errorf("Refuse writes %d %q", w.Code, w.Body)
			}
		})
	}
}

func TestAnswersTellsWhetherTheUserAnswers(t *testing.T) {
	refused := &core.Verdict{Decision: core.Decision{Reason: core.Refused}, Counted: true}
	failed := &core.Verdict{Err: errors.New("down"), Counted: true}
	onRefuse := func(http.ResponseWriter, *http.Request, core.Decision) {}
	onError := func(http.ResponseWriter, *http.Request, error) {}
	for _, test := range []struct {
		cfg             core.Config
		refused, failed bool
	}{
		{core.Config{}, false, false}, {core.Config{OnRefuse: onRefuse}, true, false},
		{core.Config{OnError: onError}, false, true}, {core.Config{OnRefuse: onRefuse, OnError: onError}, true, true},
	} {
		test.cfg.Limits = []core.Limit{core.PerMinute(1)}
		l := limiterWith(t, test.cfg)
		if got := [2]bool{l.Answers(refused), l.Answers(failed)}; got != [2]bool{test.refused, test.failed} {
			t.Errorf("%v, want %v %v", got, test.refused, test.failed)
		}
	}
	var none *core.Limiter
	if none.Answers(refused) || none.Answers(failed) {
		t.Error("a limiter that is nil answers")
	}
}

// A program that has not looked at the error of New gets 503 and a line in its log, and
// not a panic or a service without limits.
func TestNilLimiterAdmitsNothing(t *testing.T) {
	var text strings.Builder
	log.SetOutput(&text)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	var none *core.Limiter
	h := http.Header{}
	v := none.Admit(h, keyfunc.NewRequest(get(), nil, nil))
	if v.Proceed() || v.Counted || v.Err == nil || v.Status() != http.StatusServiceUnavailable || len(h) != 1 || h.Get("Cache-Control") != "no-store" {
		t.Errorf("%+v, status %d, headers %v", v, v.Status(), h)
	}
	if got := text.String(); strings.Count(got, "ERROR") != 1 || !strings.Contains(got, "core.New") {
		t.Errorf("logged %q", got)
	}
	res := through(none, get())
	if body := bodyOf(t, res); res.StatusCode != http.StatusServiceUnavailable || body != "Service Unavailable. Try again later.\n" {
		t.Errorf("status %d, %q", res.StatusCode, body)
	}
}

// An error goes before whatever else a verdict says.
func TestErrorsGoFirst(t *testing.T) {
	for _, reason := range []core.Reason{core.Admitted, core.Refused, core.NeverFits} {
		v := core.Verdict{Counted: true, Err: errors.New("down"), Decision: core.Decision{Allowed: reason == core.Admitted, Reason: reason}}
		if v.Proceed() || v.Status() != http.StatusServiceUnavailable {
			t.Errorf("%v: proceeds: %v, status %d", reason, v.Proceed(), v.Status())
		}
	}
}

// An adapter for a framework that writes errors itself: it takes status and message.
func ExampleLimiter_Admit() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerMinute(1)}}))
	defer lim.Close()

	handle := func(w http.ResponseWriter, r *http.Request) error {
		v := lim.Admit(w.Header(), keyfunc.NewRequest(r, nil, nil))
		if v.Proceed() {
			return nil // and on to the handler
		}
		if lim.Answers(&v) {
			lim.Refuse(w, r, v)
			return nil
		}
		return fmt.Errorf("%d: %s", v.Status(), v.Message())
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	fmt.Println(handle(httptest.NewRecorder(), r))
	fmt.Println(handle(httptest.NewRecorder(), r))
	// Output:
	// <nil>
	// 429: Too Many Requests. Try again in 60 s.
}
