package limittest_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/limittest"
	"github.com/slidegate/slidegate/keyfunc"
	"github.com/slidegate/slidegate/nethttp"
)

// printer stands for the *testing.T of a test, and prints what it reports.
type printer struct{ testing.TB }

func (printer) Helper()        {}
func (printer) Cleanup(func()) {}

func (printer) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (printer) Fatalf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// t is given to a test by package testing.
var t printer

// get has h answer GET /.
func get(h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w
}

// service is what is tested: it makes its limiter itself, on a store that it is given.
func service(store core.Store, onFailure core.Policy) http.Handler {
	lim := core.Must(core.New(core.Config{
		Name: "api", Store: store, Limits: []core.Limit{core.PerMinute(2)},
		OnFailure: onFailure, Budget: 5 * time.Millisecond, Logger: quiet,
	}))
	return nethttp.Middleware(lim)(http.HandlerFunc(fine))
}

// What was refused passes when the clock has reached the end of the wait.
func Example() {
	clock := limittest.NewClock()
	lim := limittest.New(t, clock, core.Config{Limits: []core.Limit{core.PerMinute(2)}})
	handler := nethttp.Middleware(lim)(http.HandlerFunc(fine))

	limittest.Use(t, lim, limittest.Peer(), 1)
	limittest.Admitted(t, get(handler))
	limittest.Refused(t, get(handler), time.Minute)
	clock.Advance(time.Minute - time.Microsecond)
	limittest.Refused(t, get(handler), time.Microsecond)
	clock.Advance(time.Microsecond)
	limittest.Admitted(t, get(handler))
	// Output:
}

func ExampleNewClock() {
	clock := limittest.NewClock()
	fmt.Println(clock.Now())
	// Output: 2000-01-01 00:00:00 +0000 UTC
}

func ExampleClock_Advance() {
	clock := limittest.NewClock()
	clock.Advance(90 * time.Second)
	clock.Advance(-time.Hour) // nothing happens
	fmt.Println(clock.Now().Format(time.TimeOnly))
	// Output: 00:01:30
}

// Faults of the configuration stop the test, all at once.
func ExampleNew() {
	limittest.New(t, limittest.NewClock(), core.Config{Limits: []core.Limit{core.PerMinute(0)}, Budget: -time.Second})
	// Output:
	// limittest.New: the configuration is faulty:
	// slidegate: Limits[0].N = 0: a limit lets at least 1 unit through; use 1 to 999999999999999; to exempt requests, use Config.Skip
	// slidegate: Budget = -1s: negative; use a positive duration, or 0 for 100ms
}

// A service that makes its limiters itself is given the store.
func ExampleNewStore() {
	clock := limittest.NewClock()
	handler := service(limittest.NewStore(t, clock), core.Closed)

	limittest.Admitted(t, get(handler))
	clock.Advance(20 * time.Second)
	limittest.Admitted(t, get(handler))
	limittest.Refused(t, get(handler), 40*time.Second)
	// Output:
}

// What does the service do when Redis cannot be reached?
func ExampleStore_Break() {
	store := limittest.NewStore(t, limittest.NewClock())
	handler := service(store, core.Closed)
	store.Break(errors.New("connection refused"))
	fmt.Println(get(handler).Code)
	store.Mend()
	fmt.Println(get(handler).Code)
	// Output:
	// 503
	// 200
}

// And what when Redis does not answer in time?
func ExampleStore_Hang() {
	store := limittest.NewStore(t, limittest.NewClock())
	handler := service(store, core.Open)
	store.Hang()
	fmt.Println(get(handler).Code) // after the budget of 5 ms
	// Output: 200
}

// Clients are counted by their API key, and by their address besides.
func ExampleUse() {
	lim := limittest.New(t, limittest.NewClock(), core.Config{
		Limits: []core.Limit{core.PerMinute(10), core.PerHour(500).Named("address").Key(keyfunc.ByIP())},
		Key:    keyfunc.ByAPIKey("X-API-Key"),
	})
	address := core.ForLimit("address", limittest.Peer())

	limittest.Use(t, lim, keyfunc.APIKey("secret"), 8, address)
	limittest.Use(t, lim, keyfunc.APIKey("secret"), 3, address)
	// Output: limittest.Use: 3 units do not fit: limit "1m" has 2 of 10 left, and room in 1m0s
}

// However large the limits are, the next request is refused.
func ExampleExhaust() {
	lim := limittest.New(t, limittest.NewClock(), core.Config{Limits: []core.Limit{core.PerSecond(10), core.PerDay(100_000)}})
	handler := nethttp.Middleware(lim)(http.HandlerFunc(fine))

	limittest.Exhaust(t, lim, limittest.Peer())
	limittest.Refused(t, get(handler), time.Second)
	// Output:
}

func ExamplePeer() {
	fmt.Println(limittest.Peer() == keyfunc.IP(netip.MustParseAddr("192.0.2.1")))
	fmt.Println(httptest.NewRequest(http.MethodGet, "/", nil).RemoteAddr)
	// Output:
	// true
	// 192.0.2.1:1234
}

// A limiter that was forgotten is noticed.
func ExampleAdmitted() {
	lim := limittest.New(t, limittest.NewClock(), core.Config{Limits: []core.Limit{core.PerMinute(1)}})
	limited := nethttp.Middleware(lim)(http.HandlerFunc(fine))
	limittest.Admitted(t, get(limited)) // passes
	limittest.Admitted(t, get(limited))
	limittest.Admitted(t, get(http.NotFoundHandler()))
	// Output:
	// status 429, Retry-After 60: the request was refused with 0 of 1 left; want admitted
	// status 404 without rate limit headers: no limiter has seen this request, or it was not counted (by Config.Skip, as a preflight, or without a decision under core.Open), or the limiter writes core.NoHeaders; want admitted
}

func ExampleRefused() {
	lim := limittest.New(t, limittest.NewClock(), core.Config{Limits: []core.Limit{core.PerMinute(5)}})
	handler := nethttp.Middleware(lim)(http.HandlerFunc(fine))

	limittest.Use(t, lim, limittest.Peer(), 4)
	limittest.Refused(t, get(handler), time.Minute) // four and one are five
	limittest.Refused(t, get(handler), time.Hour)
	// Output:
	// status 200: the request was admitted with 0 of 5 left; want refused
	// status 429, Retry-After 60: the request was refused with 0 of 5 left; want Retry-After 3600, for a wait of 1h0m0s: were units taken at another time, or does another limit refuse?
}

func ExampleRemaining() {
	handler := nethttp.LimitByIP(5, time.Minute)(http.HandlerFunc(fine))
	limittest.Remaining(t, get(handler), 4) // passes
	limittest.Remaining(t, get(handler), 4)
	// Output: X-RateLimit-Remaining is 3, want 4: status 200: the request was admitted with 3 of 5 left
}
