package chimw_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/slidegate/slidegate/chimw"
	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

func newLimiter(t *testing.T, cfg core.Config) *core.Limiter {
	t.Helper()
	l, err := core.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// serve sends a request with headers given as name, value, and returns status and body.
func serve(h http.Handler, target string, headers ...string) (*http.Response, string) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	h.ServeHTTP(w, r)
	return w.Result(), fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
}

func router(middlewares ...func(http.Handler) http.Handler) *chi.Mux {
	r := chi.NewRouter()
	r.Use(middlewares...)
	r.Get("/", func(w http.ResponseWriter, r *http.Request) {
		d, ok := core.DecisionFrom(r.Context())
		_, _ = fmt.Fprint(w, ok, " ", d.Reason, " ", d.Shown().Remaining())
	})
	return r
}

func TestRefusals(t *testing.T) {
	r := router(chimw.LimitByIP(1, time.Minute))
	if _, got := serve(r, "/"); got != "200 false admitted 0" {
		t.Errorf("first request: %s", got)
	}
	res, got := serve(r, "/")
	if got != "429 Too Many Requests. Try again in 60 s." || res.Header.Get("Retry-After") != "60" {
		t.Errorf("second request: %s, Retry-After %q", got, res.Header.Get("Retry-After"))
	}
}

func TestKeysAndOwnAnswers(t *testing.T) {
	after := 0
	r := router(chimw.Middleware(newLimiter(t, core.Config{
		Limits: []core.Limit{core.PerMinute(1)}, Key: keyfunc.Required(keyfunc.ByHeader("X-User")), KeepDecision: true,
		OnRefuse: func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
			http.Error(w, fmt.Sprint("wait ", math.Ceil(d.RetryAfter().Seconds())), http.StatusTooManyRequests)
		},
		OnError: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, fmt.Sprint("who? ", errors.Is(err, keyfunc.ErrRequired)), http.StatusBadRequest)
		},
	})), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { after++; next.ServeHTTP(w, r) })
	})
	for i, test := range []struct {
		headers []string
		want    string
	}{
		{[]string{"X-User", "ada"}, "200 true admitted 0"}, {[]string{"X-User", "ada"}, "429 wait 60"},
		{[]string{"X-User", "bob"}, "200 true admitted 0"}, {nil, "400 who? true"},
	} {
		if _, got := serve(r, "/", test.headers...); got != test.want {
			t.Errorf("request %d: %s, want %s", i, got, test.want)
		}
	}
	if after != 2 {
		t.Errorf("what follows ran %d times, want twice", after)
	}
	if _, got := serve(router(chimw.LimitBy(1, time.Minute, keyfunc.ByHeader("X-User"))), "/"); got != "200 false admitted 0" {
		t.Error(got)
	}
}

func TestClientIPOfChi(t *testing.T) {
	for name, test := range map[string]struct {
		finds []func(http.Handler) http.Handler
		want  []int // of the addresses below
	}{
		"found by a header":     {[]func(http.Handler) http.Handler{middleware.ClientIPFromHeader("X-Real-IP")}, []int{200, 429, 429, 200, 429, 200}},
		"looked for by nothing": {nil, []int{200, 429, 429, 429, 429, 429}},
	} {
		r := router(append(slices.Clone(test.finds), chimw.LimitBy(1, time.Minute, chimw.ByClientIP()))...)
		for i, addr := range []string{"203.0.113.1", "203.0.113.1", "::ffff:203.0.113.1", "2001:db8::1", "2001:DB8:0:0:0:0:0:7", "203.0.113.2"} {
			if res, _ := serve(r, "/", "X-Real-IP", addr); res.StatusCode != test.want[i] {
				t.Errorf("%s: %s: status %d, want %d", name, addr, res.StatusCode, test.want[i])
			}
		}
	}
	// The key is that of the address, wherever it comes from.
	l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}, Key: chimw.ByClientIP()})
	serve(router(middleware.ClientIPFromHeader("X-Real-IP"), chimw.Middleware(l)), "/", "X-Real-IP", "203.0.113.9")
	if d, err := l.Peek(t.Context(), keyfunc.IP(netip.MustParseAddr("203.0.113.9"))); err != nil || d.Allowed {
		t.Errorf("the address's key outside HTTP: %v, %v; want refused", d.Allowed, err)
	}
}

// blocked is a store that answers when the context ends.
type blocked struct{ core.Store }

func (blocked) Do(ctx context.Context, _ *core.Call) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestTheRequestsOwnContextEndsTheWait(t *testing.T) {
	l := newLimiter(t, core.Config{Name: "x", Limits: []core.Limit{core.PerMinute(1)}, Store: blocked{}, Budget: time.Hour, OnFailure: core.Closed})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	router(chimw.Middleware(l)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d", w.Code)
	}
}

func TestNilLimiter(t *testing.T) {
	if _, got := serve(router(chimw.Middleware(nil)), "/"); !strings.HasPrefix(got, "503 ") {
		t.Errorf("%s, want 503", got)
	}
}

// Routes are whole at each level, also where chi has not matched them yet, and looking
// them up leaves chi's own matching alone.
func TestRoutes(t *testing.T) {
	var seen []string
	l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1000)}, Key: func(r keyfunc.Request) (keyfunc.Key, error) {
		seen = append(seen, r.Route())
		return keyfunc.ByRoute()(r)
	}})
	limit := chimw.Middleware(l)
	echo := func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, chi.URLParam(r, "ver"), " ", chi.URLParam(r, "id"), " ", chi.RouteContext(r.Context()).RoutePattern())
	}
	r := chi.NewRouter()
	r.Use(limit)
	r.Route("/api/{ver}", func(r chi.Router) {
		r.Use(limit)
		r.With(limit).Get("/items/{id}", echo)
	})
	for target, want := range map[string]struct {
		body   string
		routes []string
	}{
		"/api/v1/items/7": {"200 v1 7 /api/{ver}/items/{id}", []string{"/api/{ver}/items/{id}", "/api/{ver}/items/{id}", "/api/{ver}/items/{id}"}},
		"/api/v1/none":    {"404 404 page not found", []string{"", ""}},
		"/none":           {"404 404 page not found", []string{""}},
		"/":               {"404 404 page not found", []string{""}},
	} {
		seen = nil
		if _, got := serve(r, target); got != want.body || !slices.Equal(seen, want.routes) {
			t.Errorf("%s: %s, routes %q, want %s, %q", target, got, seen, want.body, want.routes)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /plain/{x}", limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	seen = nil
	serve(mux, "/plain/1")
	if !slices.Equal(seen, []string{"GET /plain/{x}"}) && !slices.Equal(seen, []string{"/plain/{x}"}) {
		t.Errorf("around a handler of net/http: %q", seen)
	}
}
