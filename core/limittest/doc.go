// Package limittest helps services test what they do at their limits: a limiter
// in a known state, a clock that the test turns, and assertions on responses. A
// whole test:
//
//	func TestLoginIsLimited(t *testing.T) {
//		clock := limittest.NewClock()
//		lim := limittest.New(t, clock, core.Config{Limits: []core.Limit{core.PerMinute(5)}})
//		handler := nethttp.Middleware(lim)(http.HandlerFunc(login))
//
//		limittest.Use(t, lim, limittest.Peer(), 4)
//		limittest.Admitted(t, post(handler, "/login"))
//		limittest.Refused(t, post(handler, "/login"), time.Minute)
//		clock.Advance(time.Minute)
//		limittest.Admitted(t, post(handler, "/login"))
//	}
//
// Here post stands for httptest.NewRequest, ServeHTTP and an
// httptest.ResponseRecorder. The files example_*_test.go of this package hold
// such tests in full for net/http, chi, gin and echo.
//
// A service that makes its limiters itself is given a store: see [NewStore],
// whose [Store.Break] and [Store.Hang] also show what it does without one.
//
// # Keys
//
// [Use] and [Exhaust] count for a key, and have an effect on requests that are
// counted by the same one. Where clients are counted by their address, that of
// requests made by httptest.NewRequest is [Peer]. Requests that reach an
// httptest.Server through a socket come from
// keyfunc.IP(netip.MustParseAddr("127.0.0.1")). Other keys are made by the
// constructors of package keyfunc: keyfunc.APIKey("secret") names the key that
// keyfunc.ByAPIKey reads from a request. Limits with a key of their own are given
// it with core.ForLimit.
//
// # Time
//
// Two clocks are of use. A [Clock] stands still until the test turns it. In a
// bubble of testing/synctest no Clock is needed: pass nil, and the limiter goes by
// the bubble's time, which time.Sleep moves.
//
// # Failures
//
// The assertions report with Errorf, so that they may be called from any
// goroutine, and say what was got, what was wanted and the likely reason. The
// functions that prepare something stop the test with Fatalf, and are called from
// its own goroutine.
package limittest
