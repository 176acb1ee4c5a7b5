package core_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

func TestForwardedHeadersWithoutATrustedProxyAreWarnedAboutOnce(t *testing.T) {
	trusting := keyfunc.ByIP(keyfunc.XForwardedFor("192.0.2.0/24"))
	for _, test := range []struct {
		name  string
		key   keyfunc.Func
		own   keyfunc.Func
		sent  []string
		warns string // the header that is named; "" for no warning
	}{
		{"the default key", nil, nil, []string{"X-Forwarded-For", "203.0.113.9"}, "X-Forwarded-For"},
		{"ByIP without a proxy", keyfunc.ByIP(), nil, []string{"Forwarded", "for=203.0.113.9"}, "Forwarded"},
		{"the address of nginx", keyfunc.ByIP(), nil, []string{"X-Real-IP", "203.0.113.9"}, "X-Real-Ip"},
		{"within First", keyfunc.First(keyfunc.ByBearer(), keyfunc.ByIP()), nil, []string{"X-Forwarded-For", "203.0.113.9"}, "X-Forwarded-For"},
		{"of one limit", keyfunc.ByName("all"), keyfunc.ByIP(), []string{"X-Forwarded-For", "203.0.113.9"}, "X-Forwarded-For"},
		{"a missing key, counted by address", keyfunc.ByAPIKey("X-API-Key"), nil, []string{"X-Forwarded-For", "203.0.113.9"}, "X-Forwarded-For"},

		{"no such header", nil, nil, []string{"X-Other", "203.0.113.9"}, ""},
		{"a trusted proxy", trusting, nil, []string{"X-Forwarded-For", "203.0.113.9"}, ""},
		{"no address counted", keyfunc.ByName("all"), nil, []string{"X-Forwarded-For", "203.0.113.9"}, ""},
		{"a key that is there", keyfunc.ByAPIKey("X-API-Key"), nil, []string{"X-API-Key", "k", "X-Forwarded-For", "203.0.113.9"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log strings.Builder
			limits := []core.Limit{core.PerMinute(50)}
			if test.own != nil {
				limits = append([]core.Limit{core.PerHour(50).Key(test.own)}, limits...)
			}
			l := limiterWith(t, core.Config{Name: "edge", Limits: limits, Key: test.key, Store: memoryOn(t, newHandClock()), Logger: logInto(&log)})
			wantStatus(t, through(l, get()), http.StatusOK)
			if log.Len() > 0 {
				t.Fatalf("warned about a request without the header: %s", log.String())
			}
			var clients sync.WaitGroup
			for range 8 {
				clients.Go(func() { through(l, get(test.sent...)) })
			}
			clients.Wait()
			text := log.String()
			if want := min(1, len(test.warns)); strings.Count(text, "\n") != want {
				t.Fatalf("log:\n%s\nwant %d lines", text, want)
			}
			if test.warns == "" {
				return
			}
			for _, part := range []string{"level=WARN", "carries " + test.warns + ",", "limiter=edge", "peer=192.0.2.1", "XForwardedFor"} {
				if !strings.Contains(text, part) {
					t.Errorf("%q is not in the warning %s", part, text)
				}
			}
			if strings.Contains(text, "203.0.113.9") {
				t.Errorf("what the client wrote is in the log: %s", text)
			}
		})
	}
}

func TestLimiterThatIsMountedTwiceChargesTwiceAndWarnsOnce(t *testing.T) {
	tight := limiterWith(t, core.Config{Name: "tight", Limits: []core.Limit{core.PerMinute(20)}, Store: memoryOn(t, newHandClock())})
	for _, test := range []struct {
		name    string
		keep    bool
		between *core.Limiter
	}{
		{"side by side", false, nil},
		{"decisions kept", true, nil},
		{"decisions kept, a tighter limiter between", true, tight},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log strings.Builder
			l := limiterWith(t, core.Config{
				Name: "api", Limits: []core.Limit{core.PerMinute(50), core.PerHour(60)}, KeepDecision: test.keep,
				Store: memoryOn(t, newHandClock()), Logger: logInto(&log),
			})
			h := l.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil)
			if test.between != nil {
				h = test.between.Handler(h, nil)
			}
			h = l.Handler(h, nil)
			for range 3 {
				h.ServeHTTP(blank{http.Header{}}, get())
			}
			d, err := l.Peek(t.Context(), mustKey(t, keyfunc.ByIP(), get()))
			if err != nil || d.Shown().Used != 6 {
				t.Errorf("%d used after 3 requests through 2 mountings (%v)", d.Shown().Used, err)
			}
			text := log.String()
			if strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=WARN") || !strings.Contains(text, "mounted twice") ||
				!strings.Contains(text, "Config.Once") || !strings.Contains(text, "limiter=api") {
				t.Errorf("log:\n%s\nwant one warning", text)
			}
		})
	}
}

// Two limiters with the same numbers are two, and so is a header that somebody
// else has set to the same number.
func TestLimitersThatLookAlikeAreNotTakenForOne(t *testing.T) {
	var log strings.Builder
	alike := func() *core.Limiter {
		return limiterWith(t, core.Config{Name: "api", Limits: []core.Limit{core.PerMinute(5)}, Logger: logInto(&log), Store: memoryOn(t, newHandClock())})
	}
	h := alike().Handler(alike().Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil), nil)
	h.ServeHTTP(blank{http.Header{}}, get())
	h.ServeHTTP(blank{http.Header{"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"9"}}}, get())
	h.ServeHTTP(blank{http.Header{"X-Ratelimit-Limit": {"5", "5"}}}, get())
	if log.Len() > 0 {
		t.Errorf("warned: %s", log.String())
	}
}
