package core_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

const (
	asText = ""
	asJSON = "application/json"

	tooMany = "Request cannot be satisfied as assigned quota has been exceeded"
	reduced = "Request cannot be satisfied due to temporary server capacity constraints"
)

// twoLimits returns a limiter of 2 per minute and 3 per hour, and a function
// that sends it a request of some cost.
func twoLimits(t *testing.T, change func(*core.Config)) func(cost int64, r *http.Request) *http.Response {
	t.Helper()
	cost := int64(1)
	cfg := core.Config{
		Name: "api", Limits: []core.Limit{core.PerMinute(2).Named("burst"), core.PerHour(3)}, Store: memoryOn(t, newHandClock()),
		Cost: func(*http.Request) (int64, error) { return cost, nil },
	}
	if change != nil {
		change(&cfg)
	}
	l := limiterWith(t, cfg)
	return func(c int64, r *http.Request) *http.Response {
		cost = c
		return through(l, r)
	}
}

func TestBodiesOfRefusals(t *testing.T) {
	required := func(c *core.Config) { c.Key = keyfunc.Required(keyfunc.ByAPIKey("X-API-Key")) }
	failing := func(c *core.Config) {
		c.Store, c.OnFailure, c.Logger = failingStore(), core.Closed, logInto(&strings.Builder{})
	}
	missing := func(c *core.Config) {
		c.Key = func(keyfunc.Request) (keyfunc.Key, error) { return keyfunc.Key{}, keyfunc.ErrRequired }
	}
	for _, test := range []struct {
		name   string
		change func(*core.Config)
		before int64 // units taken first
		cost   int64
		header []string
		status int
		text   string
		json   string
	}{
		{"one limit refuses", nil, 2, 1, nil, 429,
			"Too Many Requests. Try again in 60 s.\n",
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"` + tooMany + `","status":429,"violated-policies":["burst"]}`},
		{"two limits refuse", nil, 2, 2, nil, 429,
			"Too Many Requests. Try again in 3600 s.\n",
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"` + tooMany + `","status":429,"violated-policies":["burst","1h"]}`},
		{"a cost that never fits", nil, 0, 3, nil, 400,
			`The request costs 3 units; limit "burst" never allows more than 2.` + "\n",
			`{"title":"Bad Request","status":400,"detail":"The request costs 3 units; limit \"burst\" never allows more than 2.","violated-policies":["burst"]}`},
		{"a required key is missing", required, 0, 1, nil, 400,
			"The request lacks header X-Api-Key.\n",
			`{"title":"Bad Request","status":400,"detail":"The request lacks header X-Api-Key."}`},
		{"a required key of the user's own", missing, 0, 1, nil, 400,
			"The request lacks a key.\n",
			`{"title":"Bad Request","status":400,"detail":"The request lacks a key."}`},
		{"a key that reads two ways", required, 0, 1, []string{"X-API-Key", "one", "X-API-Key", "two"}, 400,
			"The request carries a key that can be read in more than one way.\n",
			`{"title":"Bad Request","status":400,"detail":"The request carries a key that can be read in more than one way."}`},
		{"no decision", failing, 0, 1, nil, 503,
			"Service Unavailable. Try again later.\n",
			`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"` + reduced + `","status":503}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			send := twoLimits(t, test.change)
			if test.before > 0 {
				wantStatus(t, send(test.before, get()), http.StatusOK)
			}
			for accept, want := range map[string]string{asText: test.text, asJSON: test.json} {
				kind := "text/plain; charset=utf-8"
				if accept == asJSON {
					kind = "application/problem+json"
				}
				for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead} {
					r := get(append([]string{"Accept", accept}, test.header...)...)
					r.Method = method
					res := send(test.cost, r)
					body := want
					if method == http.MethodHead {
						body = ""
					}
					if got := bodyOf(t, res); res.StatusCode != test.status || got != body {
						t.Errorf("%s: status %d, want %d; body\n%s\nwant\n%s", method, res.StatusCode, test.status, got, body)
					}
					if got := res.Header.Get("Content-Type"); got != kind {
						t.Errorf("Content-Type %q, want %q", got, kind)
					}
					if sniff := res.Header.Get("X-Content-Type-Options"); (sniff == "nosniff") != (accept == asText) {
						t.Errorf("X-Content-Type-Options %q", sniff)
					}
					if res.Header.Get("Cache-Control") != "no-store" || (res.Header.Get("Retry-After") != "") != (test.status == 429) {
						t.Errorf("headers %v", res.Header)
					}
				}
			}
		})
	}
}

func TestUndecidedRequestsFollowThePolicy(t *testing.T) {
	for policy, want := range map[core.Policy]int{
		core.Open: http.StatusOK, core.Closed: http.StatusServiceUnavailable, core.Local: http.StatusServiceUnavailable,
	} {
		t.Run(policy.String(), func(t *testing.T) {
			var log strings.Builder
			l := limiterWith(t, core.Config{
				Name: "api", Limits: []core.Limit{core.PerMinute(10)}, OnFailure: policy,
				Store: failingStore(), Logger: logInto(&log), Headers: []core.Dialect{core.XRateLimit},
			})
			for range 3 {
				res := through(l, get())
				for _, name := range core.ExposedHeaders() {
					if v, ok := res.Header[http.CanonicalHeaderKey(name)]; ok {
						t.Errorf("%s: %q, though nothing is known", name, v)
					}
				}
				wantStatus(t, res, want)
			}
			if n := strings.Count(log.String(), "\n"); n != 1 {
				t.Errorf("%d log lines for one outage: %s", n, log.String())
			}
		})
	}
}

func TestErrorOfTheStoreIsNeverShown(t *testing.T) {
	send := twoLimits(t, func(c *core.Config) {
		c.Store, c.OnFailure, c.Logger = failingStore(), core.Closed, logInto(&strings.Builder{})
	})
	for _, accept := range []string{asText, asJSON} {
		res := send(1, get("Accept", accept))
		var all strings.Builder
		if err := res.Header.Write(&all); err != nil {
			t.Fatal(err)
		}
		all.WriteString(bodyOf(t, res))
		for _, word := range []string{"dial", "10.9.8.7", "6379", "secret-host", "refused", "redis"} {
			if strings.Contains(strings.ToLower(all.String()), word) {
				t.Errorf("%q is in the response:\n%s", word, all.String())
			}
		}
	}
}

func TestOwnHandlersReplaceTheResponses(t *testing.T) {
	type seen struct {
		reason core.Reason
		err    error
		retry  time.Duration
	}
	var got []seen
	key := keyfunc.First(keyfunc.ByHeader("X-User"), keyfunc.Required(keyfunc.ByAPIKey("X-API-Key")))
	send := twoLimits(t, func(c *core.Config) {
		c.Key = key
		c.OnRefuse = func(w http.ResponseWriter, r *http.Request, d core.Decision) {
			got = append(got, seen{d.Reason, nil, d.RetryAfter()})
			http.Error(w, "own refusal", http.StatusTeapot)
		}
		c.OnError = func(w http.ResponseWriter, r *http.Request, err error) {
			got = append(got, seen{0, err, 0})
			http.Error(w, "own error", http.StatusBadGateway)
		}
	})
	user := get("X-User", "ada")
	wantStatus(t, send(2, user), http.StatusOK)
	for i, call := range []struct {
		cost        int64
		r           *http.Request
		body, retry string
		status      int
	}{
		{1, user, "own refusal\n", "60", http.StatusTeapot},
		{3, user, "own refusal\n", "", http.StatusTeapot},
		{1, get(), "own error\n", "", http.StatusBadGateway},
	} {
		res := send(call.cost, call.r)
		if body := bodyOf(t, res); body != call.body || res.StatusCode != call.status {
			t.Errorf("call %d: status %d with %q", i, res.StatusCode, body)
		}
		if retry := res.Header.Get("Retry-After"); retry != call.retry || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("call %d: headers %v", i, res.Header)
		}
	}
	if len(got) != 3 || got[0] != (seen{core.Refused, nil, time.Minute}) || got[1] != (seen{core.NeverFits, nil, 0}) ||
		!errors.Is(got[2].err, keyfunc.ErrRequired) {
		t.Errorf("handlers saw %v", got)
	}
}

// An own handler for refusals is not asked about errors, nor the other way round.
func TestOwnHandlersAreAskedOnlyAboutTheirOwn(t *testing.T) {
	send := twoLimits(t, func(c *core.Config) {
		c.Store, c.OnFailure, c.Logger = failingStore(), core.Closed, logInto(&strings.Builder{})
		c.OnRefuse = func(http.ResponseWriter, *http.Request, core.Decision) { t.Error("asked about an error") }
	})
	wantStatus(t, send(1, get()), http.StatusServiceUnavailable)
	send = twoLimits(t, func(c *core.Config) {
		c.OnError = func(http.ResponseWriter, *http.Request, error) { t.Error("asked about a refusal") }
	})
	wantStatus(t, send(3, get()), http.StatusBadRequest)
}

// Refuse is called by adapters too. Whatever it is given, it answers.
func TestRefuseAnswersWithoutADecision(t *testing.T) {
	l := limiterWith(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}})
	for _, test := range []struct {
		name   string
		v      core.Verdict
		status int
		says   string
	}{
		{"nothing to refuse", core.Verdict{}, http.StatusServiceUnavailable, "later"},
		{"a made-up refusal", core.Verdict{Counted: true, Decision: core.Decision{Reason: core.Refused}}, http.StatusTooManyRequests, " in 1 s."},
		{"a made-up cost", core.Verdict{Counted: true, Decision: core.Decision{Reason: core.NeverFits, Cost: 9}}, http.StatusBadRequest, "9 units"},
		{"an error of nobody", core.Verdict{Err: errStore}, http.StatusServiceUnavailable, "later"},
	} {
		for _, accept := range []string{asText, asJSON} {
			w := httptest.NewRecorder()
			l.Refuse(w, get("Accept", accept), test.v)
			if w.Code != test.status || !strings.Contains(w.Body.String(), test.says) && accept == asText || w.Body.Len() == 0 {
				t.Errorf("%s: status %d with %q, want %d", test.name, w.Code, w.Body, test.status)
			}
		}
	}
}

// brokenPipe is the response of a client that has gone.
type brokenPipe struct{ http.ResponseWriter }

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestRefusalToAClientThatHasGone(t *testing.T) {
	l := limiterWith(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}})
	admit(t, l)
	w := httptest.NewRecorder()
	h := l.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }), nil)
	h.ServeHTTP(brokenPipe{w}, get())
	if w.Code != http.StatusTooManyRequests {
		t.Errorf("status %d", w.Code)
	}
}
