package chimw_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/slidegate/slidegate/chimw"
	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "hello") }

// show prints what matters of the response to a request.
func show(h http.Handler, method, path string, headers ...string) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	h.ServeHTTP(w, r)
	fmt.Printf("%s %s: %d, %s of %s left\n", method, path, w.Code, w.Header().Get("X-RateLimit-Remaining"), w.Header().Get("X-RateLimit-Limit"))
}

// All routes behind one limit, and a tighter one on one route.
func ExampleLimitByIP() {
	r := chi.NewRouter()
	r.Use(chimw.LimitByIP(100, time.Minute))
	r.Get("/", hello)
	r.With(chimw.LimitByIP(1, time.Minute)).Post("/login", hello)

	show(r, "GET", "/")
	show(r, "POST", "/login")
	show(r, "POST", "/login")
	// Output:
	// GET /: 200, 99 of 100 left
	// POST /login: 200, 0 of 1 left
	// POST /login: 429, 0 of 1 left
}

// A group of routes whose clients are counted by their API key.
func ExampleLimitBy() {
	r := chi.NewRouter()
	r.Route("/api", func(r chi.Router) {
		r.Use(chimw.LimitBy(1000, time.Hour, keyfunc.ByAPIKey("X-API-Key")))
		r.Get("/items/{id}", hello)
	})
	show(r, "GET", "/api/items/7", "X-API-Key", "k1")
	show(r, "GET", "/api/items/7", "X-API-Key", "k2")
	// Output:
	// GET /api/items/7: 200, 999 of 1000 left
	// GET /api/items/7: 200, 999 of 1000 left
}

// Each route and user has a quota: the route is the pattern, whatever the path.
func ExampleMiddleware() {
	lim, err := core.New(core.Config{
		Limits: []core.Limit{core.PerSecond(10), core.PerHour(1000)},
		Key:    keyfunc.All(keyfunc.ByRoute(), keyfunc.ByHeader("X-User")),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lim.Close()
	r := chi.NewRouter()
	r.Use(chimw.Middleware(lim))
	r.Get("/items/{id}", hello)

	show(r, "GET", "/items/1", "X-User", "ada")
	show(r, "GET", "/items/2", "X-User", "ada")
	// Output:
	// GET /items/1: 200, 9 of 10 left
	// GET /items/2: 200, 8 of 10 left
}

// The address that a middleware of chi has found behind a proxy, which is trusted by its
// exact address.
func ExampleByClientIP() {
	r := chi.NewRouter()
	r.Use(middleware.ClientIPFromXFF("192.0.2.1/32"))
	r.Use(chimw.LimitBy(1, time.Minute, chimw.ByClientIP()))
	r.Get("/", hello)

	show(r, "GET", "/", "X-Forwarded-For", "203.0.113.1")
	show(r, "GET", "/", "X-Forwarded-For", "203.0.113.2")
	show(r, "GET", "/", "X-Forwarded-For", "198.51.100.9, 203.0.113.2") // what a client writes itself
	// Output:
	// GET /: 200, 0 of 1 left
	// GET /: 200, 0 of 1 left
	// GET /: 429, 0 of 1 left
}
