package echomw_test

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

	"github.com/labstack/echo/v5"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/echomw/v5"
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
	return w.Result(), fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
}

func server(middlewares ...echo.MiddlewareFunc) *echo.Echo {
	e := echo.New()
	e.Use(middlewares...)
	e.GET("/", func(c *echo.Context) error {
		d, ok := echomw.Decision(c)
		return c.String(http.StatusOK, fmt.Sprint(ok, " ", d.Reason, " ", d.Shown().Remaining()))
	})
	return e
}

// watch notes what the server's error handler and an outer middleware see.
type watch struct {
	handled, returned []error
	headers           []string // Retry-After and Cache-Control when the handler is called
}

func (w *watch) over(e *echo.Echo) *watch {
	handler := e.HTTPErrorHandler
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		w.handled = append(w.handled, err)
		h := c.Response().Header()
		w.headers = append(w.headers, h.Get("Retry-After")+" "+h.Get("Cache-Control"))
		handler(c, err)
	}
	return w
}

func (w *watch) middleware(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		err := next(c)
		w.returned = append(w.returned, err)
		return err
	}
}

// A refusal is an error that the server's handler writes, once.
func TestRefusalsAreErrorsOfEcho(t *testing.T) {
	w := new(watch)
	e := server(w.middleware, echomw.Middleware(newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}})))
	w.over(e)
	if _, got := serve(e, "/"); got != "200 true admitted 0" {
		t.Errorf("first request: %s", got)
	}
	res, got := serve(e, "/")
	if got != `429 {"message":"Too Many Requests. Try again in 60 s."}` {
		t.Errorf("second request: %s", got)
	}
	for name, want := range map[string]string{
		"Retry-After": "60", "Cache-Control": "no-store", "X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "Content-Type": "application/json",
	} {
		if !strings.HasPrefix(res.Header.Get(name), want) || len(res.Header.Values(name)) != 1 {
			t.Errorf("%s: %q, want %s once", name, res.Header.Values(name), want)
		}
	}
	if len(w.handled) != 1 || len(w.returned) != 2 || w.returned[0] != nil || w.headers[0] != "60 no-store" {
		t.Fatalf("handled %v with %q, returned %v", w.handled, w.headers, w.returned)
	}
	refused, ok := errors.AsType[*echo.HTTPError](w.returned[1])
	if !ok || refused.Code != 429 || w.handled[0] != w.returned[1] || refused.Message != "Too Many Requests. Try again in 60 s." {
		t.Errorf("%#v", w.returned[1])
	}
}

func TestOneLinersCountByTheirKey(t *testing.T) {
	for name, test := range map[string]struct {
		limit echo.MiddlewareFunc
		want  []int
	}{
		"by address":             {echomw.LimitByIP(1, time.Minute), []int{200, 429, 200, 429}},
		"by header":              {echomw.LimitBy(1, time.Minute, keyfunc.ByHeader("X-User")), []int{200, 200, 429, 429}},
		"by nothing: by address": {echomw.LimitBy(1, time.Minute, nil), []int{200, 429, 200, 429}},
		"two":                    {echomw.LimitByIP(2, time.Minute), []int{200, 200, 200, 200}},
	} {
		e := server(test.limit)
		e.IPExtractor = echo.ExtractIPFromXFFHeader(echo.TrustIPRange(peer(t)))
		for i, from := range []struct{ addr, user string }{{"192.0.2.1:1", "ada"}, {"192.0.2.1:2", "bob"}, {"192.0.2.2:1", "ada"}, {"192.0.2.2:2", "bob"}} {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = from.addr
			r.Header.Set("X-User", from.user)
			r.Header.Set("X-Forwarded-For", fmt.Sprint("203.0.113.", i)) // which echo would take
			if e.ServeHTTP(w, r); w.Code != test.want[i] {
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
		if want := []string{"Limits[0].N", "Limits[0].Window", "Key: By"}; !slices.Equal(fields, want) {
			t.Errorf("panicked with %v: faults in %q, want %q", err, fields, want)
		}
	}()
	echomw.LimitBy(0, 60, echomw.By(nil))
}

func TestErrorsOfEchoStayThemselves(t *testing.T) {
	teapot := echo.NewHTTPError(http.StatusTeapot, "short and stout")
	plain := errors.New("a secret detail")
	var fail error
	w := new(watch)
	e := server(w.middleware, echomw.LimitBy(5, time.Minute, echomw.By(func(*echo.Context) (string, error) { return "ada", fail })))
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, "200 true admitted 4"},
		{teapot, `418 {"message":"short and stout"}`},
		{fmt.Errorf("wrapped: %w", teapot), `418 {"message":"short and stout"}`},
		{echo.ErrUnauthorized, `401 {"message":"Unauthorized"}`},
		{plain, `503 {"message":"Service Unavailable. Try again later."}`},
		{&keyfunc.MissingError{What: "a badge"}, "200 true admitted 4"}, // counted by address
	} {
		fail = test.err
		if _, got := serve(e, "/"); got != test.want {
			t.Errorf("%v: %s, want %s", test.err, got, test.want)
		}
		last := w.returned[len(w.returned)-1]
		own, ok := errors.AsType[*echo.HTTPError](test.err)
		if (last == nil) != strings.HasPrefix(test.want, "200") || ok && last != own || last != nil && !ok && !errors.Is(last, test.err) {
			t.Errorf("%v: returned %v", test.err, last)
		}
	}
}

// Options go before the limiter's functions, and these before an error for the server's
// handler; each is asked about its own kind of answer alone.
func TestWhoAnswers(t *testing.T) {
	wait := func(d core.Decision) string { return fmt.Sprint("wait ", d.RetryAfter().Seconds()) }
	who := func(err error) string { return fmt.Sprint("who? ", errors.Is(err, keyfunc.ErrRequired)) }
	refuse := echomw.OnRefuse(func(c *echo.Context, d core.Decision) error { return c.String(http.StatusTooManyRequests, wait(d)) })
	refuseByError := echomw.OnRefuse(func(_ *echo.Context, d core.Decision) error { return echo.NewHTTPError(http.StatusTeapot, wait(d)) })
	fail := echomw.OnError(func(c *echo.Context, err error) error { return c.String(http.StatusUnauthorized, who(err)) })
	failByError := echomw.OnError(func(_ *echo.Context, err error) error { return echo.NewHTTPError(http.StatusNotFound, who(err)) })
	own := core.Config{
		OnRefuse: func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
			http.Error(w, "own "+wait(d), http.StatusConflict)
		},
		OnError: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "own "+who(err), http.StatusForbidden)
		},
	}
	const (
		refused, failed   = `429 {"message":"Too Many Requests. Try again in 60 s."}`, `400 {"message":"The request lacks header X-User."}`
		refused1, failed1 = "429 wait 60", "401 who? true"
		refused2, failed2 = `418 {"message":"wait 60"}`, `404 {"message":"who? true"}`
		refused3, failed3 = "409 own wait 60", "403 own who? true"
	)
	for _, test := range []struct {
		opts            []echomw.Option
		cfg             core.Config
		refused, failed string
		handled         int // errors that reached the server's handler
	}{
		{nil, core.Config{}, refused, failed, 2},
		{[]echomw.Option{nil, refuse, nil, fail}, core.Config{}, refused1, failed1, 0},
		{[]echomw.Option{refuseByError, failByError}, core.Config{}, refused2, failed2, 2},
		{[]echomw.Option{refuse}, core.Config{}, refused1, failed, 1},
		{nil, own, refused3, failed3, 0},
		{[]echomw.Option{refuse, failByError}, own, refused1, failed2, 1},
		{[]echomw.Option{fail}, own, refused3, failed1, 0},
		{[]echomw.Option{echomw.OnRefuse(nil), echomw.OnError(nil)}, core.Config{}, refused, failed, 2},
	} {
		test.cfg.Limits, test.cfg.Key = []core.Limit{core.PerMinute(1)}, keyfunc.Required(keyfunc.ByHeader("X-User"))
		after := 0
		e := server(echomw.Middleware(newLimiter(t, test.cfg), test.opts...), func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error { after++; return next(c) }
		})
		w := new(watch).over(e)
		serve(e, "/", "X-User", "ada")
		res, got := serve(e, "/", "X-User", "ada")
		if got != test.refused || res.Header.Get("Retry-After") != "60" {
			t.Errorf("refused with %s, want %s; headers %v", got, test.refused, res.Header)
		}
		if res, got = serve(e, "/"); got != test.failed || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("failed with %s, want %s; headers %v", got, test.failed, res.Header)
		}
		if after != 1 || len(w.handled) != test.handled {
			t.Errorf("what follows ran %d times, want once; the error handler %d times, want %d", after, len(w.handled), test.handled)
		}
	}
}

// The decision is that of the innermost limiter that has made one.
func TestDecisionOfTheInnermost(t *testing.T) {
	needsUser := keyfunc.Required(keyfunc.ByHeader("X-User"))
	for name, test := range map[string]struct {
		inner core.Config
		want  string
	}{
		"two":                  {core.Config{Limits: []core.Limit{core.PerMinute(3)}}, "true admitted 2"},
		"one that skips":       {core.Config{Limits: []core.Limit{core.PerMinute(3)}, Skip: func(*http.Request) bool { return true }}, "true admitted 8"},
		"one without decision": {core.Config{Limits: []core.Limit{core.PerMinute(3)}, Key: needsUser}, "true admitted 8"},
		"one that refuses":     {core.Config{Limits: []core.Limit{core.PerMinute(3)}, Cost: func(*http.Request) (int64, error) { return 4, nil }}, "true never_fits 3"},
	} {
		var got string
		look := func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				err := next(c)
				d, ok := echomw.Decision(c)
				got = fmt.Sprint(ok, " ", d.Reason, " ", d.Shown().Remaining())
				return err
			}
		}
		outer := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(9)}})
		serve(server(look, echomw.Middleware(outer), echomw.Middleware(newLimiter(t, test.inner))), "/")
		if got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	if _, got := serve(server(), "/"); got != "200 false admitted 0" {
		t.Errorf("without a limiter: %s", got)
	}
}

func TestDecisionsTravelInTheRequestWhenAsked(t *testing.T) {
	found := false
	l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}, KeepDecision: true})
	e := echo.New()
	e.GET("/", func(c *echo.Context) error {
		_, found = core.DecisionFrom(c.Request().Context())
		return nil
	}, echomw.Middleware(l))
	if serve(e, "/"); !found {
		t.Error("no decision in the request's context")
	}
}

func TestUsersOfTheContext(t *testing.T) {
	l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}, Key: echomw.By(func(c *echo.Context) (string, error) {
		return c.Request().Header.Get("X-Who"), nil
	})})
	e := server(echomw.Middleware(l))
	for _, c := range []struct {
		who    string
		status int
	}{{"ada", 200}, {"bob", 200}, {"ada", 429}, {"", 200}, {"", 429}} {
		if res, _ := serve(e, "/", "X-Who", c.who); res.StatusCode != c.status {
			t.Errorf("%q: status %d, want %d", c.who, res.StatusCode, c.status)
		}
	}
	if d, err := l.Peek(t.Context(), keyfunc.User("ada")); err != nil || d.Allowed {
		t.Errorf("the user's key outside HTTP: %v, %v; want refused", d.Allowed, err)
	}
}

func TestRealIPOfEcho(t *testing.T) {
	for _, test := range []struct {
		extractor echo.IPExtractor
		want      []int // of the addresses below
		counted   string
	}{
		// Without an extractor echo takes the peer, and so does the limiter.
		{nil, []int{200, 429, 429, 429, 429, 429}, "192.0.2.1"},
		{echo.ExtractIPFromXFFHeader(), []int{200, 429, 429, 429, 429, 429}, "192.0.2.1"}, // which does not trust this peer
		{echo.ExtractIPFromXFFHeader(echo.TrustIPRange(peer(t))), []int{200, 429, 429, 200, 429, 200}, "203.0.113.1"},
	} {
		l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}, Key: echomw.ByRealIP()})
		e := server(echomw.Middleware(l))
		e.IPExtractor = test.extractor
		for i, forwarded := range []string{"203.0.113.1", "203.0.113.1", "::ffff:203.0.113.1", "2001:db8::1", "2001:DB8:0:0:0:0:0:7", "203.0.113.2"} {
			if res, _ := serve(e, "/", "X-Forwarded-For", forwarded); res.StatusCode != test.want[i] {
				t.Errorf("%s: status %d, want %d", forwarded, res.StatusCode, test.want[i])
			}
		}
		if d, err := l.Peek(t.Context(), keyfunc.IP(netip.MustParseAddr(test.counted))); err != nil || d.Allowed {
			t.Errorf("the key of %s outside HTTP: %v, %v; want refused", test.counted, d.Allowed, err)
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
	w := new(watch)
	l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}, Store: blocked{}, Budget: time.Hour, OnFailure: core.Closed})
	e := server(w.middleware, echomw.Middleware(l))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rec := httptest.NewRecorder()
	e.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
	if rec.Code != http.StatusServiceUnavailable || !errors.Is(w.returned[0], context.Canceled) {
		t.Errorf("status %d, returned %v", rec.Code, w.returned)
	}
}

// A program that has not looked at the error of core.New.
func TestNilLimiter(t *testing.T) {
	var text strings.Builder
	log.SetOutput(&text)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	fail := echomw.OnError(func(c *echo.Context, _ error) error { return c.String(503, "nobody is there") })
	for want, opts := range map[string][]echomw.Option{
		`503 {"message":"Service Unavailable. Try again later."}`: nil, "503 nobody is there": {fail},
	} {
		if _, got := serve(server(echomw.Middleware(nil, opts...)), "/"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := text.String(); strings.Count(got, "the limiter is nil") != 2 {
		t.Errorf("logged %q", got)
	}
}

// Routes are known everywhere but in Pre; requests without one share one key.
func TestRoutes(t *testing.T) {
	var seen []string
	l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(9)}, Key: func(r keyfunc.Request) (keyfunc.Key, error) {
		seen = append(seen, r.Route())
		return keyfunc.ByRoute()(r)
	}})
	limit := echomw.Middleware(l)
	e := server()
	e.Pre(limit)
	e.Use(limit)
	e.Group("/api/:ver", limit).GET("/items/:id", func(c *echo.Context) error { return nil }, limit)
	mux := http.NewServeMux() // what it knows of the path is not the route
	mux.Handle("/", e)
	seen = nil // New has looked at the function
	serve(mux, "/api/v1/items/7")
	serve(mux, "/none")
	if want := []string{"", "/api/:ver/items/:id", "/api/:ver/items/:id", "/api/:ver/items/:id", "", ""}; !slices.Equal(seen, want) {
		t.Errorf("routes %q, want %q", seen, want)
	}
	for route, want := range map[string]int64{"/api/:ver/items/:id": 6, keyfunc.Unmatched: 6, "/none": 9} {
		if d, err := l.Peek(t.Context(), keyfunc.Route(route)); err != nil || d.Shown().Remaining() != want {
			t.Errorf("%s: %d left (%v), want %d", route, d.Shown().Remaining(), err, want)
		}
	}
}
