package core_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// answering is a store that a test writes as a function.
type answering func(ctx context.Context, c *core.Call) error

func (f answering) Do(ctx context.Context, c *core.Call) error { return f(ctx, c) }
func (f answering) Close() error                               { return nil }

// admitting answers that everything fits, and hands each call to see first.
func admitting(see func(c *core.Call)) answering {
	return func(_ context.Context, c *core.Call) error {
		see(c)
		for i := range c.Parts {
			p := &c.Parts[i]
			p.At, p.FitsAt, p.Used, p.OldestLeaves, p.Done = start, start, p.Cost, start.Add(time.Minute), true
		}
		return nil
	}
}

// errStore holds a text that nobody outside may see.
var errStore = errors.New("dial tcp 10.9.8.7:6379: secret-host refused")

func failingStore() answering {
	return func(context.Context, *core.Call) error { return errStore }
}

// logInto returns a logger that writes lines into text.
func logInto(text *strings.Builder) *slog.Logger { return slog.New(slog.NewTextHandler(text, nil)) }

// get returns a GET of / with headers given as name, value, name, value.
func get(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// through sends r through the limiter to a handler that says "served".
func through(l *core.Limiter, r *http.Request) *http.Response {
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") })
	w := httptest.NewRecorder()
	l.Handler(served, nil).ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t testing.TB, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// wantStatus checks a status, and that the handler ran exactly when it is 200.
func wantStatus(t testing.TB, r *http.Response, want int) {
	t.Helper()
	body := bodyOf(t, r)
	if r.StatusCode != want || (body == "served") != (want == http.StatusOK) {
		t.Fatalf("status %d with %q, want %d", r.StatusCode, body, want)
	}
}

func TestPreflightsAreNotCountedByDefault(t *testing.T) {
	const origin, asks = "https://shop.example", "PUT"
	for _, test := range []struct {
		name, method  string
		headers       []string
		countsAlways  bool
		countsOnOrder bool
	}{
		{"a preflight", "OPTIONS", []string{"Origin", origin, "Access-Control-Request-Method", asks}, false, true},
		{"no origin", "OPTIONS", []string{"Access-Control-Request-Method", asks}, true, true},
		{"no method asked for", "OPTIONS", []string{"Origin", origin}, true, true},
		{"a plain OPTIONS", "OPTIONS", nil, true, true},
		{"a GET dressed up as one", "GET", []string{"Origin", origin, "Access-Control-Request-Method", asks}, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, count := range []bool{false, true} {
				l := limiterWith(t, core.Config{Limits: []core.Limit{core.PerMinute(5)}, CountPreflights: count})
				r := get(test.headers...)
				r.Method = test.method
				h := http.Header{}
				v := l.Admit(h, keyfunc.NewRequest(r, nil, nil))
				want := test.countsAlways || count && test.countsOnOrder
				if v.Counted != want || (len(h) > 0) != want || !v.Proceed() {
					t.Errorf("CountPreflights %v: counted %v with headers %v, want %v", count, v.Counted, h, want)
				}
			}
		})
	}
}

func TestSkippedRequestsAreNeitherCountedNorMarked(t *testing.T) {
	l := limiterWith(t, core.Config{
		Limits: []core.Limit{core.PerMinute(1)},
		Skip:   func(r *http.Request) bool { return r.Header.Get("X-Probe") != "" },
	})
	for range 3 {
		res := through(l, get("X-Probe", "1"))
		if res.Header.Get("X-RateLimit-Limit") != "" {
			t.Fatalf("headers %v", res.Header)
		}
		wantStatus(t, res, http.StatusOK)
	}
	wantStatus(t, through(l, get()), http.StatusOK)
	wantStatus(t, through(l, get()), http.StatusTooManyRequests)
}

func TestClientsWithoutAKeyAreCountedByTheirAddress(t *testing.T) {
	missing := func(err error) keyfunc.Func {
		return func(keyfunc.Request) (keyfunc.Key, error) { return keyfunc.Key{}, err }
	}
	for name, key := range map[string]keyfunc.Func{
		"an absent header":         keyfunc.ByAPIKey("X-API-Key"),
		"nothing in First":         keyfunc.First(keyfunc.ByBearer(), keyfunc.ByCookie("session")),
		"a part of All is missing": keyfunc.All(keyfunc.ByRoute(), keyfunc.ByAPIKey("X-API-Key")),
		"the zero key, no error":   missing(nil),
		"a wrapped ErrMissing":     missing(errors.Join(errors.New("anonymous"), keyfunc.ErrMissing)),
	} {
		t.Run(name, func(t *testing.T) {
			l := limiterWith(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}, Key: key})
			for _, call := range []struct {
				addr string
				want int
			}{
				{"192.0.2.1:1000", http.StatusOK},
				{"198.51.100.2:1000", http.StatusOK},
				{"192.0.2.1:2000", http.StatusTooManyRequests},
			} {
				r := get()
				r.RemoteAddr = call.addr
				wantStatus(t, through(l, r), call.want)
			}
		})
	}
}

func TestKeysThatCannotBeMadeOutStopTheRequest(t *testing.T) {
	down := errors.New("the session store is down")
	for _, test := range []struct {
		name    string
		key     keyfunc.Func
		headers []string
		is      error
		status  int
	}{
		{"required and missing", keyfunc.Required(keyfunc.ByAPIKey("X-API-Key")), nil, keyfunc.ErrRequired, http.StatusBadRequest},
		{"required in First", keyfunc.First(keyfunc.Required(keyfunc.ByBearer()), keyfunc.ByIP()), nil, keyfunc.ErrRequired, http.StatusBadRequest},
		{"two keys that differ", keyfunc.ByAPIKey("X-API-Key"), []string{"X-API-Key", "a", "X-API-Key", "b"}, keyfunc.ErrAmbiguous, http.StatusBadRequest},
		{"a fault of the user's function", keyfunc.ByUser(func(*http.Request) (string, error) { return "", down }), nil, down, http.StatusServiceUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := 0
			l := limiterWith(t, core.Config{
				Name: "api", Limits: []core.Limit{core.PerMinute(1)}, Key: test.key,
				Store: admitting(func(*core.Call) { asked++ }), OnFailure: core.Open,
			})
			h := http.Header{}
			v := l.Admit(h, keyfunc.NewRequest(get(test.headers...), nil, nil))
			if !errors.Is(v.Err, test.is) || v.Proceed() || asked != 0 {
				t.Errorf("Err %v, Proceed %v, store asked %d times", v.Err, v.Proceed(), asked)
			}
			if len(h) != 1 || h.Get("Cache-Control") != "no-store" {
				t.Errorf("headers %v, want only Cache-Control: no-store", h)
			}
			wantStatus(t, through(l, get(test.headers...)), test.status)
		})
	}
}

func TestEachLimitIsCountedByItsOwnKey(t *testing.T) {
	shared := 0
	var keys []keyfunc.Key
	l := limiterWith(t, core.Config{
		Name: "api",
		Key: func(keyfunc.Request) (keyfunc.Key, error) {
			shared++
			return keyfunc.User("ada"), nil
		},
		Limits: []core.Limit{
			core.PerSecond(5),
			core.PerMinute(5).Key(keyfunc.ByHeader("X-Tenant")),
			core.PerHour(5),
			core.PerDay(5).Key(keyfunc.ByIP()),
		},
		Store: admitting(func(c *core.Call) {
			for _, p := range c.Parts {
				keys = append(keys, p.Key)
			}
		}),
	})
	shared = 0 // New has called it once, to look for faults
	r := get("X-Tenant", "acme")
	wantStatus(t, through(l, r), http.StatusOK)
	want := []keyfunc.Key{
		keyfunc.User("ada"), keyfunc.Header("X-Tenant", "acme"), keyfunc.User("ada"), mustKey(t, keyfunc.ByIP(), r),
	}
	if len(keys) != len(want) || shared != 1 {
		t.Fatalf("%d keys, shared function called %d times", len(keys), shared)
	}
	for i := range want {
		if keys[i] != want[i] {
			t.Errorf("limit %d: key %v, want %v", i, keys[i], want[i])
		}
	}
}

func mustKey(t testing.TB, f keyfunc.Func, r *http.Request) keyfunc.Key {
	t.Helper()
	k, err := f(keyfunc.NewRequest(r, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSecretSealsTheKeysOfRequestsOfEveryKind(t *testing.T) {
	secret := []byte("0123456789abcdef0123456789abcdef")
	sealer, err := keyfunc.NewSealer(secret)
	if err != nil {
		t.Fatal(err)
	}
	var keys []keyfunc.Key
	l := limiterWith(t, core.Config{
		Name: "api", Secret: secret, Key: keyfunc.ByAPIKey("X-API-Key"),
		Limits: []core.Limit{core.PerSecond(5), core.PerMinute(5), core.PerHour(5).Key(keyfunc.ByIP())},
		Store: admitting(func(c *core.Call) {
			for _, p := range c.Parts {
				keys = append(keys, p.Key)
			}
		}),
	})
	r := get("X-API-Key", "sk_live_abc")
	through(l, r)
	api, ip := sealer.Seal(keyfunc.APIKey("sk_live_abc")), sealer.Seal(mustKey(t, keyfunc.ByIP(), r))
	if len(keys) != 3 || keys[0] != api || keys[1] != api || keys[2] != ip {
		t.Errorf("store saw %v, want %v twice and %v", keys, api, ip)
	}
}

func TestCostsThatAreNoneGiveNoDecision(t *testing.T) {
	broken := errors.New("the body is no batch")
	for _, test := range []struct {
		name string
		cost int64
		err  error
	}{
		{"zero", 0, nil},
		{"negative", -1, nil},
		{"the least integer", -1 << 63, nil},
		{"an error", 5, broken},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := 0
			l := limiterWith(t, core.Config{
				Name: "api", Limits: []core.Limit{core.PerMinute(10)}, OnFailure: core.Open,
				Store: admitting(func(*core.Call) { asked++ }),
				Cost:  func(*http.Request) (int64, error) { return test.cost, test.err },
			})
			res := through(l, get())
			if res.Header.Get("Retry-After") != "" || res.Header.Get("X-RateLimit-Limit") != "" || asked != 0 {
				t.Errorf("headers %v, store asked %d times", res.Header, asked)
			}
			wantStatus(t, res, http.StatusServiceUnavailable)
			v := l.Admit(http.Header{}, keyfunc.NewRequest(get(), nil, nil))
			var fault *core.FieldError
			if test.err != nil && !errors.Is(v.Err, test.err) || test.err == nil && !errors.As(v.Err, &fault) {
				t.Errorf("error %v", v.Err)
			}
		})
	}
}

func TestCostAboveAllThatCanBeCountedIsTheClientsFault(t *testing.T) {
	for _, cost := range []int64{core.MaxUnits + 1, 1<<63 - 1} {
		l := limiterWith(t, core.Config{
			Name: "api", Limits: []core.Limit{core.PerMinute(10)}, OnFailure: core.Open,
			Store: admitting(func(*core.Call) { t.Error("the store was asked") }),
			Cost:  func(*http.Request) (int64, error) { return cost, nil },
		})
		res := through(l, get())
		wantStatus(t, res, http.StatusBadRequest)
		if res.Header.Get("Retry-After") != "" {
			t.Errorf("Retry-After %q for a cost that never fits", res.Header.Get("Retry-After"))
		}
		v := l.Admit(http.Header{}, keyfunc.NewRequest(get(), nil, nil))
		var fault *core.FieldError
		if !errors.Is(v.Err, core.ErrNeverFits) || !errors.As(v.Err, &fault) {
			t.Errorf("cost %d: %v", cost, v.Err)
		}
	}
}

func TestBatchIsRefusedWholeAndTakesNothing(t *testing.T) {
	costs := map[string]int64{"": 1, "batch": 100, "huge": 111}
	l := limiterWith(t, core.Config{
		Name: "api", Limits: []core.Limit{core.PerMinute(110)}, Store: memoryOn(t, newHandClock()),
		Cost: func(r *http.Request) (int64, error) { return costs[r.Header.Get("X-Size")], nil },
	})
	for _, call := range []struct {
		size, remaining, retry string
		status                 int
	}{
		{"batch", "10", "", http.StatusOK},
		{"batch", "10", "60", http.StatusTooManyRequests},
		{"huge", "10", "", http.StatusBadRequest},
		{"", "9", "", http.StatusOK},
	} {
		res := through(l, get("X-Size", call.size))
		if got := res.Header.Get("X-RateLimit-Remaining"); got != call.remaining {
			t.Errorf("%q: Remaining %q, want %q", call.size, got, call.remaining)
		}
		if got := res.Header.Get("Retry-After"); got != call.retry {
			t.Errorf("%q: Retry-After %q, want %q", call.size, got, call.retry)
		}
		wantStatus(t, res, call.status)
	}
}

func TestRequestsOfClientsThatWentAwayAreNotCounted(t *testing.T) {
	for name, meanwhile := range map[string]bool{"before the store is asked": false, "while the store is asked": true} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			ctx, leave := context.WithCancel(context.Background())
			asked := 0
			l := limiterWith(t, core.Config{
				Name: "api", Limits: []core.Limit{core.PerMinute(10)}, OnFailure: core.Open, Logger: logInto(&log),
				Store: answering(func(context.Context, *core.Call) error {
					asked++
					leave()
					return errStore
				}),
			})
			if !meanwhile {
				leave()
			}
			v := l.Admit(http.Header{}, keyfunc.NewRequest(get().WithContext(ctx), nil, nil))
			if !errors.Is(v.Err, context.Canceled) || errors.Is(v.Err, core.ErrNoDecision) || v.Proceed() {
				t.Errorf("error %v", v.Err)
			}
			if (asked == 1) != meanwhile || log.Len() > 0 {
				t.Errorf("store asked %d times, log %q", asked, log.String())
			}
		})
	}
}

func TestVerdictWithAnErrorDoesNotProceed(t *testing.T) {
	for _, v := range []core.Verdict{{Err: errStore}, {Err: errStore, Counted: true, Decision: core.Decision{Allowed: true}}} {
		if v.Proceed() {
			t.Errorf("%+v proceeds", v)
		}
	}
}

func TestMiddlewareAllocatesNoMoreThanItsHeaders(t *testing.T) {
	if underRaceDetector() {
		t.Skip("the race detector allocates")
	}
	for _, test := range []struct {
		name string
		cfg  core.Config
		key  string
		want float64
	}{
		{"admitted", core.Config{Limits: []core.Limit{core.Per(1e9, time.Millisecond)}}, "", 2},
		{"admitted by API key", core.Config{Limits: []core.Limit{core.Per(1e9, time.Millisecond)}, Key: keyfunc.ByAPIKey("X-API-Key")}, "k", 2},
		{"admitted, anonymous", core.Config{Limits: []core.Limit{core.Per(1e9, time.Millisecond)}, Key: keyfunc.ByAPIKey("X-API-Key")}, "", 2},
		{"admitted by two limits", core.Config{Limits: []core.Limit{core.Per(1e9, time.Millisecond), core.PerDay(1e9).Slotted(48)}}, "", 2},
		{"admitted without headers", core.Config{Limits: []core.Limit{core.Per(1e9, time.Millisecond)}, Headers: []core.Dialect{core.NoHeaders}}, "", 0},
		{"admitted, decision kept", core.Config{Limits: []core.Limit{core.Per(1e9, time.Millisecond)}, KeepDecision: true}, "", 4},
		{"skipped", core.Config{Limits: []core.Limit{core.PerHour(1)}, Skip: func(*http.Request) bool { return true }}, "", 0},
		{"refused for less than 100 s", core.Config{Limits: []core.Limit{core.PerMinute(1)}}, "", 2},
		{"refused for longer", core.Config{Limits: []core.Limit{core.PerHour(1)}}, "", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := limiterWith(t, test.cfg).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil)
			r, w := get(), blank{http.Header{}}
			if test.key != "" {
				r.Header.Set("X-API-Key", test.key)
			}
			h.ServeHTTP(w, r)
			got := testing.AllocsPerRun(200, func() {
				clear(w.h)
				h.ServeHTTP(w, r)
			})
			if got != test.want {
				t.Errorf("%v allocations, want %v", got, test.want)
			}
		})
	}
}
