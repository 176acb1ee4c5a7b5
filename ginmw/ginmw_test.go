package ginmw_test

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

	"github.com/gin-gonic/gin"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/ginmw"
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

func engine(handlers ...gin.HandlerFunc) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.Use(handlers...)
	e.GET("/", func(c *gin.Context) {
		d, ok := ginmw.Decision(c)
		c.String(http.StatusOK, "%v %v %d", ok, d.Reason, d.Shown().Remaining())
	})
	return e
}

func TestRefusalsAbort(t *testing.T) {
	after := 0
	limit := ginmw.Middleware(newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}}))
	e := engine(limit, func(*gin.Context) { after++ })
	if _, got := serve(e, "/"); got != "200 true admitted 0" {
		t.Errorf("first request: %s", got)
	}
	res, got := serve(e, "/")
	if got != "429 Too Many Requests. Try again in 60 s." || res.Header.Get("Retry-After") != "60" {
		t.Errorf("second request: %s, Retry-After %q", got, res.Header.Get("Retry-After"))
	}
	if after != 1 {
		t.Errorf("what follows ran %d times, want once", after)
	}
}

func TestOneLinersCountByTheirKey(t *testing.T) {
	for name, test := range map[string]struct {
		limit gin.HandlerFunc
		want  []int
	}{
		"by address":             {ginmw.LimitByIP(1, time.Minute), []int{200, 429, 200, 429}},
		"by header":              {ginmw.LimitBy(1, time.Minute, keyfunc.ByHeader("X-User")), []int{200, 200, 429, 429}},
		"by nothing: by address": {ginmw.LimitBy(1, time.Minute, nil), []int{200, 429, 200, 429}},
		"two":                    {ginmw.LimitByIP(2, time.Minute), []int{200, 200, 200, 200}},
	} {
		e := engine(test.limit)
		for i, from := range []struct{ addr, user string }{{"192.0.2.1:1", "ada"}, {"192.0.2.1:2", "bob"}, {"192.0.2.2:1", "ada"}, {"192.0.2.2:2", "bob"}} {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = from.addr
			r.Header.Set("X-User", from.user)
			r.Header.Set("X-Forwarded-For", fmt.Sprint("203.0.113.", i)) // which gin trusts
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
	ginmw.LimitBy(0, 60, ginmw.By(nil))
}

// Options go before the limiter's functions, and these before its own text; each is
// asked about its own kind of answer alone.
func TestWhoAnswers(t *testing.T) {
	refuse := ginmw.OnRefuse(func(c *gin.Context, d core.Decision) {
		c.JSON(http.StatusTooManyRequests, gin.H{"wait": d.RetryAfter().Seconds(), "aborted": c.IsAborted()})
	})
	fail := ginmw.OnError(func(c *gin.Context, err error) {
		c.String(http.StatusUnauthorized, "who? %v %v", errors.Is(err, keyfunc.ErrRequired), c.IsAborted())
	})
	refuses := func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
		http.Error(w, "slower "+d.RetryAfter().String(), http.StatusTooManyRequests)
	}
	fails := func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, fmt.Sprint("no ", errors.Is(err, keyfunc.ErrRequired)), http.StatusForbidden)
	}
	const (
		refused, failed   = "429 Too Many Requests. Try again in 60 s.", "400 The request lacks header X-User."
		refused1, failed1 = `429 {"aborted":true,"wait":60}`, "401 who? true true"
		refused2, failed2 = "429 slower 1m0s", "403 no true"
	)
	for _, test := range []struct {
		opts            []ginmw.Option
		cfg             core.Config
		refused, failed string
	}{
		{nil, core.Config{}, refused, failed},
		{[]ginmw.Option{nil, refuse, nil, fail}, core.Config{}, refused1, failed1},
		{[]ginmw.Option{refuse}, core.Config{}, refused1, failed},
		{[]ginmw.Option{fail}, core.Config{}, refused, failed1},
		{nil, core.Config{OnRefuse: refuses, OnError: fails}, refused2, failed2},
		{[]ginmw.Option{refuse, fail}, core.Config{OnRefuse: refuses, OnError: fails}, refused1, failed1},
		{[]ginmw.Option{refuse}, core.Config{OnRefuse: refuses, OnError: fails}, refused1, failed2},
		{[]ginmw.Option{fail}, core.Config{OnRefuse: refuses, OnError: fails}, refused2, failed1},
		{[]ginmw.Option{ginmw.OnRefuse(nil), ginmw.OnError(nil)}, core.Config{}, refused, failed},
	} {
		after := 0
		test.cfg.Limits, test.cfg.Key = []core.Limit{core.PerMinute(1)}, keyfunc.Required(keyfunc.ByHeader("X-User"))
		e := engine(ginmw.Middleware(newLimiter(t, test.cfg), test.opts...), func(*gin.Context) { after++ })
		serve(e, "/", "X-User", "ada")
		res, got := serve(e, "/", "X-User", "ada")
		if got != test.refused || res.Header.Get("Retry-After") != "60" {
			t.Errorf("refused with %s, want %s; headers %v", got, test.refused, res.Header)
		}
		if res, got = serve(e, "/"); got != test.failed || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("failed with %s, want %s; headers %v", got, test.failed, res.Header)
		}
		if after != 1 {
			t.Errorf("what follows ran %d times, want once", after)
		}
	}
}

// What OnError leaves to an outer middleware, that writes.
func TestAnOuterMiddlewareWritesTheError(t *testing.T) {
	l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}, Key: keyfunc.Required(keyfunc.ByHeader("X-User"))})
	e := engine(func(c *gin.Context) {
		c.Next()
		if last := c.Errors.Last(); last != nil {
			c.JSON(http.StatusUnauthorized, gin.H{"error": errors.Is(last, keyfunc.ErrRequired)})
		}
	}, ginmw.Middleware(l, ginmw.OnError(func(c *gin.Context, err error) { _ = c.Error(err) })))
	if res, got := serve(e, "/"); got != `401 {"error":true}` || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		t.Errorf("%s as %s", got, res.Header.Get("Content-Type"))
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
		look := func(c *gin.Context) {
			c.Next()
			d, ok := ginmw.Decision(c)
			got = fmt.Sprint(ok, " ", d.Reason, " ", d.Shown().Remaining())
		}
		outer := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(9)}})
		serve(engine(look, ginmw.Middleware(outer), ginmw.Middleware(newLimiter(t, test.inner))), "/")
		if got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	if _, got := serve(engine(), "/"); got != "200 false admitted 0" {
		t.Errorf("without a limiter: %s", got)
	}
}

func TestDecisionsTravelInTheRequestWhenAsked(t *testing.T) {
	for _, keep := range []bool{false, true} {
		found := !keep
		l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}, KeepDecision: keep})
		serve(engine(ginmw.Middleware(l), func(c *gin.Context) { _, found = core.DecisionFrom(c.Request.Context()) }), "/")
		if found != keep {
			t.Errorf("KeepDecision %v: found %v", keep, found)
		}
	}
}

func TestUsersOfTheContext(t *testing.T) {
	user := func(c *gin.Context) { c.Set("user", c.GetHeader("X-Who")) }
	by := ginmw.By(func(c *gin.Context) (string, error) {
		if c.GetString("user") == "bad" {
			return "", errors.New("a secret detail")
		}
		return c.GetString("user"), nil
	})
	l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}, Key: by})
	e := engine(user, ginmw.Middleware(l))
	for _, c := range []struct {
		who    string
		status int
	}{{"ada", 200}, {"bob", 200}, {"ada", 429}, {"", 200}, {"", 429}, {"bad", 503}} {
		if res, got := serve(e, "/", "X-Who", c.who); res.StatusCode != c.status || strings.Contains(got, "secret") {
			t.Errorf("%q: %s, want %d", c.who, got, c.status)
		}
	}
	if d, err := l.Peek(t.Context(), keyfunc.User("ada")); err != nil || d.Allowed {
		t.Errorf("the user's key outside HTTP: %v, %v; want refused", d.Allowed, err)
	}
}

func TestClientIPOfGin(t *testing.T) {
	for name, test := range map[string]struct {
		trust   []string
		want    []int // of the addresses below
		counted string
	}{
		"the peer of httptest": {[]string{"192.0.2.1"}, []int{200, 429, 429, 200, 429, 200, 429}, "203.0.113.1"},
		"another proxy":        {[]string{"192.0.2.2"}, []int{200, 429, 429, 429, 429, 429, 429}, "192.0.2.1"},
		"nobody":               {nil, []int{200, 429, 429, 429, 429, 429, 429}, "192.0.2.1"},
	} {
		l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}, Key: ginmw.ByClientIP()})
		e := engine(ginmw.Middleware(l))
		if err := e.SetTrustedProxies(test.trust); err != nil {
			t.Fatal(err)
		}
		for i, forwarded := range []string{"203.0.113.1", "203.0.113.1", "::ffff:203.0.113.1", "2001:db8::1", "2001:DB8:0:0:0:0:0:7", "203.0.113.2", "9.9.9.9, 203.0.113.2"} {
			if res, _ := serve(e, "/", "X-Forwarded-For", forwarded); res.StatusCode != test.want[i] {
				t.Errorf("trusting %s: %s: status %d, want %d", name, forwarded, res.StatusCode, test.want[i])
			}
		}
		if d, err := l.Peek(t.Context(), keyfunc.IP(netip.MustParseAddr(test.counted))); err != nil || d.Allowed {
			t.Errorf("trusting %s: the key of %s outside HTTP: %v, %v; want refused", name, test.counted, d.Allowed, err)
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
	e := engine(ginmw.Middleware(l))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d", w.Code)
	}
}

// A program that has not looked at the error of core.New.
func TestNilLimiter(t *testing.T) {
	var text strings.Builder
	log.SetOutput(&text)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	reached := false
	fail := ginmw.OnError(func(c *gin.Context, err error) { c.String(http.StatusServiceUnavailable, "nobody is there") })
	for want, opts := range map[string][]ginmw.Option{"503 Service Unavailable. Try again later.": nil, "503 nobody is there": {fail}} {
		e := engine(ginmw.Middleware(nil, opts...), func(*gin.Context) { reached = true })
		if _, got := serve(e, "/"); got != want || reached {
			t.Errorf("%s, want %s; handler reached: %v", got, want, reached)
		}
	}
	if got := text.String(); strings.Count(got, "the limiter is nil") != 2 {
		t.Errorf("logged %q", got)
	}
}

// Routes are known at each level; requests that match none share one key.
func TestRoutes(t *testing.T) {
	var seen []string
	l := newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(5)}, Key: func(r keyfunc.Request) (keyfunc.Key, error) {
		seen = append(seen, r.Route())
		return keyfunc.ByRoute()(r)
	}})
	limit := ginmw.Middleware(l)
	e := engine(limit)
	e.Group("/api/:ver", limit).GET("/items/:id", limit, func(*gin.Context) {})
	seen = nil // New has looked at the function
	serve(e, "/api/v1/items/7")
	serve(e, "/none")
	if want := []string{"/api/:ver/items/:id", "/api/:ver/items/:id", "/api/:ver/items/:id", ""}; !slices.Equal(seen, want) {
		t.Errorf("routes %q, want %q", seen, want)
	}
	for route, want := range map[string]int64{"/api/:ver/items/:id": 2, keyfunc.Unmatched: 4, "/none": 5} {
		if d, err := l.Peek(t.Context(), keyfunc.Route(route)); err != nil || d.Shown().Remaining() != want {
			t.Errorf("%s: %d left (%v), want %d", route, d.Shown().Remaining(), err, want)
		}
	}
}
