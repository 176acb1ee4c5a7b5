package ginmw_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/ginmw"
	"github.com/slidegate/slidegate/keyfunc"
)

func hello(c *gin.Context) { c.String(http.StatusOK, "hello") }

// show prints what matters of the response to a request.
func show(h http.Handler, method, path string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	fmt.Printf("%s %s: %d, %s of %s left\n", method, path, w.Code, w.Header().Get("X-RateLimit-Remaining"), w.Header().Get("X-RateLimit-Limit"))
}

// All routes behind one limit, and a tighter one on one route.
func ExampleLimitByIP() {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.Use(ginmw.LimitByIP(100, time.Minute))
	e.GET("/", hello)
	e.POST("/login", ginmw.LimitByIP(1, time.Minute), hello)

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
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	api := e.Group("/api", ginmw.LimitBy(1000, time.Hour, keyfunc.ByAPIKey("X-API-Key")))
	api.GET("/items/:id", hello)

	show(e, "GET", "/api/items/7")
	// Output: GET /api/items/7: 200, 999 of 1000 left
}

// Users that a middleware of the application has found, with an answer of one's own.
func ExampleMiddleware() {
	gin.SetMode(gin.ReleaseMode)
	lim, err := core.New(core.Config{
		Limits: []core.Limit{core.PerSecond(10), core.PerHour(1000)},
		Key:    ginmw.By(func(c *gin.Context) (string, error) { return c.GetString("user"), nil }),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lim.Close()
	e := gin.New()
	e.Use(func(c *gin.Context) { c.Set("user", "42") })
	e.Use(ginmw.Middleware(lim, ginmw.OnRefuse(func(c *gin.Context, d core.Decision) {
		c.JSON(http.StatusTooManyRequests, gin.H{"retry_after_ms": d.RetryAfter().Milliseconds()})
	})))
	e.GET("/", hello)

	show(e, "GET", "/")
	// Output: GET /: 200, 9 of 10 left
}

// A handler that looks at what is left.
func ExampleDecision() {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.Use(ginmw.LimitByIP(5, time.Minute))
	e.GET("/", func(c *gin.Context) {
		if d, ok := ginmw.Decision(c); ok {
			s := d.Shown()
			fmt.Println(s.Remaining(), "of", s.N)
		}
	})
	show(e, "GET", "/")
	// Output:
	// 4 of 5
	// GET /: 200, 4 of 5 left
}

// Users that a middleware of the application has found.
func ExampleBy() {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.Use(func(c *gin.Context) { c.Set("user", c.GetHeader("X-User")) }) // yours
	e.Use(ginmw.LimitBy(10, time.Second, ginmw.By(func(c *gin.Context) (string, error) { return c.GetString("user"), nil })))
	e.GET("/", hello)

	show(e, "GET", "/")
	// Output: GET /: 200, 9 of 10 left
}

// gin's own way to the client's address, for services that have set it up already.
func ExampleByClientIP() {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	if err := e.SetTrustedProxies([]string{"10.0.0.1"}); err != nil {
		fmt.Println(err)
		return
	}
	e.Use(ginmw.LimitBy(100, time.Minute, ginmw.ByClientIP()))
	e.GET("/", hello)

	show(e, "GET", "/")
	// Output: GET /: 200, 99 of 100 left
}

// A refusal in a form of one's own.
func ExampleOnRefuse() {
	gin.SetMode(gin.ReleaseMode)
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerMinute(1)}}))
	defer lim.Close()
	e := gin.New()
	e.Use(ginmw.Middleware(lim, ginmw.OnRefuse(func(c *gin.Context, d core.Decision) {
		c.JSON(http.StatusTooManyRequests, gin.H{"error": "slow down", "limit": d.Shown().N})
	})))
	e.GET("/", hello)

	for range 2 {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 hello
	// 429 {"error":"slow down","limit":1}
}

// Requests that have no key, written like the application's other errors.
func ExampleOnError() {
	gin.SetMode(gin.ReleaseMode)
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerMinute(1)}, Key: keyfunc.Required(keyfunc.ByBearer())}))
	defer lim.Close()
	e := gin.New()
	e.Use(ginmw.Middleware(lim, ginmw.OnError(func(c *gin.Context, err error) {
		if errors.Is(err, keyfunc.ErrRequired) {
			c.JSON(http.StatusUnauthorized, gin.H{"error": "log in first"})
			return
		}
		c.JSON(http.StatusServiceUnavailable, gin.H{"error": "try again later"})
	})))
	e.GET("/", hello)

	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 401 {"error":"log in first"}
}
