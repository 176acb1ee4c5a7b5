package main

import (
	"fmt"
	"math"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/echomw"
	"github.com/slidegate/slidegate/keyfunc"
)

// newService builds the routes with their limits, which store counts.
func newService(store core.Store) (http.Handler, error) {
	limits, err := newLimiters(store)
	if err != nil {
		return nil, err
	}
	limit := func(l *core.Limiter) echo.MiddlewareFunc { return echomw.Middleware(l, echomw.OnRefuse(refuse)) }
	e := echo.New()
	e.Use(limit(limits.all))
	e.GET("/", func(c echo.Context) error { return c.String(http.StatusOK, "hello\n") })
	e.POST("/login", func(c echo.Context) error { return c.String(http.StatusOK, "welcome\n") }, limit(limits.login))
	api := e.Group("/api", limit(limits.api))
	api.GET("/items/:id", func(c echo.Context) error { return c.String(http.StatusOK, fmt.Sprintln("item", c.Param("id"))) })
	return e, nil
}

// limiters are the service's limits. In Redis they are told apart by their names.
type limiters struct{ all, login, api *core.Limiter }

func newLimiters(store core.Store) (l limiters, err error) {
	if l.all, err = core.New(core.Config{
		Name: "all", Store: store,
		Limits: []core.Limit{core.PerMinute(300)},
	}); err != nil {
		return l, err
	}
	if l.login, err = core.New(core.Config{
		Name: "login", Store: store,
		Limits: []core.Limit{core.PerMinute(5)},
	}); err != nil {
		return l, err
	}
	l.api, err = core.New(core.Config{
		Name: "api", Store: store,
		Key: keyfunc.ByAPIKey("X-API-Key"),
		Limits: []core.Limit{
			core.PerSecond(10).Named("key-second"),
			core.PerHour(1000).Named("key-hour"),
			// Who invents keys has a new quota with each, but only one address.
			core.PerMinute(200).Named("address").Key(keyfunc.ByIP()),
		},
	})
	return l, err
}

// refuse answers a request that has to wait. Retry-After and the X-RateLimit headers are
// set already. An error in place of the answer would go to the HTTPErrorHandler.
// With core.Config.Cost, look at d.Reason too: a cost that never fits has no time to wait.
func refuse(c echo.Context, d core.Decision) error {
	return c.JSON(http.StatusTooManyRequests, map[string]any{
		"error": "rate_limited", "limit": d.Shown().Policy(), "retry_after": math.Ceil(d.RetryAfter().Seconds()),
	})
}
