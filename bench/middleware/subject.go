package main

import (
	"net"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/httprate"
	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"
	echov5 "github.com/labstack/echo/v5"
	echov5middleware "github.com/labstack/echo/v5/middleware"
	ulule "github.com/ulule/limiter/v3"
	ululegin "github.com/ulule/limiter/v3/drivers/middleware/gin"
	ululehttp "github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/slidegate/slidegate/chimw"
	"github.com/slidegate/slidegate/echomw"
	echomwv5 "github.com/slidegate/slidegate/echomw/v5"
	"github.com/slidegate/slidegate/ginmw"
	"github.com/slidegate/slidegate/nethttp"
)

// mode is what happens to all requests.
type mode struct {
	name   string
	n      int64
	window time.Duration
	status int
	allocs map[string]float64 // the most that slidegate may add, by framework
}

// Admitted requests have a short window, so that the log of exact counting is as long
// as the load asks for, and does not grow with the run.
var modes = [...]mode{
	{"admitted", 1e9, 10 * time.Millisecond, http.StatusOK, map[string]float64{
		"net/http": 2, "chi": 2, "gin": 5, "echo v4": 6, "echo v5": 3,
	}},
	{"refused", 1, time.Hour, http.StatusTooManyRequests, map[string]float64{
		"net/http": 2, "chi": 2, "gin": 5, "echo v4": 17, "echo v5": 14,
	}},
}

const slidegate = "slidegate"

// subject is a framework behind a limiter, or without one.
type subject struct {
	framework, limiter string
	handler            http.Handler
}

// status returns what requests are answered with.
func (s subject) status(m mode) int {
	if s.limiter == "" {
		return http.StatusOK
	}
	return m.status
}

func newSubjects(m mode) ([]subject, error) {
	gin.SetMode(gin.ReleaseMode)
	quota := func() *ulule.Limiter {
		return ulule.New(ululememory.NewStore(), ulule.Rate{Period: m.window, Limit: m.n})
	}
	perSecond := float64(m.n) / m.window.Seconds()
	all := []subject{
		{"net/http", "", onNetHTTP(nil)},
		{"net/http", slidegate, onNetHTTP(nethttp.LimitByIP(m.n, m.window))},
		{"net/http", "httprate", onNetHTTP(httprate.LimitBy(int(m.n), m.window, peer))},
		{"net/http", "ulule/limiter", onNetHTTP(ululehttp.NewMiddleware(quota()).Handler)},
		{"chi", "", onChi(nil)},
		{"chi", slidegate, onChi(chimw.LimitByIP(m.n, m.window))},
		{"chi", "httprate", onChi(httprate.LimitBy(int(m.n), m.window, peer))},
		{"gin", "", onGin(nil)},
		{"gin", slidegate, onGin(ginmw.LimitByIP(m.n, m.window))},
		{"gin", "ulule/limiter", onGin(ululegin.NewMiddleware(quota()))},
		{"echo v4", "", onEcho(nil)},
		{"echo v4", slidegate, onEcho(echomw.LimitByIP(m.n, m.window))},
		{"echo v4", "echo's own", onEcho(echomiddleware.RateLimiter(echomiddleware.NewRateLimiterMemoryStoreWithConfig(
			echomiddleware.RateLimiterMemoryStoreConfig{Rate: rate.Limit(perSecond), Burst: int(m.n), ExpiresIn: time.Hour})))},
		{"echo v5", "", onEchoV5(nil)},
		{"echo v5", slidegate, onEchoV5(echomwv5.LimitByIP(m.n, m.window))},
		{"echo v5", "echo's own", onEchoV5(echov5middleware.RateLimiter(echov5middleware.NewRateLimiterMemoryStoreWithConfig(
			echov5middleware.RateLimiterMemoryStoreConfig{Rate: perSecond, Burst: int(m.n), ExpiresIn: time.Hour})))},
	}
	if m.status == http.StatusOK {
		return all, nil
	}
	for _, s := range all { // the one request that is admitted
		if err := serve(s.handler, 1, http.StatusOK); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// peer is what httprate's documentation advises for clients without a proxy.
func peer(r *http.Request) (string, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return httprate.CanonicalizeIP(host), err
}

func empty(http.ResponseWriter, *http.Request) {}

func onNetHTTP(m func(http.Handler) http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", empty)
	if m == nil {
		return mux
	}
	return m(mux)
}

func onChi(m func(http.Handler) http.Handler) http.Handler {
	r := chi.NewRouter()
	if m != nil {
		r.Use(m)
	}
	r.Get("/", empty)
	return r
}

func onGin(m gin.HandlerFunc) http.Handler {
	e := gin.New()
	if m != nil {
		e.Use(m)
	}
	e.GET("/", func(*gin.Context) {})
	return e
}

func onEcho(m echo.MiddlewareFunc) http.Handler {
	e := echo.New()
	if m != nil {
		e.Use(m)
	}
	e.GET("/", func(echo.Context) error { return nil })
	return e
}

func onEchoV5(m echov5.MiddlewareFunc) http.Handler {
	e := echov5.New()
	if m != nil {
		e.Use(m)
	}
	e.GET("/", func(*echov5.Context) error { return nil })
	return e
}
