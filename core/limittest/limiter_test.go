package limittest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/limittest"
	"github.com/slidegate/slidegate/keyfunc"
	"github.com/slidegate/slidegate/nethttp"
)

var someone = keyfunc.User("someone")

func limits(l ...core.Limit) core.Config { return core.Config{Limits: l} }

// quiet makes limiters say nothing.
var quiet = slog.New(slog.DiscardHandler)

func TestNewMakesALimiterOnTheClock(t *testing.T) {
	clock := limittest.NewClock()
	var l *core.Limiter
	f := try(t, func(t testing.TB) { l = limittest.New(t, clock, limits(core.PerMinute(1))) })
	said(t, f)
	if l.Name() != "test" {
		t.Errorf("its name is %q", l.Name())
	}
	d, err := l.Allow(t.Context(), someone)
	if err != nil || !d.Allowed || d.At() != core.InstantOf(clock.Now()) {
		t.Errorf("%+v, %v", d, err)
	}
	f.end()
	if _, err := l.Allow(t.Context(), someone); !errors.Is(err, core.ErrClosed) {
		t.Errorf("after the test: %v", err)
	}
}

func TestNewKeepsTheName(t *testing.T) {
	l := limittest.New(t, nil, core.Config{Name: "api", Limits: []core.Limit{core.PerMinute(1)}})
	if l.Name() != "api" {
		t.Errorf("its name is %q", l.Name())
	}
}

func TestNewTellsAllFaults(t *testing.T) {
	f := try(t, func(t testing.TB) {
		limittest.New(t, nil, core.Config{Name: "two words", Limits: []core.Limit{core.PerMinute(0)}, Budget: -1})
	})
	if len(f.failures) != 1 || !f.stopped {
		t.Fatalf("failures: %q", f.failures)
	}
	lines := strings.Split(f.failures[0], "\n")
	want := []string{"limittest.New: the configuration is faulty:", "Name", "Limits[0].N", "Budget"}
	if len(lines) != len(want) {
		t.Fatalf("it says\n%s", f.failures[0])
	}
	for i := range want {
		if !strings.Contains(lines[i], want[i]) {
			t.Errorf("line %d is %q, want one on %q", i, lines[i], want[i])
		}
	}
}

func TestNewLeavesAGivenStoreOpen(t *testing.T) {
	clock := limittest.NewClock()
	store := limittest.NewStore(t, clock)
	var a, b *core.Limiter
	cfg := core.Config{Name: "api", Store: store, Limits: []core.Limit{core.PerMinute(2)}}
	f := try(t, func(t testing.TB) {
		a = limittest.New(t, nil, cfg)
		b = limittest.New(t, nil, cfg)
	})
	said(t, f)
	limittest.Use(t, a, someone, 1)
	f.end()
	limittest.Use(t, b, someone, 1)
	if d, err := a.Peek(t.Context(), someone); err != nil || d.Allowed || d.At() != core.InstantOf(clock.Now()) {
		t.Errorf("the limiters do not count together, or not on the clock: %+v, %v", d, err)
	}
}

func TestNewRefusesAClockThatAStoreWouldNotHeed(t *testing.T) {
	f := try(t, func(t testing.TB) {
		limittest.New(t, limittest.NewClock(), core.Config{Name: "api", Store: limittest.NewStore(t, nil), Limits: []core.Limit{core.PerMinute(2)}})
	})
	fatal(t, f, "limittest.New: Config.Store is given and so is a clock, which the store would not heed: "+
		"leave Config.Store out, or make the store with limittest.NewStore(t, clock) and pass nil here")
}

func TestNewAsksForTheNameOfALimiterWithAStore(t *testing.T) {
	f := try(t, func(t testing.TB) {
		limittest.New(t, nil, core.Config{Store: limittest.NewStore(t, nil), Limits: []core.Limit{core.PerMinute(2)}})
	})
	if len(f.failures) != 1 || !strings.Contains(f.failures[0], "told apart by their names") {
		t.Errorf("failures: %q", f.failures)
	}
}

// Without a clock, time is the bubble's.
func TestNewInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limittest.New(t, nil, limits(core.PerMinute(3)))
		limittest.Exhaust(t, l, someone)
		time.Sleep(time.Minute - time.Microsecond)
		if d, err := l.Allow(t.Context(), someone); err != nil || d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
		time.Sleep(time.Microsecond)
		limittest.Use(t, l, someone, 3)
	})
}

func TestUseTakesUnits(t *testing.T) {
	l := limittest.New(t, limittest.NewClock(), limits(core.PerMinute(5), core.PerHour(8)))
	for _, n := range []int64{1, 3, 1} {
		said(t, try(t, func(t testing.TB) { limittest.Use(t, l, someone, n) }))
	}
	d, err := l.Peek(t.Context(), someone)
	if err != nil {
		t.Fatal(err)
	}
	for s := range d.Limits() {
		if s.Used != 5 {
			t.Errorf("limit %s has %d used", s.Name(), s.Used)
		}
	}
}

func TestUseTellsWhyNothingWasTaken(t *testing.T) {
	for name, x := range map[string]struct {
		use  func(testing.TB, *core.Limiter)
		want string
	}{
		"one limit": {
			func(t testing.TB, l *core.Limiter) { limittest.Use(t, l, someone, 3) },
			`limittest.Use: 3 units do not fit: limit "1m" has 2 of 5 left, and room in 50s`,
		},
		"two limits": {
			func(t testing.TB, l *core.Limiter) { limittest.Use(t, l, someone, 4) },
			`limittest.Use: 4 units do not fit: limit "1m" has 2 of 5 left, and room in 50s; limit "1h" has 3 of 6 left, and room in 59m50s`,
		},
		"never": {
			func(t testing.TB, l *core.Limiter) { limittest.Use(t, l, someone, 7) },
			`limittest.Use: 7 units do not fit: limit "1m" never holds more than 5; limit "1h" never holds more than 6`,
		},
		"no cost": {
			func(t testing.TB, l *core.Limiter) { limittest.Use(t, l, someone, 0) },
			"limittest.Use: " + fault(&core.FieldError{Field: "cost", Value: "0", Problem: "not a cost", Remedy: "use 1 to 999999999999999; to look without taking, use Peek"}),
		},
		"no key": {
			func(t testing.TB, l *core.Limiter) { limittest.Use(t, l, keyfunc.Key{}, 1) },
			"limittest.Use: slidegate: the request carries no key: a key (the one given is empty)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := limittest.NewClock()
			l := limittest.New(t, clock, limits(core.PerMinute(5), core.PerHour(6)))
			limittest.Use(t, l, someone, 3)
			clock.Advance(10 * time.Second)
			fatal(t, try(t, func(t testing.TB) { x.use(t, l) }), x.want)
			if d, err := l.Peek(t.Context(), someone); err != nil || d.Shown().Used != 3 {
				t.Errorf("something was taken: %+v, %v", d, err)
			}
		})
	}
}

func fault(f *core.FieldError) string { return f.Error() }

func TestUseAndExhaustFailWithoutADecision(t *testing.T) {
	for policy, want := range map[core.Policy]string{
		core.Closed: "limittest.Use: slidegate: no decision: connection refused",
		core.Open:   "limittest.Use: the store gave no decision: under core.Open that passes, but nothing was counted",
	} {
		store := limittest.NewStore(t, nil)
		store.Break(errors.New("connection refused"))
		l := limittest.New(t, nil, core.Config{
			Name: "api", Store: store, OnFailure: policy, Limits: []core.Limit{core.PerMinute(5)}, Logger: quiet,
		})
		fatal(t, try(t, func(t testing.TB) { limittest.Use(t, l, someone, 1) }), want)
		fatal(t, try(t, func(t testing.TB) { limittest.Exhaust(t, l, someone) }),
			"limittest.Exhaust: slidegate: no decision: connection refused")
	}
}

func TestExhaustLeavesNothing(t *testing.T) {
	for name, limit := range map[string]core.Limit{
		"one": core.PerMinute(1), "exact": core.PerMinute(5), "slotted": core.PerMinute(100).Slotted(7), "hybrid": core.PerMinute(100).Hybrid(6, 0.5),
		"largest": core.PerDay(core.MaxUnits).Slotted(48),
	} {
		for _, used := range []int64{0, 1} {
			t.Run(fmt.Sprintf("%s, %d used", name, used), func(t *testing.T) {
				l := limittest.New(t, limittest.NewClock(), limits(limit))
				if used > 0 {
					limittest.Use(t, l, someone, used)
				}
				for range 2 {
					said(t, try(t, func(t testing.TB) { limittest.Exhaust(t, l, someone) }))
					d, err := l.Peek(t.Context(), someone)
					if err != nil || d.Reason != core.Refused || d.Shown().Used != limit.N() {
						t.Errorf("%+v, %v", d, err)
					}
				}
				limittest.Use(t, l, keyfunc.User("another"), 1)
			})
		}
	}
}

func TestExhaustLeavesWhatTheTightestLimitDoesNotReach(t *testing.T) {
	clock := limittest.NewClock()
	l := limittest.New(t, clock, limits(core.PerSecond(10), core.PerMinute(25)))
	for _, want := range []int64{10, 20, 25, 25} {
		limittest.Exhaust(t, l, someone)
		d, err := l.Peek(t.Context(), someone)
		if err != nil || d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		if s, _ := d.Limit("1m"); s.Used != want {
			t.Errorf("the limit per minute has %d used, want %d", s.Used, want)
		}
		clock.Advance(time.Second)
	}
}

func TestLimitsWithKeysOfTheirOwn(t *testing.T) {
	l := limittest.New(t, limittest.NewClock(), limits(
		core.PerMinute(5), core.PerMinute(3).Named("address").Key(keyfunc.ByIP())))
	address := core.ForLimit("address", limittest.Peer())
	limittest.Use(t, l, someone, 1, address)
	limittest.Exhaust(t, l, someone, address)
	d, err := l.Peek(t.Context(), someone, address)
	if s, _ := d.Limit("1m"); err != nil || d.Allowed || s.Used != 3 {
		t.Errorf("%+v, %v", d, err)
	}
	missing := `slidegate: the request carries no key: the key of limit "address": pass core.ForLimit("address", key)`
	fatal(t, try(t, func(t testing.TB) { limittest.Use(t, l, someone, 1) }), "limittest.Use: "+missing)
	fatal(t, try(t, func(t testing.TB) { limittest.Exhaust(t, l, someone) }), "limittest.Exhaust: "+missing)
}

// thoughtless admits everything and counts nothing.
type thoughtless struct{ core.Store }

func (thoughtless) Do(_ context.Context, c *core.Call) error {
	for i := range c.Parts {
		c.Parts[i].Done = true
	}
	return nil
}

func TestExhaustEndsWithAStoreThatDoesNotCount(t *testing.T) {
	l := limittest.New(t, nil, core.Config{Name: "api", Store: thoughtless{}, Limits: []core.Limit{core.PerMinute(5)}})
	fatal(t, try(t, func(t testing.TB) { limittest.Exhaust(t, l, someone) }),
		"limittest.Exhaust: the limiter still admits after 1000 attempts: does its store count?")
}

// layered is a store with something in front of it.
type layered struct {
	core.Store
	before func(*core.Call)
}

func (s layered) Do(ctx context.Context, c *core.Call) error {
	s.before(c)
	return s.Store.Do(ctx, c)
}

func TestExhaustTriesAgainWhenAnotherRequestComesBetween(t *testing.T) {
	store := limittest.NewStore(t, limittest.NewClock())
	cfg := core.Config{Name: "api", Store: store, Limits: []core.Limit{core.PerMinute(5)}}
	other := limittest.New(t, nil, cfg)
	takes := 0
	cfg.Store = layered{store, func(c *core.Call) {
		if c.Op != core.OpTake {
			return
		}
		if takes++; takes == 1 {
			limittest.Use(t, other, someone, 1)
		}
	}}
	l := limittest.New(t, nil, cfg)
	said(t, try(t, func(t testing.TB) { limittest.Exhaust(t, l, someone) }))
	if d, err := l.Peek(t.Context(), someone); err != nil || d.Allowed || d.Shown().Used != 5 || takes != 2 {
		t.Errorf("after %d takes: %+v, %v", takes, d, err)
	}
}

// A limit that a layer only watches refuses nothing.
func TestExhaustGoesBeyondAWatchedLimit(t *testing.T) {
	store := layered{limittest.NewStore(t, limittest.NewClock()), func(c *core.Call) { c.Parts[0].Watched = true }}
	l := limittest.New(t, nil, core.Config{Name: "api", Store: store, Limits: []core.Limit{core.PerMinute(5), core.PerHour(8)}})
	said(t, try(t, func(t testing.TB) { limittest.Exhaust(t, l, someone) }))
	d, err := l.Peek(t.Context(), someone)
	if s, _ := d.Limit("1h"); err != nil || d.Allowed || s.Used != 8 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestExhaustAmongOtherRequests(t *testing.T) {
	l := limittest.New(t, limittest.NewClock(), limits(core.PerMinute(2000)))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 200 {
				if _, err := l.Allow(t.Context(), someone); err != nil {
					t.Error(err)
				}
			}
		})
	}
	limittest.Exhaust(t, l, someone)
	group.Wait()
	if d, err := l.Peek(t.Context(), someone); err != nil || d.Allowed || d.Shown().Used != 2000 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestPeerIsTheKeyOfRequestsMadeByHttptest(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	k, err := keyfunc.ByIP()(keyfunc.NewRequest(r, nil, nil))
	if err != nil || k != limittest.Peer() {
		t.Errorf("it is %v (%v), not %v", k, err, limittest.Peer())
	}
}

func TestTheKeyOfRequestsThroughASocket(t *testing.T) {
	l := limittest.New(t, limittest.NewClock(), limits(core.PerMinute(5)))
	server := httptest.NewServer(nethttp.Middleware(l)(http.HandlerFunc(fine)))
	defer server.Close()
	limittest.Use(t, l, keyfunc.IP(netip.MustParseAddr("127.0.0.1")), 3)
	res, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	limittest.Admitted(t, res)
	limittest.Remaining(t, res, 1)
}

// A refused request passes at the announced instant, and not a microsecond before.
func TestTheClockReachesTheAnnouncedInstant(t *testing.T) {
	for name, limit := range map[string]core.Limit{
		"exact": core.PerMinute(3), "slotted": core.PerMinute(3).Slotted(7), "hybrid": core.PerMinute(3).Hybrid(6, 0.5),
	} {
		t.Run(name, func(t *testing.T) {
			clock := limittest.NewClock()
			l := limittest.New(t, clock, limits(limit))
			handler := nethttp.Middleware(l)(http.HandlerFunc(fine))
			limittest.Use(t, l, limittest.Peer(), 1)
			clock.Advance(1_234_567 * time.Microsecond)
			limittest.Exhaust(t, l, limittest.Peer())
			d, err := l.Peek(t.Context(), limittest.Peer())
			if err != nil {
				t.Fatal(err)
			}
			wait := d.RetryAfter()
			limittest.Refused(t, send(handler, "GET", "/"), wait)
			clock.Advance(wait - time.Microsecond)
			limittest.Refused(t, send(handler, "GET", "/"), time.Microsecond)
			clock.Advance(999 * time.Nanosecond)
			limittest.Refused(t, send(handler, "GET", "/"), time.Nanosecond)
			clock.Advance(time.Nanosecond)
			limittest.Admitted(t, send(handler, "GET", "/"))
		})
	}
}
