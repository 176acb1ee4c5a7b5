package nethttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
	"github.com/slidegate/slidegate/nethttp"
)

// show prints what matters of the response to a GET of path.
func show(h http.Handler, path string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	fmt.Printf("%d %q, %s of %s left\n", w.Code, strings.TrimSpace(w.Body.String()),
		w.Header().Get("X-RateLimit-Remaining"), w.Header().Get("X-RateLimit-Limit"))
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// A whole mux behind one limit: two requests of an address in any 99 seconds.
func ExampleLimitByIP() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", hello)

	handler := nethttp.LimitByIP(2, 99*time.Second)(mux)

	show(handler, "/")
	show(handler, "/")
	show(handler, "/")
	// Output:
	// 200 "hello", 1 of 2 left
	// 200 "hello", 0 of 2 left
	// 429 "Too Many Requests. Try again in 99 s.", 0 of 2 left
}

// Clients with an API key are counted by it, all others by their address.
func ExampleLimitBy() {
	limit := nethttp.LimitBy(1000, time.Hour, keyfunc.ByAPIKey("X-API-Key"))
	show(limit(http.HandlerFunc(hello)), "/")
	// Output: 200 "hello", 999 of 1000 left
}

// One limiter around everything, and a tighter one around one route.
func ExampleMiddleware() {
	site, err := core.New(core.Config{
		Name:   "site",
		Limits: []core.Limit{core.PerSecond(50), core.PerDay(100_000).Slotted(48)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer site.Close()
	login, err := core.New(core.Config{Name: "login", Limits: []core.Limit{core.PerMinute(5)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer login.Close()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /", hello)
	mux.Handle("GET /login", nethttp.Middleware(login)(http.HandlerFunc(hello)))
	handler := nethttp.Middleware(site)(mux)

	show(handler, "/")
	show(handler, "/login")
	// Output:
	// 200 "hello", 49 of 50 left
	// 200 "hello", 4 of 5 left
}

// Each route has a quota of its own for each client, whatever is in its path.
func ExampleMiddleware_byRoute() {
	limiter := core.Must(core.New(core.Config{
		Limits: []core.Limit{core.PerHour(2)},
		Key:    keyfunc.All(keyfunc.ByRoute(), keyfunc.ByIP()),
	}))
	defer limiter.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", hello)
	mux.HandleFunc("GET /items/{id}", hello)
	handler := nethttp.Middleware(limiter)(mux)

	show(handler, "/users/1")
	show(handler, "/users/2")
	show(handler, "/items/1")
	// Output:
	// 200 "hello", 1 of 2 left
	// 200 "hello", 0 of 2 left
	// 200 "hello", 1 of 2 left
}

// A handler looks at the decision that was made on its request.
func ExampleMiddleware_decision() {
	limiter := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerMinute(100)}, KeepDecision: true}))
	defer limiter.Close()
	handler := nethttp.Middleware(limiter)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, ok := core.DecisionFrom(r.Context())
		fmt.Fprintln(w, ok, d.Reason, d.Shown().Used)
	}))
	show(handler, "/")
	// Output: 200 "true admitted 1", 99 of 100 left
}
