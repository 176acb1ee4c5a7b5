package main

import (
	"fmt"
	"math"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/ginmw"
	"github.com/slidegate/slidegate/keyfunc"
)

// newService builds the routes with their limits, which store counts.
func newService(store core.Store) (http.Handler, error) {
	limits, err := newLimiters(store)
	if err != nil {
		return nil, err
	}
	limit := func(l *core.Limiter) gin.HandlerFunc { return ginmw.Middleware(l, ginmw.OnRefuse(refuse)) }
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.Use(gin.Recovery(), limit(limits.all))
	e.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello\n") })
	e.POST("/login", limit(limits.login), func(c *gin.Context) { c.String(http.StatusOK, "welcome\n") })
	api := e.Group("/api", limit(limits.api))
	api.GET("/items/:id", func(c *gin.Context) { c.String(http.StatusOK, fmt.Sprintln("item", c.Param("id"))) })
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
// set already, and the context is aborted.
// With core.Config.Cost, look at d.Reason too: a cost that never fits has no time to wait.
func refuse(c *gin.Context, d core.Decision) {
	c.JSON(http.StatusTooManyRequests, gin.H{
		"error": "rate_limited", "limit": d.Shown().Policy(), "retry_after": math.Ceil(d.RetryAfter().Seconds()),
	})
}
