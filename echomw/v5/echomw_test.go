package echomw_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/echomw/v5"
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
type watch struct{ handled, returned []error }

func (w *watch) over(e *echo.Echo) *watch {
	handler := e.HTTPErrorHandler
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		w.handled = append(w.handled, err)
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
	e := server(w.middleware, echomw.LimitByIP(1, time.Minute))
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
	if len(w.handled) != 1 || len(w.returned) != 2 || w.returned[0] != nil {
		t.Fatalf("handled %v, returned %v", w.handled, w.returned)
	}
	refused, ok := errors.AsType[*echo.HTTPError](w.returned[1])
	if !ok || refused.Code != 429 || w.handled[0] != w.returned[1] || refused.Message != "Too Many Requests. Try again in 60 s." {
		t.Errorf("%#v", w.returned[1])
	}
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
		{plain, `503 {"message":"Service Unavailable. Try again later."}`},
		{&keyfunc.MissingError{What: "a badge"}, "200 true admitted 4"}, // counted by address
	} {
		fail = test.err
		if _, got := serve(e, "/"); got != test.want {
			t.Errorf("%v: %s, want %s", test.err, got, test.want)
		}
		last := w.returned[len(w.returned)-1]
		if (last != nil) != (test.want[:3] != "200") || last != nil && !errors.Is(last, errors.Unwrap(test.err)) && !errors.Is(last, test.err) {
			t.Errorf("%v: returned %v", test.err, last)
		}
	}
}

func TestOwnAnswers(t *testing.T) {
	w, after := new(watch), 0
	cfg := core.Config{
		Limits: []core.Limit{core.PerMinute(1)}, Key: keyfunc.Required(keyfunc.ByHeader("X-User")),
		OnRefuse: func(http.ResponseWriter, *http.Request, core.Decision) {
			t.Error("the limiter's own function was called")
		},
		OnError: func(http.ResponseWriter, *http.Request, error) { t.Error("the limiter's own function was called") },
	}
	count := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { after++; return next(c) }
	}
	e := server(w.middleware, echomw.Middleware(newLimiter(t, cfg), nil,
		echomw.OnRefuse(func(c *echo.Context, d core.Decision) error {
			return c.JSON(http.StatusTooManyRequests, map[string]float64{"wait": math.Ceil(d.RetryAfter().Seconds())})
		}),
		echomw.OnError(func(_ *echo.Context, err error) error {
			return echo.NewHTTPError(http.StatusUnauthorized, fmt.Sprint(errors.Is(err, keyfunc.ErrRequired)))
		})), count)
	w.over(e)
	for i, test := range []struct {
		headers []string
		want    string
	}{
		{[]string{"X-User", "ada"}, "200 true admitted 0"},
		{[]string{"X-User", "ada"}, `429 {"wait":60}`},
		{nil, `401 {"message":"true"}`},
	} {
		res, got := serve(e, "/", test.headers...)
		if got != test.want || (res.Header.Get("Retry-After") == "60") != (res.StatusCode == 429) {
			t.Errorf("request %d: %s, want %s", i+1, got, test.want)
		}
	}
	if after != 1 || len(w.handled) != 1 {
		t.Errorf("what follows ran %d times, the error handler %d times, want once", after, len(w.handled))
	}
}

func TestTheLimitersOwnAnswersAreUsed(t *testing.T) {
	w := new(watch)
	e := server(echomw.Middleware(newLimiter(t, core.Config{
		Limits: []core.Limit{core.PerMinute(1)}, Key: keyfunc.Required(keyfunc.ByHeader("X-User")),
		OnRefuse: func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
			http.Error(w, "slower", http.StatusTooManyRequests)
		},
		OnError: func(w http.ResponseWriter, _ *http.Request, _ error) { http.Error(w, "who?", http.StatusBadRequest) },
	})))
	w.over(e)
	for i, want := range []string{"200 true admitted 0", "429 slower"} {
		if _, got := serve(e, "/", "X-User", "ada"); got != want {
			t.Errorf("request %d: %s, want %s", i+1, got, want)
		}
	}
	if _, got := serve(e, "/"); got != "400 who?" || len(w.handled) > 0 {
		t.Errorf("%s; handled %v", got, w.handled)
	}
}

func TestUsersOfTheContext(t *testing.T) {
	user := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			c.Set("user", c.Request().Header.Get("X-Who"))
			return next(c)
		}
	}
	l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}, Key: echomw.By(func(c *echo.Context) (string, error) {
		return c.Get("user").(string), nil
	})})
	e := server(user, echomw.Middleware(l))
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
	}{
		// Without an extractor echo takes the peer, and so does the limiter.
		{nil, []int{200, 429, 429, 429, 429, 429}},
		{echo.ExtractIPFromXFFHeader(echo.TrustIPRange(peer(t))), []int{200, 429, 429, 200, 429, 200}},
	} {
		e := server(echomw.LimitBy(1, time.Minute, echomw.ByRealIP()))
		e.IPExtractor = test.extractor
		for i, forwarded := range []string{"203.0.113.1", "203.0.113.1", "::ffff:203.0.113.1", "2001:db8::1", "2001:DB8:0:0:0:0:0:7", "203.0.113.2"} {
			if res, _ := serve(e, "/", "X-Forwarded-For", forwarded); res.StatusCode != test.want[i] {
				t.Errorf("%s: status %d, want %d", forwarded, res.StatusCode, test.want[i])
			}
		}
	}
}

// The default key is the peer, though echo would trust private networks.
func TestTheDefaultKeyIsThePeer(t *testing.T) {
	e := server(echomw.LimitByIP(1, time.Minute))
	e.IPExtractor = echo.ExtractIPFromXFFHeader()
	for i, want := range []int{200, 429} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.1.2.3:4"
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("1.1.1.%d", i))
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("request %d: %d, want %d", i, w.Code, want)
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
	l := newLimiter(t, core.Config{Name: "x", Limits: []core.Limit{core.PerMinute(1)}, Store: blocked{}, Budget: time.Hour, OnFailure: core.Closed})
	e := server(w.middleware, echomw.Middleware(l))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rec := httptest.NewRecorder()
	e.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
	if rec.Code != http.StatusServiceUnavailable || !errors.Is(w.returned[0], context.Canceled) {
		t.Errorf("status %d, returned %v", rec.Code, w.returned)
	}
}

func TestNilLimiter(t *testing.T) {
	if _, got := serve(server(echomw.Middleware(nil)), "/"); !strings.HasPrefix(got, "503 ") {
		t.Errorf("%s, want 503", got)
	}
}

func TestNoDecision(t *testing.T) {
	if _, got := serve(server(), "/"); got != "200 false admitted 0" {
		t.Errorf("without a limiter: %s", got)
	}
}

// Routes are known everywhere but in Pre.
func TestRoutes(t *testing.T) {
	var seen []string
	l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(100)}, Key: func(r keyfunc.Request) (keyfunc.Key, error) {
		seen = append(seen, r.Route())
		return keyfunc.ByRoute()(r)
	}})
	limit := echomw.Middleware(l)
	e := server()
	e.Pre(limit)
	e.Use(limit)
	e.Group("/api/:ver", limit).GET("/items/:id", func(c *echo.Context) error { return nil }, limit)
	seen = nil // New has looked at the function
	serve(e, "/api/v1/items/7")
	if want := []string{"", "/api/:ver/items/:id", "/api/:ver/items/:id", "/api/:ver/items/:id"}; !slices.Equal(seen, want) {
		t.Errorf("routes %q, want %q", seen, want)
	}
}
