package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/slidegate/slidegate/chimw"
	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// newService builds the routes with their limits, which store counts.
func newService(store core.Store) (http.Handler, error) {
	limits, err := newLimiters(store)
	if err != nil {
		return nil, err
	}
	r := chi.NewRouter()
	r.Use(chimw.Middleware(limits.all))
	r.Get("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	r.With(chimw.Middleware(limits.login)).Post("/login", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "welcome") })
	r.Route("/api", func(r chi.Router) {
		r.Use(chimw.Middleware(limits.api))
		r.Get("/items/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "item", chi.URLParam(r, "id")) })
	})
	return r, nil
}

// limiters are the service's limits. In Redis they are told apart by their names.
type limiters struct{ all, login, api *core.Limiter }

func newLimiters(store core.Store) (l limiters, err error) {
	if l.all, err = core.New(core.Config{
		Name: "all", Store: store, OnRefuse: refuse,
		Limits: []core.Limit{core.PerMinute(300)},
	}); err != nil {
		return l, err
	}
	if l.login, err = core.New(core.Config{
		Name: "login", Store: store, OnRefuse: refuse,
		Limits: []core.Limit{core.PerMinute(5)},
	}); err != nil {
		return l, err
	}
	l.api, err = core.New(core.Config{
		Name: "api", Store: store, OnRefuse: refuse,
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
// set already.
// With core.Config.Cost, look at d.Reason too: a cost that never fits has no time to wait.
func refuse(w http.ResponseWriter, _ *http.Request, d core.Decision) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTooManyRequests)
	// The client may have gone. There is nobody to tell.
	_ = json.NewEncoder(w).Encode(map[string]any{
		"error": "rate_limited", "limit": d.Shown().Policy(), "retry_after": math.Ceil(d.RetryAfter().Seconds()),
	})
}
