package core_test

import (
	"context"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// xHeaders are the values of the X-RateLimit headers and of Retry-After; "" is
// for one that is not there.
type xHeaders struct{ limit, remaining, reset, retry string }

// xHeadersOf reads them, and fails the test where one has several values.
func xHeadersOf(t testing.TB, h http.Header) xHeaders {
	t.Helper()
	one := func(name string) string {
		values := h.Values(name)
		if len(values) > 1 {
			t.Errorf("%s has %d values: %q", name, len(values), values)
		}
		return h.Get(name)
	}
	return xHeaders{one("X-RateLimit-Limit"), one("X-RateLimit-Remaining"), one("X-RateLimit-Reset"), one("Retry-After")}
}

// admit sends an empty request through l and returns the headers that it sets.
func admit(t testing.TB, l *core.Limiter) (core.Verdict, http.Header) {
	t.Helper()
	h := http.Header{}
	v := l.Admit(h, keyfunc.NewRequest(get(), nil, nil))
	if v.Err != nil {
		t.Fatal(v.Err)
	}
	return v, h
}

// unix returns start + d, rounded up, in seconds since 1970.
func unix(d time.Duration) string {
	return strconv.FormatInt((int64(start.Add(d))+999_999)/1_000_000, 10)
}

func TestRetryAfterIsRoundedUpAndNeverZero(t *testing.T) {
	clock := newHandClock()
	l := limiterOn(t, clock, core.PerMinute(1))
	for _, call := range []struct {
		at   time.Duration
		want xHeaders
	}{
		{0, xHeaders{"1", "0", unix(time.Minute), ""}},
		{800 * time.Millisecond, xHeaders{"1", "0", unix(time.Minute), "60"}},
		{58*time.Second + 500*time.Millisecond, xHeaders{"1", "0", unix(time.Minute), "2"}},
		{59 * time.Second, xHeaders{"1", "0", unix(time.Minute), "1"}},
		{59*time.Second + 600*time.Millisecond, xHeaders{"1", "0", unix(time.Minute), "1"}},
		{59*time.Second + 999_999*time.Microsecond, xHeaders{"1", "0", unix(time.Minute), "1"}},
		{60 * time.Second, xHeaders{"1", "0", unix(2 * time.Minute), ""}},
	} {
		clock.at(call.at)
		v, h := admit(t, l)
		if got := xHeadersOf(t, h); got != call.want {
			t.Errorf("at %v: %+v, want %+v", call.at, got, call.want)
		}
		if refused := call.want.retry != ""; v.Proceed() == refused || (h.Get("Cache-Control") == "no-store") != refused {
			t.Errorf("at %v: proceed %v, headers %v", call.at, v.Proceed(), h)
		}
	}
}

// Whoever comes back after Retry-After seconds passes; the header is a whole
// number without a sign, and the smallest that covers the wait.
func TestRetryAfterIsTheFirstWholeSecondThatPasses(t *testing.T) {
	grammar := regexp.MustCompile(`^[1-9][0-9]*$`)
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.Int64Range(1, 5).Draw(rt, "n")
		window := time.Duration(rapid.Int64Range(1000, 90_000_000).Draw(rt, "window")) * time.Microsecond
		clock := newHandClock()
		l := limiterOn(t, clock, core.Per(n, window))
		for v, h := admit(t, l); ; v, h = admit(t, l) {
			retry := h.Get("Retry-After")
			if v.Proceed() {
				if retry != "" {
					rt.Fatalf("admitted with Retry-After %q", retry)
				}
				clock.advance(time.Duration(rapid.Int64Range(0, window.Microseconds()/(n+1)).Draw(rt, "gap")) * time.Microsecond)
				continue
			}
			seconds, err := strconv.Atoi(retry)
			if err != nil || !grammar.MatchString(retry) {
				rt.Fatalf("Retry-After %q", retry)
			}
			wait := v.Decision.RetryAfter()
			if whole := time.Duration(seconds) * time.Second; whole < wait || whole-time.Second >= wait {
				rt.Fatalf("Retry-After %q for a wait of %v", retry, wait)
			}
			if want := (int64(v.Decision.Shown().FitsAt) + 999_999) / 1_000_000; h.Get("X-RateLimit-Reset") != strconv.FormatInt(want, 10) {
				rt.Fatalf("Reset %q, want the moment of the retry, %d", h.Get("X-RateLimit-Reset"), want)
			}
			clock.advance(time.Duration(seconds) * time.Second)
			if v, _ := admit(t, l); !v.Proceed() {
				rt.Fatalf("refused after waiting %d s", seconds)
			}
			return
		}
	})
}

func TestDialects(t *testing.T) {
	const half = 500 * time.Millisecond
	for _, test := range []struct {
		name              string
		dialects          []core.Dialect
		admitted, refused xHeaders
		never             xHeaders
	}{
		{"the default", nil,
			xHeaders{"2", "1", unix(60*time.Second + half), ""},
			xHeaders{"2", "0", unix(60*time.Second + half), "59"},
			xHeaders{"2", "0", unix(60*time.Second + half), ""}},
		{"seconds since 1970", []core.Dialect{core.XRateLimit},
			xHeaders{"2", "1", unix(60*time.Second + half), ""},
			xHeaders{"2", "0", unix(60*time.Second + half), "59"},
			xHeaders{"2", "0", unix(60*time.Second + half), ""}},
		{"seconds from now", []core.Dialect{core.XRateLimitDelta},
			xHeaders{"2", "1", "60", ""}, xHeaders{"2", "0", "59", "59"}, xHeaders{"2", "0", "59", ""}},
		{"none", []core.Dialect{core.NoHeaders},
			xHeaders{}, xHeaders{"", "", "", "59"}, xHeaders{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock, cost := newHandClock(), int64(1)
			l := limiterWith(t, core.Config{
				Name: "api", Limits: []core.Limit{core.PerMinute(2)}, Store: memoryOn(t, clock), Headers: test.dialects,
				Cost: func(*http.Request) (int64, error) { return cost, nil },
			})
			clock.at(half)
			_, h := admit(t, l)
			if got := xHeadersOf(t, h); got != test.admitted {
				t.Errorf("admitted: %+v, want %+v", got, test.admitted)
			}
			clock.at(time.Second)
			admit(t, l)
			clock.at(1700 * time.Millisecond) // the wait is 58.8 s
			_, h = admit(t, l)
			if got := xHeadersOf(t, h); got != test.refused {
				t.Errorf("refused: %+v, want %+v", got, test.refused)
			}
			cost = 3
			v, h := admit(t, l)
			if got := xHeadersOf(t, h); got != test.never || v.Decision.Reason != core.NeverFits {
				t.Errorf("never fits: %+v, want %+v", got, test.never)
			}
		})
	}
}

// A costly request waits for more than the oldest unit: then Reset is the moment
// of Retry-After, not when the oldest leaves.
func TestResetOfARefusalIsTheMomentOfRetryAfter(t *testing.T) {
	for dialect, want := range map[core.Dialect]string{core.XRateLimit: unix(90 * time.Second), core.XRateLimitDelta: "50"} {
		clock, cost := newHandClock(), int64(1)
		l := limiterWith(t, core.Config{
			Name: "api", Limits: []core.Limit{core.PerMinute(3)}, Store: memoryOn(t, clock), Headers: []core.Dialect{dialect},
			Cost: func(*http.Request) (int64, error) { return cost, nil },
		})
		admit(t, l)
		clock.at(30 * time.Second)
		admit(t, l)
		clock.at(40 * time.Second)
		cost = 3
		_, h := admit(t, l)
		if got, want := xHeadersOf(t, h), (xHeaders{"3", "1", want, "50"}); got != want {
			t.Errorf("%v: %+v, want %+v", dialect, got, want)
		}
	}
}

// A cost that never fits, from a client of whom nothing is counted: the quota is
// whole already, so Reset is now, never 1970 or a minus.
func TestResetOfAnUntouchedQuotaIsNow(t *testing.T) {
	for dialect, want := range map[core.Dialect]string{core.XRateLimit: unix(0), core.XRateLimitDelta: "0"} {
		l := limiterWith(t, core.Config{
			Name: "api", Limits: []core.Limit{core.PerMinute(2)}, Store: memoryOn(t, newHandClock()),
			Headers: []core.Dialect{dialect}, Cost: func(*http.Request) (int64, error) { return 3, nil },
		})
		_, h := admit(t, l)
		if got, want := xHeadersOf(t, h), (xHeaders{"2", "2", want, ""}); got != want {
			t.Errorf("%v: %+v, want %+v", dialect, got, want)
		}
	}
}

func TestRemainingHeaderIsNeverNegative(t *testing.T) {
	l := limiterOn(t, newHandClock(), core.PerMinute(2))
	ctx := context.Background()
	res, _, err := l.Reserve(ctx, keyfunc.NoAddress(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Correct(ctx, 9); err != nil {
		t.Fatal(err)
	}
	r := get()
	r.RemoteAddr = ""
	h := http.Header{}
	if v := l.Admit(h, keyfunc.NewRequest(r, nil, nil)); v.Proceed() || h.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("with 9 of 2 used: proceed %v, headers %v", v.Proceed(), h)
	}
}

func TestTheLimitShownIsTheOneThatMatters(t *testing.T) {
	clock := newHandClock()
	l := limiterOn(t, clock, core.PerHour(4), core.PerMinute(3))
	for i, want := range []xHeaders{
		{"3", "2", unix(time.Minute), ""},
		{"3", "1", unix(time.Minute), ""},
		{"3", "0", unix(time.Minute), ""},
		{"3", "0", unix(time.Minute), "60"},
	} {
		_, h := admit(t, l)
		if got := xHeadersOf(t, h); got != want {
			t.Errorf("call %d: %+v, want %+v", i, got, want)
		}
	}
	clock.at(time.Minute)
	for i, want := range []xHeaders{
		{"4", "0", unix(time.Hour), ""},
		{"4", "0", unix(time.Hour), "3540"},
	} {
		_, h := admit(t, l)
		if got := xHeadersOf(t, h); got != want {
			t.Errorf("call %d after a minute: %+v, want %+v", i, got, want)
		}
	}
}

func TestStackedLimitersShowTheTighterLimitOnce(t *testing.T) {
	clock := newHandClock()
	loose, tight := limiterOn(t, clock, core.PerHour(100)), limiterOn(t, clock, core.PerMinute(5))
	for name, order := range map[string][]*core.Limiter{
		"tight inside": {loose, tight}, "tight outside": {tight, loose},
	} {
		t.Run(name, func(t *testing.T) {
			r := get()
			r.RemoteAddr = "192.0.2." + strconv.Itoa(len(name)) + ":1" // each order its own client
			pass := func() (h http.Header, proceed bool) {
				h = http.Header{}
				for _, l := range order {
					if v := l.Admit(h, keyfunc.NewRequest(r, nil, nil)); !v.Proceed() {
						return h, false
					}
				}
				return h, true
			}
			for _, remaining := range []string{"4", "3", "2", "1", "0"} {
				h, _ := pass()
				if got, want := xHeadersOf(t, h), (xHeaders{"5", remaining, unix(time.Minute), ""}); got != want {
					t.Errorf("%+v, want %+v", got, want)
				}
			}
			h, proceed := pass()
			if got, want := xHeadersOf(t, h), (xHeaders{"5", "0", unix(time.Minute), "60"}); got != want || proceed {
				t.Errorf("refused: %+v, want %+v", got, want)
			}
		})
	}
}

func TestTheFewestRemainingUnitsAreShown(t *testing.T) {
	for _, test := range []struct {
		outer, inner int64
		shown        string
	}{{5, 6, "5"}, {6, 5, "5"}, {5, 7, "5"}, {1, 2, "1"}} {
		clock := newHandClock()
		h := http.Header{}
		for _, n := range []int64{test.outer, test.inner} {
			limiterOn(t, clock, core.PerMinute(n)).Admit(h, keyfunc.NewRequest(get(), nil, nil))
		}
		if got := h.Get("X-RateLimit-Limit"); got != test.shown {
			t.Errorf("of %d outside and %d inside, %s is shown", test.outer, test.inner, got)
		}
	}
	// Of two that have the same number of units left, the outer one stays.
	clock, h := newHandClock(), http.Header{}
	limiterOn(t, clock, core.PerHour(5)).Admit(h, keyfunc.NewRequest(get(), nil, nil))
	limiterOn(t, clock, core.PerMinute(5)).Admit(h, keyfunc.NewRequest(get(), nil, nil))
	if got, want := xHeadersOf(t, h), (xHeaders{"5", "4", unix(time.Hour), ""}); got != want {
		t.Errorf("a tie: %+v, want %+v", got, want)
	}
}

func TestTheRefusingLimitIsShownEvenIfAnotherHasLessLeft(t *testing.T) {
	clock := newHandClock()
	cost := func(*http.Request) (int64, error) { return 3, nil }
	outer := limiterOn(t, clock, core.PerHour(1))
	inner := limiterWith(t, core.Config{Name: "inner", Limits: []core.Limit{core.PerMinute(5)}, Store: memoryOn(t, clock), Cost: cost})
	admit(t, inner)
	h := http.Header{}
	outer.Admit(h, keyfunc.NewRequest(get(), nil, nil))
	v := inner.Admit(h, keyfunc.NewRequest(get(), nil, nil))
	if got, want := xHeadersOf(t, h), (xHeaders{"5", "2", unix(time.Minute), "60"}); got != want || v.Proceed() {
		t.Errorf("%+v, want those of the refusing limit, %+v", got, want)
	}
}

func TestHeadersThatAreThereAreReplaced(t *testing.T) {
	for name, before := range map[string]string{"junk": "plenty", "more": "77", "nothing": ""} {
		h := http.Header{}
		for _, n := range core.ExposedHeaders()[:3] {
			h.Add(n, before)
			h.Add(n, before)
		}
		l := limiterOn(t, newHandClock(), core.PerMinute(5))
		l.Admit(h, keyfunc.NewRequest(get(), nil, nil))
		if got, want := xHeadersOf(t, h), (xHeaders{"5", "4", unix(time.Minute), ""}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		h.Set("x-ratelimit-limit", "mine")
		if len(h) != 3 {
			t.Errorf("%s: names are not canonical: %v", name, h)
		}
	}
}

// A middleware that changes the values of a header in place, or appends to
// them, changes neither another header nor the next response.
func TestChangedHeaderValuesReachNoOtherResponse(t *testing.T) {
	clock := newHandClock()
	l := limiterOn(t, clock, core.PerMinute(2))
	spoil := func(h http.Header) {
		for name := range h {
			before := len(h)
			h[name] = append(h[name], "appended")
			h[name][0] = "spoiled " + name
			if len(h) != before {
				t.Fatal("a header appeared")
			}
		}
		for name, values := range h {
			if len(values) != 2 || values[0] != "spoiled "+name || values[1] != "appended" {
				t.Errorf("%s was changed through another header: %q", name, values)
			}
		}
	}
	_, first := admit(t, l)
	spoil(first)
	_, second := admit(t, l)
	if got, want := xHeadersOf(t, second), (xHeaders{"2", "0", unix(time.Minute), ""}); got != want {
		t.Errorf("after a spoiled response: %+v, want %+v", got, want)
	}
	for range 2 {
		res := through(l, get())
		if got, want := xHeadersOf(t, res.Header), (xHeaders{"2", "0", unix(time.Minute), "60"}); got != want {
			t.Errorf("refused after a spoiled response: %+v, want %+v", got, want)
		}
		if res.Header.Get("Content-Type") != "text/plain; charset=utf-8" || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", res.Header)
		}
		spoil(res.Header)
	}
	if l.Limits()[0].N() != 2 {
		t.Error("the limit itself was changed")
	}
}

func TestExposedHeadersAreAllThatALimiterSets(t *testing.T) {
	h := http.Header{}
	for _, dialects := range [][]core.Dialect{{core.XRateLimit, core.Draft06, core.Draft07}, {core.XRateLimitDelta, core.Draft08}, {core.Draft12}} {
		l := limiterWith(t, core.Config{
			Name: "api", Limits: []core.Limit{core.PerMinute(1)}, Store: memoryOn(t, newHandClock()), Headers: dialects,
		})
		admit(t, l)
		_, refused := admit(t, l)
		maps.Copy(h, refused)
	}
	h.Del("Cache-Control") // scripts can read it without being told
	names := core.ExposedHeaders()
	for _, name := range names {
		if h.Get(name) == "" {
			t.Errorf("%s is listed, but a refusal does not have it", name)
		}
		h.Del(name)
	}
	if len(h) > 0 {
		t.Errorf("not listed: %v", h)
	}
	names[0] = "changed"
	if core.ExposedHeaders()[0] == "changed" {
		t.Error("callers share one list")
	}
}

func TestDialectsThatDoNotGoTogether(t *testing.T) {
	for _, test := range []struct {
		dialects []core.Dialect
		value    string
		problem  string
	}{
		{[]core.Dialect{core.Dialect(77)}, "Dialect(77)", "not a dialect"},
		{[]core.Dialect{core.XRateLimit, core.XRateLimit}, "x-ratelimit", "listed twice"},
		{[]core.Dialect{core.XRateLimitDelta, core.NoHeaders}, "none", "listed with others"},
		{[]core.Dialect{core.XRateLimit, core.XRateLimitDelta}, "x-ratelimit, x-ratelimit-delta", "both write the same headers"},
		{[]core.Dialect{core.Draft08, core.XRateLimit, core.Draft06}, "draft-08, draft-06", "both write the same headers"},
		{[]core.Dialect{core.Draft07, core.Draft12}, "draft-07, draft-12", "both write the same headers"},
		{[]core.Dialect{core.Draft12, core.Draft08}, "draft-12, draft-08", "both write the same headers"},
		{[]core.Dialect{core.Draft07, core.Draft06, core.Draft07}, "draft-07", "listed twice"},
		{[]core.Dialect{core.Dialect(77), core.NoHeaders}, "none", "listed with others"},
	} {
		_, err := core.New(core.Config{Limits: []core.Limit{core.PerMinute(1)}, Headers: test.dialects})
		found := false
		for f := range core.Faults(err) {
			found = found || f.Field == "Headers" && f.Value == test.value && f.Problem == test.problem && f.Remedy != ""
		}
		if !found {
			t.Errorf("%v: %v, want %q", test.dialects, err, test.problem)
		}
	}
}

func TestPartitionKeysNeedAPlace(t *testing.T) {
	for _, dialects := range [][]core.Dialect{nil, {core.XRateLimit, core.Draft07}, {core.NoHeaders}} {
		_, err := core.New(core.Config{Limits: []core.Limit{core.PerMinute(1)}, Headers: dialects, PartitionKeys: true})
		if err == nil || !strings.Contains(err.Error(), "PartitionKeys") || !strings.Contains(err.Error(), "add Draft08 or Draft12") {
			t.Errorf("%v: %v", dialects, err)
		}
	}
}

func TestDialectNames(t *testing.T) {
	for d, want := range map[core.Dialect]string{
		core.XRateLimit: "x-ratelimit", core.XRateLimitDelta: "x-ratelimit-delta", core.NoHeaders: "none",
		core.Draft06: "draft-06", core.Draft07: "draft-07", core.Draft08: "draft-08", core.Draft12: "draft-12", core.Dialect(200): "Dialect(200)",
	} {
		if d.String() != want {
			t.Errorf("%q, want %q", d, want)
		}
	}
}
