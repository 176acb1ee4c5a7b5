package echomw_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/echomw/v5"
	"github.com/slidegate/slidegate/keyfunc"
)

func hello(c *echo.Context) error { return c.String(http.StatusOK, "hello") }

// show prints what matters of the response to a request.
func show(h http.Handler, method, path string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	fmt.Printf("%s %s: %d, %s of %s left\n", method, path, w.Code, w.Header().Get("X-RateLimit-Remaining"), w.Header().Get("X-RateLimit-Limit"))
}

// All routes behind one limit, and a tighter one on one route.
func ExampleLimitByIP() {
	e := echo.New()
	e.Use(echomw.LimitByIP(100, time.Minute))
	e.GET("/", hello)
	e.POST("/login", hello, echomw.LimitByIP(1, time.Minute))

	show(e, "GET", "/")
	show(e, "POST", "/login")
	show(e, "POST", "/login")
	// Output:
	// GET /: 200, 99 of 100 left
	// POST /login: 200, 0 of 1 left
	// POST /login: 429, 0 of 1 left
}

// A group of routes whose clients are counted by their API key.
func ExampleLimitBy() {
	e := echo.New()
	api := e.Group("/api", echomw.LimitBy(1000, time.Hour, keyfunc.ByAPIKey("X-API-Key")))
	api.GET("/items/:id", hello)

	show(e, "GET", "/api/items/7")
	// Output: GET /api/items/7: 200, 999 of 1000 left
}

// Several limits in one decision, with a refusal of one's own.
func ExampleMiddleware() {
	lim, err := core.New(core.Config{Limits: []core.Limit{core.PerSecond(10), core.PerHour(1000)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lim.Close()
	e := echo.New()
	e.Use(echomw.Middleware(lim, echomw.OnRefuse(func(c *echo.Context, d core.Decision) error {
		return c.JSON(http.StatusTooManyRequests, map[string]int64{"retry_after_ms": d.RetryAfter().Milliseconds()})
	})))
	e.GET("/", hello)

	show(e, "GET", "/")
	// Output: GET /: 200, 9 of 10 left
}

// Users that a middleware of the application has found.
func ExampleBy() {
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc { // yours
		return func(c *echo.Context) error {
			c.Set("user", "42")
			return next(c)
		}
	})
	e.Use(echomw.LimitBy(10, time.Second, echomw.By(func(c *echo.Context) (string, error) {
		user, ok := c.Get("user").(string)
		if !ok {
			return "", echo.NewHTTPError(http.StatusUnauthorized, "log in first")
		}
		return user, nil
	})))
	e.GET("/", hello)

	show(e, "GET", "/")
	// Output: GET /: 200, 9 of 10 left
}

// echo's own way to the client's address, for services that have set it up already.
func ExampleByRealIP() {
	e := echo.New()
	e.IPExtractor = echo.ExtractIPDirect()
	e.Use(echomw.LimitBy(100, time.Minute, echomw.ByRealIP()))
	e.GET("/", hello)

	show(e, "GET", "/")
	// Output: GET /: 200, 99 of 100 left
}

// A handler that looks at what is left.
func ExampleDecision() {
	e := echo.New()
	e.Use(echomw.LimitByIP(5, time.Minute))
	e.GET("/", func(c *echo.Context) error {
		if d, ok := echomw.Decision(c); ok {
			s := d.Shown()
			fmt.Println(s.Remaining(), "of", s.N)
		}
		return nil
	})
	show(e, "GET", "/")
	// Output:
	// 4 of 5
	// GET /: 200, 4 of 5 left
}

// A refusal in a form of one's own.
func ExampleOnRefuse() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerMinute(1)}}))
	defer lim.Close()
	e := echo.New()
	e.Use(echomw.Middleware(lim, echomw.OnRefuse(func(c *echo.Context, d core.Decision) error {
		return c.String(http.StatusTooManyRequests, fmt.Sprint("slow down: ", d.Shown().N, " a minute"))
	})))
	e.GET("/", hello)

	for range 2 {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 hello
	// 429 slow down: 1 a minute
}

// Requests that have no key, as an error for the server's HTTPErrorHandler.
func ExampleOnError() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerMinute(1)}, Key: keyfunc.Required(keyfunc.ByBearer())}))
	defer lim.Close()
	e := echo.New()
	e.Use(echomw.Middleware(lim, echomw.OnError(func(_ *echo.Context, err error) error {
		if errors.Is(err, keyfunc.ErrRequired) {
			return echo.NewHTTPError(http.StatusUnauthorized, "log in first")
		}
		return echo.NewHTTPError(http.StatusServiceUnavailable, "try again later")
	})))
	e.GET("/", hello)

	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Print(w.Code, " ", w.Body)
	// Output: 401 {"message":"log in first"}
}
