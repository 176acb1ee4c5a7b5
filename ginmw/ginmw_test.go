package ginmw_test

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

	"github.com/gin-gonic/gin"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/ginmw"
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

// serve sends a request with headers given as name, value.
func serve(h http.Handler, target string, headers ...string) *http.Response {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(res *http.Response) string {
	var b strings.Builder
	_ = res.Write(&b)
	_, body, _ := strings.Cut(b.String(), "\r\n\r\n")
	return body
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
	e := engine(ginmw.LimitByIP(1, time.Minute), func(*gin.Context) { after++ })
	if got := text(serve(e, "/")); got != "true admitted 0" {
		t.Errorf("first request: %q", got)
	}
	res := serve(e, "/")
	if got := text(res); res.StatusCode != 429 || got != "Too Many Requests. Try again in 60 s.\n" || res.Header.Get("Retry-After") != "60" {
		t.Errorf("second request: %d %q, Retry-After %q", res.StatusCode, got, res.Header.Get("Retry-After"))
	}
	if after != 1 {
		t.Errorf("what follows ran %d times, want once", after)
	}
}

func TestOwnAnswers(t *testing.T) {
	after := 0
	e := engine(
		ginmw.Middleware(newLimiter(t, core.Config{
			Limits: []core.Limit{core.PerMinute(1)}, Key: keyfunc.Required(keyfunc.ByHeader("X-User")),
			OnRefuse: func(http.ResponseWriter, *http.Request, core.Decision) {
				t.Error("the limiter's own function was called")
			},
		}), nil,
			ginmw.OnRefuse(func(c *gin.Context, d core.Decision) {
				c.JSON(http.StatusTooManyRequests, gin.H{"wait": math.Ceil(d.RetryAfter().Seconds())})
			}),
			ginmw.OnError(func(c *gin.Context, err error) { _ = c.Error(err) })),
		func(*gin.Context) { after++ },
	)
	outer := gin.New()
	outer.Use(func(c *gin.Context) {
		c.Next()
		if last := c.Errors.Last(); last != nil {
			c.JSON(http.StatusUnauthorized, gin.H{"error": errors.Is(last, keyfunc.ErrRequired)})
		}
	})
	outer.Use(e.Handlers...)
	outer.GET("/", func(c *gin.Context) { c.String(200, "fine") })

	for i, want := range []string{`200 fine`, `429 {"wait":60}`} {
		res := serve(outer, "/", "X-User", "ada")
		if got := fmt.Sprint(res.StatusCode, " ", text(res)); i > 0 && got != want || i == 0 && res.StatusCode != 200 {
			t.Errorf("request %d: %q, want %q", i+1, got, want)
		}
	}
	if res := serve(outer, "/"); res.StatusCode != 401 || text(res) != `{"error":true}` {
		t.Errorf("without a key: %d", res.StatusCode)
	}
	if after != 1 {
		t.Errorf("what follows ran %d times, want once", after)
	}
}

func TestTheLimitersOwnAnswerIsUsed(t *testing.T) {
	e := engine(ginmw.Middleware(newLimiter(t, core.Config{
		Limits: []core.Limit{core.PerMinute(1)},
		OnRefuse: func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
			http.Error(w, "slower", http.StatusTooManyRequests)
		},
	})))
	serve(e, "/")
	if got := text(serve(e, "/")); got != "slower\n" {
		t.Errorf("answered %q", got)
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
		res := serve(e, "/", "X-Who", c.who)
		if res.StatusCode != c.status || strings.Contains(text(res), "secret") {
			t.Errorf("%q: status %d, want %d", c.who, res.StatusCode, c.status)
		}
	}
	if d, err := l.Peek(t.Context(), keyfunc.User("ada")); err != nil || d.Allowed {
		t.Errorf("the user's key outside HTTP: %v, %v; want refused", d.Allowed, err)
	}
}

func TestClientIPOfGin(t *testing.T) {
	e := engine(ginmw.LimitBy(1, time.Minute, ginmw.ByClientIP()))
	if err := e.SetTrustedProxies([]string{"192.0.2.1"}); err != nil { // the peer of httptest
		t.Fatal(err)
	}
	for _, c := range []struct {
		forwarded string
		status    int
	}{
		{"203.0.113.1", 200}, {"203.0.113.1", 429}, {"::ffff:203.0.113.1", 429},
		{"2001:db8::1", 200}, {"2001:DB8:0:0:0:0:0:7", 429}, {"203.0.113.2", 200},
	} {
		if res := serve(e, "/", "X-Forwarded-For", c.forwarded); res.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d", c.forwarded, res.StatusCode, c.status)
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
	l := newLimiter(t, core.Config{Name: "x", Limits: []core.Limit{core.PerMinute(1)}, Store: blocked{}, Budget: time.Hour, OnFailure: core.Closed})
	e := engine(ginmw.Middleware(l))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d", w.Code)
	}
}

func TestNilLimiter(t *testing.T) {
	if res := serve(engine(ginmw.Middleware(nil)), "/"); res.StatusCode != 503 {
		t.Errorf("status %d, want 503", res.StatusCode)
	}
}

func TestNoDecision(t *testing.T) {
	if got := text(serve(engine(), "/")); got != "false admitted 0" {
		t.Errorf("without a limiter: %q", got)
	}
}

// Routes are known at each level.
func TestRoutes(t *testing.T) {
	var seen []string
	limit := ginmw.Middleware(newLimiter(t, core.Config{Limits: []core.Limit{core.PerMinute(100)}, Key: func(r keyfunc.Request) (keyfunc.Key, error) {
		seen = append(seen, r.Route())
		return keyfunc.ByRoute()(r)
	}}))
	e := engine(limit)
	e.Group("/api/:ver", limit).GET("/items/:id", limit, func(*gin.Context) {})
	seen = nil // New has looked at the function
	serve(e, "/api/v1/items/7")
	serve(e, "/none")
	if want := []string{"/api/:ver/items/:id", "/api/:ver/items/:id", "/api/:ver/items/:id", ""}; !slices.Equal(seen, want) {
		t.Errorf("routes %q, want %q", seen, want)
	}
}
