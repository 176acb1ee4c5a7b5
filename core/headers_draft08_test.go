package core_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// stack sends a request through limiters, the outermost first, as the handlers
// around each other would.
func stack(t testing.TB, h http.Header, limiters ...*core.Limiter) {
	t.Helper()
	for _, l := range limiters {
		v := l.Admit(h, keyfunc.NewRequest(get(), nil, nil))
		if v.Err != nil {
			t.Fatal(v.Err)
		}
		if !v.Proceed() {
			return
		}
	}
}

func TestStackedLimitersAreListedTogether(t *testing.T) {
	clock := newHandClock()
	listing := func(name string, d core.Dialect, limits ...core.Limit) *core.Limiter {
		return limiterWith(t, core.Config{Name: name, Store: memoryOn(t, clock), Headers: []core.Dialect{d}, Limits: limits})
	}
	outer := listing("site", core.Draft08, core.PerHour(9))
	inner := listing("login", core.Draft08, core.PerMinute(1), core.PerDay(5).Named("day"))
	const policies = `RateLimit-Policy: "site";q=9;w=3600, "1m";q=1;w=60, "day";q=5;w=86400`
	for _, want := range []string{
		lines(`RateLimit: "site";r=8;t=3600, "1m";r=0;t=60, "day";r=4;t=86400`, policies),
		lines(`RateLimit: "1m";r=0;t=60`, policies),
	} {
		h := http.Header{}
		stack(t, h, outer, inner)
		if got := fields(t, h); got != want {
			t.Errorf("\n%s\nwant\n%s", got, want)
		}
	}

	// The same name twice: the stricter one stays, and on a tie the outer one.
	for _, test := range []struct {
		outer, inner int64
		want         string
	}{
		{9, 4, lines(`RateLimit: "default";r=3;t=60`, `RateLimit-Policy: "default";q=4;w=60`)},
		{4, 9, lines(`RateLimit: "default";r=3;t=3600`, `RateLimit-Policy: "default";q=4;w=3600`)},
		{4, 4, lines(`RateLimit: "default";r=3;t=3600`, `RateLimit-Policy: "default";q=4;w=3600`)},
	} {
		h := http.Header{}
		stack(t, h, listing("default", core.Draft08, core.PerHour(test.outer)), listing("default", core.Draft08, core.PerMinute(test.inner)))
		if got := fields(t, h); got != test.want {
			t.Errorf("%d around %d:\n%s\nwant\n%s", test.outer, test.inner, got, test.want)
		}
	}
	outer, inner = listing("Same", core.Draft12, core.PerHour(2)), listing("same", core.Draft12, core.PerMinute(1))
	for _, want := range []string{
		lines(`RateLimit: "same";a=0;w=60;c=1`, `RateLimit-Policy: "same";q=1;w=60`),
		lines(`RateLimit: "same";a=0;w=60`, `RateLimit-Policy: "same";q=1;w=60`), // though the outer one has none left either
	} {
		h := http.Header{}
		stack(t, h, outer, inner)
		if got := fields(t, h); got != want {
			t.Errorf("\n%s\nwant\n%s", got, want)
		}
	}

	// Dialects that show one limit show the stricter one.
	for d, want := range map[core.Dialect]string{
		core.Draft06: lines("RateLimit-Limit: 4", "RateLimit-Remaining: 3", "RateLimit-Reset: 60", "RateLimit-Policy: 4;w=60"),
		core.Draft07: lines("RateLimit: limit=4, remaining=3, reset=60", "RateLimit-Policy: 4;w=60"),
	} {
		for _, order := range [][2]core.Limit{{core.PerMinute(4), core.PerHour(9)}, {core.PerHour(9), core.PerMinute(4)}, {core.PerMinute(4), core.PerHour(4)}} {
			h := http.Header{}
			stack(t, h, listing("outer", d, order[0]), listing("inner", d, order[1]))
			if got := fields(t, h); got != want {
				t.Errorf("%v, %v around %v:\n%s\nwant\n%s", d, order[0], order[1], got, want)
			}
		}
	}
}

// What stands in the fields already is replaced, as Set would do it, unless a
// limiter has written it.
func TestForeignListsAreReplaced(t *testing.T) {
	const own = `"api";r=4;t=60`
	for before, want := range map[string]string{
		``:                                 own,
		`"default";r=50;t=30`:              `"default";r=50;t=30, ` + own,
		`"a";r=1, "b";r=2`:                 `"a";r=1, "b";r=2, ` + own,
		`"a";r=1;pk=:R0VUH2FsaWNlR0VU:`:    `"a";r=1;pk=:R0VUH2FsaWNlR0VU:, ` + own,
		`"a";r=1;pk=:R0VUH2FsaWNlR0V#:`:    own,
		`"a";r=1;pk=R0VUH2FsaWNlR0VUaa`:    own,
		`"a";r=1;Q=5`:                      own,
		`"a";r=`:                           own,
		`"a";r=1;pk=:R0VUH2FsaWNl:`:        own,
		`"100-in-15min"; r=99; t=900`:      own,
		"\"a\";r=1\t,\t\"b\";r=2":          own,
		`"a\"b\\c";r=1`:                    own,
		`"a";r=1;r=2`:                      `"a";r=1;r=2, ` + own,
		`"a";a=1;w=2`:                      own,
		`burst;r=100`:                      own,
		`"default";r=1234567890123456`:     own,
		`"default" ;r=50`:                  own,
		`"default";R=50`:                   own,
		`"default";r=50,`:                  own,
		`"default";r=50, `:                 own,
		`"default;r=50`:                    own,
		`"a";r=1.5`:                        own,
		`"a";r=-1`:                         own,
		`"a";r=+1`:                         own,
		`"a";r=1;t=x`:                      own,
		`"a";r=1;`:                         own,
		`"né";r=1`:                         own,
		`"";r=1`:                           own,
		`"`:                                own,
		`limit=100, remaining=50, reset=5`: own,
	} {
		l := limiterWith(t, core.Config{
			Name: "api", Limits: []core.Limit{core.PerMinute(5)}, Store: memoryOn(t, newHandClock()), Headers: []core.Dialect{core.Draft08},
		})
		h := http.Header{"Ratelimit": {before}, "Ratelimit-Policy": {`"a";q=7`}}
		l.Admit(h, keyfunc.NewRequest(get(), nil, nil))
		if got := h.Get("RateLimit"); got != want {
			t.Errorf("%q becomes %q, want %q", before, got, want)
		}
		if _, err := httpsfv.UnmarshalList(h["Ratelimit"]); err != nil {
			t.Errorf("%q: %v", h["Ratelimit"], err)
		}
	}
	for _, policies := range [][]string{nil, {"5;w=60"}, {`"a";q=7`, `"b";q=8`}, {`"a";w=7`}} {
		l := limiterWith(t, core.Config{
			Name: "api", Limits: []core.Limit{core.PerMinute(5)}, Store: memoryOn(t, newHandClock()), Headers: []core.Dialect{core.Draft08},
		})
		h := http.Header{"Ratelimit": {`"a";r=1`}, "Ratelimit-Policy": policies}
		l.Admit(h, keyfunc.NewRequest(get(), nil, nil))
		if got, want := fields(t, h), lines("RateLimit: "+own, `RateLimit-Policy: "api";q=5;w=60`); got != want {
			t.Errorf("%q becomes\n%s\nwant\n%s", policies, got, want)
		}
	}
}

// What the fields are made of, as a parser of structured fields (RFC 9651) has it:
// the assumptions behind what limiters write.
func TestStructuredFieldVectors(t *testing.T) {
	for _, test := range []struct {
		input     []string
		canonical string // "" where it does not parse
	}{
		{[]string{`"default";r=50;t=30`}, `"default";r=50;t=30`},
		{[]string{`"100-in-15min"; r=99; t=900`}, `"100-in-15min";r=99;t=900`},
		{[]string{"\"a\";r=1\t,\t\"b\";r=2"}, `"a";r=1, "b";r=2`},
		{[]string{`"burst";q=100;w=60`, `"daily";q=1000;w=86400`}, `"burst";q=100;w=60, "daily";q=1000;w=86400`},
		{[]string{`"peruser";q=100;w=60;pk=:cHsdsRa894==:`}, `"peruser";q=100;w=60;pk=:cHsdsRa89w==:`},
		{[]string{`burst;q=100;w=60,"daily";q=1000;w=86400`}, `burst;q=100;w=60, "daily";q=1000;w=86400`},
		{[]string{`"a\"b\\c";r=1`}, `"a\"b\\c";r=1`},
		{[]string{`"a";r=1;r=2`}, `"a";r=2`},
		{[]string{`"default";r=999999999999999`}, `"default";r=999999999999999`},
		{[]string{`"a";r=1.5`}, `"a";r=1.5`},
		{[]string{`"a";r=-1`}, `"a";r=-1`},
		{[]string{`"default";r=1234567890123456`}, ""},
		{[]string{`"default" ;r=50`}, ""},
		{[]string{`"default";R=50`}, ""},
		{[]string{`"default";r=50,`}, ""},
		{[]string{`"default;r=50`}, ""},
		{[]string{`"n` + "é" + `";r=50`}, ""},
	} {
		list, err := httpsfv.UnmarshalList(test.input)
		if (err == nil) != (test.canonical != "") {
			t.Errorf("%q: %v", test.input, err)
			continue
		}
		if err != nil {
			continue
		}
		if got, err := httpsfv.Marshal(list); got != test.canonical || err != nil {
			t.Errorf("%q is %s in canonical form (%v), want %s", test.input, got, err, test.canonical)
		}
	}
}

// parsed reads a list of named limits, and fails unless it is in canonical form and
// no name stands in it twice.
func parsed(t rapid.TB, h http.Header, name string) map[string]*httpsfv.Params {
	list, err := httpsfv.UnmarshalList(h[http.CanonicalHeaderKey(name)])
	if err != nil {
		t.Fatalf("%s: %q: %v", name, h.Get(name), err)
	}
	if text, err := httpsfv.Marshal(list); err != nil || text != h.Get(name) {
		t.Fatalf("%s: %q is not canonical: %q, %v", name, h.Get(name), text, err)
	}
	items := map[string]*httpsfv.Params{}
	for _, m := range list {
		item := m.(httpsfv.Item)
		if items[item.Value.(string)] != nil {
			t.Fatalf("%s: a name twice: %s", name, h.Get(name))
		}
		items[item.Value.(string)] = item.Params
	}
	return items
}

// integer returns a parameter, and -1 if it is not there.
func integer(t rapid.TB, p *httpsfv.Params, name string) int64 {
	v, ok := p.Get(name)
	if !ok {
		return -1
	}
	n, ok := v.(int64)
	if !ok || n < 0 {
		t.Fatalf("%s is %v", name, v)
	}
	return n
}

func drawLimits(rt *rapid.T) (limits []core.Limit) {
	for i := range rapid.IntRange(1, 5).Draw(rt, "limits") {
		n := rapid.OneOf(rapid.Int64Range(1, 6), rapid.Just[int64](core.MaxUnits)).Draw(rt, "n")
		l := core.Per(n, time.Duration(rapid.Int64Range(1000, 5_000_000).Draw(rt, "window"))*time.Microsecond)
		switch rapid.IntRange(0, 2).Draw(rt, "algorithm") {
		case 1:
			l = l.Slotted(7)
		case 2:
			l = l.Hybrid(7, 0.5)
		}
		limits = append(limits, l.Named("limit-"+strconv.Itoa(i)))
	}
	return limits
}

// Whatever the limits: all are listed with their quotas; what is said of each agrees
// with the decision; no window that is told ends after Retry-After.
func TestListsSayWhatWasDecided(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		clock, limits := newHandClock(), drawLimits(rt)
		cost := int64(1)
		l := limiterWith(t, core.Config{
			Name: "api", Limits: limits, Store: memoryOn(t, clock), Headers: []core.Dialect{core.XRateLimit, core.Draft08},
			Cost: func(*http.Request) (int64, error) { return cost, nil },
		})
		for range 30 {
			cost = rapid.Int64Range(1, 3).Draw(rt, "cost")
			clock.advance(time.Duration(rapid.Int64Range(0, 1_500_000).Draw(rt, "gap")) * time.Microsecond)
			v, h := admit(t, l)
			policies, shown := parsed(rt, h, "RateLimit-Policy"), parsed(rt, h, "RateLimit")
			retry, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
			if (err == nil) != (v.Decision.Reason == core.Refused) {
				rt.Fatalf("%v with Retry-After %q", v.Decision.Reason, h.Get("Retry-After"))
			}
			if len(policies) != len(limits) {
				rt.Fatalf("%d policies for %d limits", len(policies), len(limits))
			}
			listed := 0
			for s := range v.Decision.Limits() {
				p := policies[s.Name()]
				window := int64(-1)
				if s.Window() >= time.Second {
					window = int64((s.Window() + time.Second - 1) / time.Second)
				}
				if integer(rt, p, "q") != s.N || integer(rt, p, "w") != window {
					rt.Fatalf("%s: %v, of %+v", h.Get("RateLimit-Policy"), s.Window(), s)
				}
				item := shown[s.Name()]
				if (item != nil) != (v.Decision.Allowed || s.Violated) {
					rt.Fatalf("%s after %+v", h.Get("RateLimit"), v.Decision)
				}
				if item == nil {
					continue
				}
				listed++
				until := integer(rt, item, "t")
				if integer(rt, item, "r") != s.Remaining() || (until >= 0) != (s.OldestLeaves != 0) {
					rt.Fatalf("%s of %+v", h.Get("RateLimit"), s)
				}
				if left := s.OldestLeaves.Sub(s.At); until >= 0 && (time.Duration(until)*time.Second < left || time.Duration(until-1)*time.Second >= left) {
					rt.Fatalf("t=%d for %v", until, left)
				}
				if v.Decision.Reason == core.Refused && until > retry {
					rt.Fatalf("Retry-After %d before the end of t=%d", retry, until)
				}
			}
			if listed != len(shown) {
				rt.Fatalf("others are listed: %s", h.Get("RateLimit"))
			}
		}
	})
}

// A refusal by a limiter of another dialect leaves nothing of an outer one that would
// contradict it: no window that ends after Retry-After, no units that remain.
func TestARefusalClearsOtherDialects(t *testing.T) {
	all := []core.Dialect{core.XRateLimit, core.Draft06, core.Draft07, core.Draft08, core.Draft12, core.NoHeaders}
	for _, outerDialect := range all {
		for _, innerDialect := range all {
			clock := newHandClock()
			with := func(d core.Dialect, limit core.Limit) *core.Limiter {
				return limiterWith(t, core.Config{Name: "l", Store: memoryOn(t, clock), Headers: []core.Dialect{d}, Limits: []core.Limit{limit}})
			}
			outer, inner := with(outerDialect, core.PerDay(1000).Named("day")), with(innerDialect, core.PerSecond(1).Named("second"))
			stack(t, http.Header{}, outer, inner)
			h := http.Header{}
			stack(t, h, outer, inner)
			if h.Get("Retry-After") != "1" {
				t.Fatalf("not refused: %v", h)
			}
			text := strings.Join([]string{h.Get("RateLimit"), h.Get("RateLimit-Remaining"), h.Get("RateLimit-Reset"), h.Get("X-RateLimit-Remaining")}, " ")
			for _, stale := range []string{"998", "86400", "day"} {
				if strings.Contains(text, stale) {
					t.Errorf("%v around %v: %v", outerDialect, innerDialect, h)
				}
			}
			if innerDialect == core.NoHeaders && strings.TrimSpace(text) != "" {
				t.Errorf("%v around none: %v", outerDialect, h)
			}
		}
	}
}
