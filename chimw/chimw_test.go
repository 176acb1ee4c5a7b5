package chimw_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/slidegate/slidegate/chimw"
	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// newLimiter makes a limiter whose clock stands still, unless it has a store.
func newLimiter(t *testing.T, cfg core.Config) *core.Limiter {
	t.Helper()
	cfg.Name, cfg.Logger = "test", slog.New(slog.DiscardHandler)
	if cfg.Store == nil {
		m, err := core.NewMemory(core.MemoryConfig{Clock: func() time.Time { return time.Unix(1_700_000_000, 0) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		cfg.Store = m
	}
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
	return w.Result(), strings.TrimSpace(fmt.Sprint(w.Code, " ", w.Body))
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
	after := 0
	limit := chimw.Middleware(newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}, KeepDecision: true}))
	r := router(limit, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { after++; next.ServeHTTP(w, r) })
	})
	if _, got := serve(r, "/"); got != "200 true admitted 0" {
		t.Errorf("first request: %s", got)
	}
	res, got := serve(r, "/")
	if got != "429 Too Many Requests. Try again in 60 s." || res.Header.Get("Retry-After") != "60" {
		t.Errorf("second request: %s, Retry-After %q", got, res.Header.Get("Retry-After"))
	}
	if after != 1 {
		t.Errorf("what follows ran %d times, want once", after)
	}
}

func TestOneLinersCountByTheirKey(t *testing.T) {
	for name, test := range map[string]struct {
		limit func(http.Handler) http.Handler
		want  []int
	}{
		"by address":             {chimw.LimitByIP(1, time.Minute), []int{200, 429, 200, 429}},
		"by header":              {chimw.LimitBy(1, time.Minute, keyfunc.ByHeader("X-User")), []int{200, 200, 429, 429}},
		"by nothing: by address": {chimw.LimitBy(1, time.Minute, nil), []int{200, 429, 200, 429}},
		"two":                    {chimw.LimitByIP(2, time.Minute), []int{200, 200, 200, 200}},
	} {
		h := router(test.limit)
		for i, from := range []struct{ addr, user string }{{"192.0.2.1:1", "ada"}, {"192.0.2.1:2", "bob"}, {"192.0.2.2:1", "ada"}, {"192.0.2.2:2", "bob"}} {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = from.addr
			r.Header.Set("X-User", from.user)
			if h.ServeHTTP(w, r); w.Code != test.want[i] {
				t.Errorf("%s: request %d: status %d, want %d", name, i, w.Code, test.want[i])
			}
			if wait, _ := strconv.Atoi(w.Header().Get("Retry-After")); w.Code == 429 && (wait <= 30 || wait > 60) {
				t.Errorf("%s: Retry-After %d", name, wait)
			}
		}
	}
}

// All that is wrong is told at once, when the service starts.
func TestNonsenseArgumentsPanic(t *testing.T) {
	defer func() {
		err, _ := recover().(error)
		var fields []string
		for fault := range core.Faults(err) {
			fields = append(fields, fault.Field)
		}
		if want := []string{"Limits[0].N", "Limits[0].Window", "Key: ByUser"}; !slices.Equal(fields, want) {
			t.Errorf("panicked with %v: faults in %q, want %q", err, fields, want)
		}
	}()
	chimw.LimitBy(0, 60, keyfunc.ByUser(nil))
}

func TestOwnAnswers(t *testing.T) {
	r := router(chimw.Middleware(newLimiter(t, core.Config{
		Limits: []core.Limit{core.PerMinute(1)}, Key: keyfunc.Required(keyfunc.ByHeader("X-User")),
		OnRefuse: func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
			http.Error(w, fmt.Sprint("wait ", d.RetryAfter().Seconds()), http.StatusTooManyRequests)
		},
		OnError: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, fmt.Sprint("who? ", errors.Is(err, keyfunc.ErrRequired)), http.StatusUnauthorized)
		},
	})))
	for i, test := range []struct {
		headers []string
		want    string
	}{
		{[]string{"X-User", "ada"}, "200 false admitted 0"}, {[]string{"X-User", "ada"}, "429 wait 60"},
		{[]string{"X-User", "bob"}, "200 false admitted 0"}, {nil, "401 who? true"},
	} {
		if _, got := serve(r, "/", test.headers...); got != test.want {
			t.Errorf("request %d: %s, want %s", i, got, test.want)
		}
	}
}

func TestClientIPOfChi(t *testing.T) {
	xff := func(trusted ...string) []func(http.Handler) http.Handler {
		return []func(http.Handler) http.Handler{middleware.ClientIPFromXFF(trusted...)}
	}
	found := keyfunc.IP(netip.MustParseAddr("203.0.113.1"))
	for name, test := range map[string]struct {
		finds   []func(http.Handler) http.Handler
		want    []int // of the addresses below
		counted keyfunc.Key
	}{
		"behind a trusted proxy":  {xff("192.0.2.1/32"), []int{200, 429, 429, 200, 429, 200, 200, 429}, found},
		"behind a stranger":       {xff("192.0.2.2/32"), []int{200, 429, 429, 429, 429, 429, 429, 429}, keyfunc.IP(netip.MustParseAddr("192.0.2.1"))},
		"looked for by nobody":    {nil, []int{200, 429, 429, 429, 429, 429, 429, 429}, keyfunc.NoAddress()},
		"looked for in the wrong": {[]func(http.Handler) http.Handler{middleware.ClientIPFromHeader("X-Real-IP")}, []int{200, 429, 429, 429, 429, 429, 429, 429}, keyfunc.NoAddress()},
	} {
		l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}, Key: chimw.ByClientIP()})
		h := router(append(test.finds, chimw.Middleware(l))...)
		for i, forwarded := range []string{
			"203.0.113.1", "203.0.113.1", "::ffff:203.0.113.1", "2001:db8::1", "2001:DB8:0:0:0:0:0:7", "203.0.113.2",
			"203.0.113.3, junk", "junk", // chi finds nothing
		} {
			if res, _ := serve(h, "/", "X-Forwarded-For", forwarded); res.StatusCode != test.want[i] {
				t.Errorf("%s: %s: status %d, want %d", name, forwarded, res.StatusCode, test.want[i])
			}
		}
		if d, err := l.Peek(t.Context(), test.counted); err != nil || d.Allowed {
			t.Errorf("%s: the key outside HTTP: %v, %v; want refused", name, d.Allowed, err)
		}
	}
}

// blocked is a store that answers when the context ends.
type blocked struct{ core.Store }

func (blocked) Do(ctx context.Context, _ *core.Call) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestTheRequestsOwnContextEndsTheWait(t *testing.T) {
	l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}, Store: blocked{}, Budget: time.Hour, OnFailure: core.Closed})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	router(chimw.Middleware(l)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d", w.Code)
	}
}

// A program that has not looked at the error of core.New.
func TestNilLimiter(t *testing.T) {
	var text strings.Builder
	log.SetOutput(&text)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	_, got := serve(router(chimw.Middleware(nil)), "/")
	if got != "503 Service Unavailable. Try again later." || strings.Count(text.String(), "the limiter is nil") != 1 {
		t.Errorf("%s, logged %q", got, text.String())
	}
}

// witness returns a limiter by route, and the routes that it has counted.
func witness(t *testing.T) (limit func(http.Handler) http.Handler, seen *[]string) {
	t.Helper()
	seen = new([]string)
	l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1000)}, Key: func(r keyfunc.Request) (keyfunc.Key, error) {
		*seen = append(*seen, r.Route())
		return keyfunc.ByRoute()(r)
	}})
	return chimw.Middleware(l), seen
}

// Looking a route up leaves chi's own matching alone: handlers find their parameters.
func TestRoutes(t *testing.T) {
	limit, seen := witness(t)
	params := func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%q %q %s", chi.URLParam(r, "ver"), chi.URLParam(r, "id"), chi.RouteContext(r.Context()).RoutePattern())
	}
	r := chi.NewRouter()
	r.Use(limit)
	r.Get("/", params)
	r.Get("/dir/", params)
	r.Post("/users/{id}", params)
	r.Route("/api/{ver}", func(r chi.Router) {
		r.Use(limit)
		r.With(limit).Get("/items/{id}", params)
	})
	for target, want := range map[string]struct {
		body   string
		routes []string
	}{
		"/":               {`200 "" "" /`, []string{"/"}},
		"/dir/":           {`200 "" "" /dir`, []string{"/dir"}},
		"/api/v1/items/7": {`200 "v1" "7" /api/{ver}/items/{id}`, []string{"/api/{ver}/items/{id}", "/api/{ver}/items/{id}", "/api/{ver}/items/{id}"}},
		"/api/v1/none":    {"404 404 page not found", []string{"", ""}},
		"/users/7":        {"405", []string{""}},
		"/none":           {"404 404 page not found", []string{""}},
	} {
		*seen = nil
		if _, got := serve(r, target); got != want.body || !slices.Equal(*seen, want.routes) {
			t.Errorf("%s: %s, routes %q, want %s, %q", target, got, *seen, want.body, want.routes)
		}
	}
}

// Wherever the limiter stands, the route is the whole pattern.
func TestRoutesAtEachLevel(t *testing.T) {
	type wrap = func(http.Handler) http.Handler
	fine := func(http.ResponseWriter, *http.Request) {}
	routes := func(r *chi.Mux) *chi.Mux {
		r.Get("/", fine)
		r.Get("/items/{id}", fine)
		r.Post("/items", fine)
		r.Get("/dir/", fine)
		r.Get("/files/*", fine)
		return r
	}
	below := func(outer, limit wrap) http.Handler {
		r := chi.NewRouter()
		r.Use(outer, limit)
		return routes(r)
	}
	around := func(limit wrap) http.Handler { return limit(routes(chi.NewRouter())) }
	routing := func(next http.Handler) http.Handler { // as tests of handlers do it
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, chi.NewRouteContext())))
		})
	}
	for _, test := range []struct {
		name  string
		build func(limit wrap) http.Handler
		want  map[string]string
	}{
		{"around the router", around, map[string]string{
			"GET /": "/", "GET /items/7": "/items/{id}", "GET /items/a%2Fb": "/items/{id}", "POST /items": "/items", "GET /dir/": "/dir",
			"GET /files/a/b": "/files/*", "POST /items/7": "", "BREW /items/7": "", "GET /none": "", "GET /items/7/": "/items/{id}",
		}},
		{"around the router, in a mux", func(limit wrap) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/", around(limit))
			return mux
		}, map[string]string{"GET /items/7": "/items/{id}", "GET /none": ""}},
		{"around the router, in a routing context", func(limit wrap) http.Handler { return routing(around(limit)) },
			map[string]string{"GET /items/7": "/items/{id}", "GET /none": ""}},
		{"Group, Route, With and Mount", func(limit wrap) http.Handler {
			r, mounted := chi.NewRouter(), chi.NewRouter()
			r.Group(func(r chi.Router) {
				r.Use(limit)
				r.Get("/users/{id}", fine)
				r.Route("/deep", func(r chi.Router) { r.Get("/{a}/{b}", fine) })
			})
			r.Route("/api/{ver}", func(r chi.Router) {
				r.Use(limit)
				r.Get("/", fine)
			})
			r.With(limit).Get("/one/{id:[0-9]+}", fine)
			r.With(limit).Get("/files/*", fine)
			mounted.Use(limit)
			mounted.Get("/{x}", fine)
			r.Mount("/mounted/{y}", mounted)
			return r
		}, map[string]string{
			"GET /users/1": "/users/{id}", "GET /deep/x/y": "/deep/{a}/{b}", "GET /deep/x": "", "GET /api/v1": "/api/{ver}", "GET /api/v1/": "/api/{ver}",
			"GET /one/12": "/one/{id:[0-9]+}", "GET /files/a/b": "/files/*", "GET /mounted/a/b": "/mounted/{y}/{x}",
		}},
		{"With, after the path is rewritten", func(limit wrap) http.Handler {
			r := chi.NewRouter()
			r.With(func(next http.Handler) http.Handler { return http.StripPrefix("/v1", next) }, limit).Get("/v1/items/{id}", fine)
			return r
		}, map[string]string{"GET /v1/items/7": "/v1/items/{id}"}},
		{"below StripSlashes", func(limit wrap) http.Handler {
			r := chi.NewRouter()
			r.Use(middleware.StripSlashes)
			r.Route("/api", func(r chi.Router) {
				r.Use(limit)
				r.Get("/items/{id}", fine)
			})
			return r
		}, map[string]string{"GET /api/items/7": "/api/items/{id}", "GET /api/items/7/": "/api/items/{id}"}},
		{"below CleanPath", func(limit wrap) http.Handler { return below(middleware.CleanPath, limit) },
			map[string]string{"GET //items//7": "/items/{id}"}},
		{"below GetHead", func(limit wrap) http.Handler { return below(middleware.GetHead, limit) },
			map[string]string{"HEAD /items/7": "/items/{id}", "HEAD /none": ""}},
		{"around a handler of net/http", func(limit wrap) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("GET /items/{id}", limit(http.HandlerFunc(fine)))
			return mux
		}, map[string]string{"GET /items/7": "GET /items/{id}"}},
	} {
		limit, seen := witness(t)
		h := test.build(limit)
		for what, want := range test.want {
			*seen = nil
			method, target, _ := strings.Cut(what, " ")
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, target, nil))
			if !slices.Equal(*seen, []string{want}) {
				t.Errorf("%s: %s: counted as %q, want %q", test.name, what, *seen, want)
			}
		}
	}
}

// looked is a router that notes the contexts that routes are looked up with.
type looked struct {
	*chi.Mux
	with map[*chi.Context]bool
	used []string // what a context had in it already
}

func (l *looked) Find(c *chi.Context, method, path string) string {
	l.with[c] = true
	l.used = append(l.used, c.URLParams.Keys...)
	return l.Mux.Find(c, method, path)
}

// The contexts of lookups are used again, each empty.
func TestLookupsLeaveNothingBehind(t *testing.T) {
	limit, _ := witness(t)
	l := &looked{Mux: chi.NewRouter(), with: map[*chi.Context]bool{}}
	l.Get("/items/{id}", func(http.ResponseWriter, *http.Request) {})
	h := limit(l)
	const requests = 100 // of which the pool drops some at random under the race detector
	for range requests {
		serve(h, "/items/7")
	}
	if len(l.with) >= requests || len(l.used) > 0 {
		t.Errorf("%d contexts for %d requests; left over: %q", len(l.with), requests, l.used)
	}
}
