package core_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// draftHeaders are the fields that revisions of the draft have, in this order.
var draftHeaders = []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit", "RateLimit-Policy"}

// fields returns those that are there as lines "Name: value".
func fields(t testing.TB, h http.Header) string {
	t.Helper()
	var lines []string
	for _, name := range draftHeaders {
		for _, value := range h.Values(name) {
			lines = append(lines, name+": "+value)
		}
		if len(h.Values(name)) > 1 {
			t.Errorf("%s has several values: %q", name, h.Values(name))
		}
	}
	return strings.Join(lines, "\n")
}

func lines(s ...string) string { return strings.Join(s, "\n") }

// Three limits: the first admitted request, one that "burst" refuses, and a cost
// that never fits.
func TestDraftDialects(t *testing.T) {
	limits := []core.Limit{core.Per(2, 59_500*time.Millisecond).Named("burst"), core.PerHour(100), core.Per(100, 500*time.Millisecond)}
	const policies = `RateLimit-Policy: "burst";q=2;w=60, "1h";q=100;w=3600, "500ms";q=100`
	for _, test := range []struct {
		dialects                 []core.Dialect
		admitted, refused, never string
	}{
		{[]core.Dialect{core.Draft06},
			lines("RateLimit-Limit: 2", "RateLimit-Remaining: 1", "RateLimit-Reset: 60", "RateLimit-Policy: 2;w=60, 100;w=3600"),
			lines("RateLimit-Limit: 2", "RateLimit-Remaining: 0", "RateLimit-Reset: 58", "RateLimit-Policy: 2;w=60, 100;w=3600"),
			lines("RateLimit-Limit: 2", "RateLimit-Remaining: 0", "RateLimit-Reset: 58", "RateLimit-Policy: 2;w=60, 100;w=3600")},
		{[]core.Dialect{core.Draft07},
			lines("RateLimit: limit=2, remaining=1, reset=60", "RateLimit-Policy: 2;w=60, 100;w=3600"),
			lines("RateLimit: limit=2, remaining=0, reset=58", "RateLimit-Policy: 2;w=60, 100;w=3600"),
			lines("RateLimit: limit=2, remaining=0, reset=58", "RateLimit-Policy: 2;w=60, 100;w=3600")},
		{[]core.Dialect{core.Draft08},
			lines(`RateLimit: "burst";r=1;t=60, "1h";r=99;t=3600, "500ms";r=99;t=1`, policies),
			lines(`RateLimit: "burst";r=0;t=58`, policies),
			lines(`RateLimit: "burst";r=0;t=58`, policies)},
		{[]core.Dialect{core.Draft12},
			lines(`RateLimit: "burst";a=1;w=60;c=1, "1h";a=99;w=3600;c=1, "500ms";a=99;w=1;c=1`, policies),
			lines(`RateLimit: "burst";a=0;w=58`, policies),
			lines(`RateLimit: "burst";a=0;w=58`, policies)},
		{[]core.Dialect{core.XRateLimitDelta, core.Draft07, core.Draft06},
			lines("RateLimit-Limit: 2", "RateLimit-Remaining: 1", "RateLimit-Reset: 60",
				"RateLimit: limit=2, remaining=1, reset=60", "RateLimit-Policy: 2;w=60, 100;w=3600"),
			lines("RateLimit-Limit: 2", "RateLimit-Remaining: 0", "RateLimit-Reset: 58",
				"RateLimit: limit=2, remaining=0, reset=58", "RateLimit-Policy: 2;w=60, 100;w=3600"),
			lines("RateLimit-Limit: 2", "RateLimit-Remaining: 0", "RateLimit-Reset: 58",
				"RateLimit: limit=2, remaining=0, reset=58", "RateLimit-Policy: 2;w=60, 100;w=3600")},
		{[]core.Dialect{core.XRateLimit}, "", "", ""},
	} {
		t.Run(test.dialects[0].String(), func(t *testing.T) {
			clock, cost := newHandClock(), int64(1)
			l := limiterWith(t, core.Config{
				Name: "api", Limits: limits, Store: memoryOn(t, clock), Headers: test.dialects,
				Cost: func(*http.Request) (int64, error) { return cost, nil },
			})
			_, h := admit(t, l)
			if got := fields(t, h); got != test.admitted {
				t.Errorf("admitted:\n%s\nwant\n%s", got, test.admitted)
			}
			admit(t, l)
			clock.at(2 * time.Second)
			_, h = admit(t, l)
			if got := fields(t, h); got != test.refused || h.Get("Retry-After") != "58" {
				t.Errorf("refused, Retry-After %s:\n%s\nwant\n%s", h.Get("Retry-After"), got, test.refused)
			}
			cost = 3
			v, h := admit(t, l)
			if got := fields(t, h); got != test.never || v.Decision.Reason != core.NeverFits || h.Get("Retry-After") != "" {
				t.Errorf("never fits:\n%s\nwant\n%s", got, test.never)
			}
		})
	}
}

func TestNamesInLists(t *testing.T) {
	for _, test := range []struct {
		name   string
		limits []core.Limit
		want   []string
	}{
		{"", []core.Limit{core.PerMinute(1)}, []string{"default"}},
		{"api", []core.Limit{core.PerMinute(1)}, []string{"api"}},
		{"api", []core.Limit{core.PerMinute(1).Named("burst")}, []string{"burst"}},
		{"api", []core.Limit{core.PerMinute(1), core.PerDay(5).Named("day")}, []string{"1m", "day"}},
	} {
		l := limiterWith(t, core.Config{Name: test.name, Limits: test.limits})
		d := allow(t, l, 1)
		var got []string
		for s := range d.Limits() {
			got = append(got, s.Policy())
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("limiter %q, %v: %q, want %q", test.name, test.limits, got, test.want)
		}
	}
	if (core.LimitState{}).Policy() != "" {
		t.Error("no limit, but a policy")
	}
}

// Of limits with the same N, the one that is shown stands in the list of quotas.
func TestNoQuotaIsListedTwice(t *testing.T) {
	clock := newHandClock()
	l := limiterWith(t, core.Config{
		Name: "api", Store: memoryOn(t, clock), Headers: []core.Dialect{core.Draft06},
		Limits: []core.Limit{core.PerHour(3), core.PerSecond(9), core.PerMinute(3)},
	})
	for i, want := range []string{"3;w=3600, 9;w=1", "3;w=3600, 9;w=1"} {
		_, h := admit(t, l)
		if got := h.Get("RateLimit-Policy"); got != want {
			t.Errorf("call %d: %s, want %s", i, got, want)
		}
	}
	l = limiterWith(t, core.Config{
		Name: "api", Store: memoryOn(t, clock), Headers: []core.Dialect{core.Draft06},
		Limits: []core.Limit{core.PerMinute(3), core.PerSecond(9), core.PerHour(3)},
	})
	_, h := admit(t, l)
	if got, want := h.Get("RateLimit-Policy"), "9;w=1, 3;w=3600"; got != want {
		t.Errorf("the last one shown: %s, want %s", got, want)
	}
}

func TestPartitionKeys(t *testing.T) {
	limits := []core.Limit{core.PerMinute(2).Named("user"), core.PerMinute(9).Named("address").Key(keyfunc.ByIP())}
	list := func(user string, secret []byte) [2]map[string]*httpsfv.Params {
		l := limiterWith(t, core.Config{
			Name: "api", Limits: limits, Key: keyfunc.ByHeader("X-User"), Store: memoryOn(t, newHandClock()),
			Headers: []core.Dialect{core.Draft08}, PartitionKeys: true, Secret: secret,
		})
		h := http.Header{}
		l.Admit(h, keyfunc.NewRequest(get("X-User", user), nil, nil))
		if strings.Contains(fields(t, h), user) {
			t.Errorf("the key itself is told: %v", h)
		}
		return [2]map[string]*httpsfv.Params{parsed(t, h, "RateLimit"), parsed(t, h, "RateLimit-Policy")}
	}
	pk := func(all [2]map[string]*httpsfv.Params, limit string) string {
		a, _ := all[0][limit].Get("pk")
		b, _ := all[1][limit].Get("pk")
		inLimit, inPolicy := string(a.([]byte)), string(b.([]byte))
		if inLimit != inPolicy || len(inLimit) != 12 {
			t.Errorf("%x in RateLimit, %x in RateLimit-Policy", inLimit, inPolicy)
		}
		return inLimit
	}
	alice, again, bob := list("alice", nil), list("alice", nil), list("bob", nil)
	sealed := list("alice", make([]byte, core.MinSecret))
	if pk(alice, "user") != pk(again, "user") {
		t.Error("one key, but two partitions")
	}
	if pk(alice, "user") == pk(bob, "user") || pk(alice, "address") != pk(bob, "address") || pk(alice, "user") == pk(alice, "address") {
		t.Error("partitions do not follow the keys")
	}
	if pk(alice, "user") == pk(sealed, "user") {
		t.Error("the secret does not change the partition key")
	}
}

func TestEachDialectTellsWhoWroteIt(t *testing.T) {
	for _, d := range []core.Dialect{core.XRateLimit, core.XRateLimitDelta, core.Draft06, core.Draft07, core.Draft08, core.Draft12} {
		var log strings.Builder
		limiter := func() *core.Limiter {
			return limiterWith(t, core.Config{
				Name: "api", Limits: []core.Limit{core.PerMinute(5), core.PerHour(9)}, Headers: []core.Dialect{d},
				Store: memoryOn(t, newHandClock()), Logger: logInto(&log),
			})
		}
		one, other := limiter(), limiter()
		stack(t, http.Header{}, one, other)
		if log.Len() > 0 {
			t.Errorf("%v: two limiters that look alike are taken for one: %s", d, &log)
		}
		stack(t, http.Header{}, one, one)
		if !strings.Contains(log.String(), "mounted twice") {
			t.Errorf("%v: mounted twice, and nothing is said", d)
		}
	}
}

func TestDialectsTakeLittleMemory(t *testing.T) {
	if underRaceDetector() {
		t.Skip("the race detector allocates")
	}
	allocations := func(partitions bool, dialects ...core.Dialect) float64 {
		l := limiterWith(t, core.Config{
			Limits: []core.Limit{core.Per(1e9, time.Millisecond), core.PerDay(1e9).Slotted(48)}, Headers: dialects, PartitionKeys: partitions,
		})
		h, r := http.Header{}, get()
		return testing.AllocsPerRun(200, func() {
			clear(h)
			l.Admit(h, keyfunc.NewRequest(r, nil, nil))
		})
	}
	for _, d := range []core.Dialect{core.XRateLimit, core.XRateLimitDelta, core.Draft06, core.Draft07, core.Draft08, core.Draft12} {
		if got := allocations(false, d); got != 2 {
			t.Errorf("%v: %v allocations, want the values and their text", d, got)
		}
	}
	if got := allocations(false, core.XRateLimit, core.Draft06, core.Draft07); got != 4 {
		t.Errorf("three dialects: %v allocations, want 4", got)
	}
	if got := allocations(true, core.Draft08); got != 4 {
		t.Errorf("with partition keys: %v allocations, want 4", got)
	}
}

// requota is a store whose operators have changed a limit's N.
type requota struct {
	core.Store
	n int64
}

func (s requota) Do(ctx context.Context, c *core.Call) error {
	c.Parts[0].N = s.n
	return s.Store.Do(ctx, c)
}

func TestTheQuotaInForceIsShown(t *testing.T) {
	for dialect, want := range map[core.Dialect]string{
		core.XRateLimitDelta: "",
		core.Draft06:         lines("RateLimit-Limit: 7", "RateLimit-Remaining: 6", "RateLimit-Reset: 60", "RateLimit-Policy: 7;w=60, 50;w=3600"),
		core.Draft07:         lines("RateLimit: limit=7, remaining=6, reset=60", "RateLimit-Policy: 7;w=60, 50;w=3600"),
		core.Draft08:         lines(`RateLimit: "1m";r=6;t=60, "1h";r=49;t=3600`, `RateLimit-Policy: "1m";q=7;w=60, "1h";q=50;w=3600`),
		core.Draft12:         lines(`RateLimit: "1m";a=6;w=60;c=1, "1h";a=49;w=3600;c=1`, `RateLimit-Policy: "1m";q=7;w=60, "1h";q=50;w=3600`),
	} {
		l := limiterWith(t, core.Config{
			Name: "api", Limits: []core.Limit{core.PerMinute(5), core.PerHour(50)}, Headers: []core.Dialect{dialect},
			Store: requota{memoryOn(t, newHandClock()), 7},
		})
		_, h := admit(t, l)
		if got := fields(t, h); got != want {
			t.Errorf("%v:\n%s\nwant\n%s", dialect, got, want)
		}
		if dialect == core.XRateLimitDelta {
			if got, want := xHeadersOf(t, h), (xHeaders{"7", "6", "60", ""}); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
	}
}
