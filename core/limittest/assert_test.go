package limittest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/limittest"
	"github.com/slidegate/slidegate/nethttp"
)

// response makes one with that status and those headers.
func response(status int, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h}
}

// left3 are the headers of an admitted request.
var left3 = []string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "946684860"}

func with(header []string, more ...string) []string {
	return append(append([]string(nil), header...), more...)
}

// What became of a request, in the words of the failures.
const (
	unseen = " without rate limit headers: no limiter has seen this request, or it was not counted (by Config.Skip, as a preflight, " +
		"or without a decision under core.Open), or the limiter writes core.NoHeaders"
	undecided = ": a limiter had no decision (its store or a key function fails, or it is closed), or the handler is unavailable"
	faulty    = ": a limiter has found a cost that never fits, or a required key missing or ambiguous"
	foreign   = " without Retry-After: this is no refusal of a limiter, but the handler's or that of another middleware"
	threeLeft = ": the request was admitted with 3 of 5 left"
)

// outcomes are responses, with what the assertions say of them; "" where they pass.
var outcomes = map[string]struct {
	res     *http.Response
	said    string
	is      bool // admitted
	refused bool
}{
	"admitted":         {response(200, left3...), "status 200" + threeLeft, true, false},
	"wrong password":   {response(401, left3...), "status 401" + threeLeft, true, false},
	"bad request":      {response(400, left3...), "status 400" + threeLeft, true, false},
	"not to be stored": {response(200, with(left3, "Cache-Control", "no-store")...), "status 200" + threeLeft, true, false},
	"remaining alone": {
		response(200, "X-RateLimit-Remaining", "3"), "status 200: the request was admitted (X-RateLimit-Remaining: 3)", true, false,
	},
	"draft": {
		response(200, "RateLimit", `"1m";r=3;t=60`, "RateLimit-Policy", `"1m";q=5;w=60`),
		`status 200: the request was admitted (RateLimit: "1m";r=3;t=60)`, true, false,
	},
	"refused": {
		response(429, "X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "Retry-After", "42", "Cache-Control", "no-store"),
		"status 429, Retry-After 42: the request was refused with 0 of 5 left", false, true,
	},
	"refused without headers": {
		response(429, "Retry-After", "42", "Cache-Control", "no-store"), "status 429, Retry-After 42: the request was refused", false, true,
	},
	"refused by draft": {
		response(429, "RateLimit", `"1m";r=0;t=42`, "Retry-After", "42", "Cache-Control", "private, No-Store"),
		`status 429, Retry-After 42: the request was refused (RateLimit: "1m";r=0;t=42)`, false, true,
	},
	"refused by somebody else": {response(429, left3...), "status 429" + foreign, false, false},
	"unseen":                   {response(200), "status 200" + unseen, false, false},
	"not found and unseen":     {response(404), "status 404" + unseen, false, false},
	"undecided":                {response(503, "Cache-Control", "no-store"), "status 503" + undecided, false, false},
	"undecided in an inner limiter": {
		response(503, with(left3, "Cache-Control", "no-store")...), "status 503" + undecided, false, false,
	},
	"unavailable":             {response(503, left3...), "status 503" + threeLeft + ", but its handler answers 503", false, false},
	"unavailable for a while": {response(503, "Retry-After", "9"), "status 503, Retry-After 9" + undecided, false, false},
	"never fits":              {response(400, with(left3, "Cache-Control", "no-store")...), "status 400" + faulty, false, false},
	"no key":                  {response(400, "Cache-Control", "no-store"), "status 400" + faulty, false, false},
	"refused in another way": {
		response(403, "X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "Retry-After", "42", "Cache-Control", "no-store"),
		"status 403, Retry-After 42: the request was refused with 0 of 5 left, but with another status than 429 (by Config.OnRefuse?)", false, false,
	},
	"refused with 503": {
		response(503, "X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "Retry-After", "42", "Cache-Control", "no-store"),
		"status 503, Retry-After 42: the request was refused with 0 of 5 left, but with another status than 429 (by Config.OnRefuse?)", false, false,
	},
	"to be continued": {
		response(202, with(left3, "Retry-After", "42")...), "status 202, Retry-After 42" + threeLeft, true, false,
	},
	"unseen, with a wait": {
		response(403, "Retry-After", "42", "Cache-Control", "no-store"), "status 403, Retry-After 42" + unseen, false, false,
	},
}

func TestOutcomes(t *testing.T) {
	for name, x := range outcomes {
		t.Run(name, func(t *testing.T) {
			var wantAdmitted, wantRefused []string
			if !x.is {
				wantAdmitted = []string{x.said + "; want admitted"}
			}
			if !x.refused {
				wantRefused = []string{x.said + "; want refused"}
			}
			said(t, try(t, func(t testing.TB) { limittest.Admitted(t, x.res) }), wantAdmitted...)
			said(t, try(t, func(t testing.TB) { limittest.Refused(t, x.res, 42*time.Second) }), wantRefused...)
			w := httptest.NewRecorder()
			for name, values := range x.res.Header {
				w.Header()[name] = values
			}
			w.WriteHeader(x.res.StatusCode)
			said(t, try(t, func(t testing.TB) { limittest.Admitted(t, w) }), wantAdmitted...)
			said(t, try(t, func(t testing.TB) { limittest.Refused(t, w, 42*time.Second) }), wantRefused...)
		})
	}
}

func TestRefusedComparesTheWait(t *testing.T) {
	res := func(retry string) *http.Response {
		return response(429, "X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "Retry-After", retry, "Cache-Control", "no-store")
	}
	for _, x := range []struct {
		got  string
		wait time.Duration
		want string
	}{
		{"1", -time.Hour, "1"},
		{"1", 0, "1"},
		{"1", 1, "1"},
		{"1", time.Second, "1"},
		{"2", time.Second + 1, "2"},
		{"60", 59*time.Second + time.Microsecond, "60"},
		{"60", time.Minute, "60"},
		{"60", time.Minute + 1, "61"},
		{"60", 59 * time.Second, "59"},
		{"61", time.Minute, "60"},
		{"060", time.Minute, "60"},
		{"Wed, 21 Oct 2015 07:28:00 GMT", time.Minute, "60"},
		{"9223372037", 1<<63 - 1, "9223372037"},
	} {
		var want []string
		if x.got != x.want {
			want = []string{"status 429, Retry-After " + x.got + ": the request was refused with 0 of 5 left; want Retry-After " + x.want +
				", for a wait of " + x.wait.String() + ": were units taken at another time, or does another limit refuse?"}
		}
		said(t, try(t, func(t testing.TB) { limittest.Refused(t, res(x.got), x.wait) }), want...)
	}
}

func TestRefusedLooksAtCacheControl(t *testing.T) {
	for value, ok := range map[string]bool{
		"no-store": true, "private, no-store": true, "NO-STORE ,max-age=0": true,
		"": false, "no-cache": false, "no-store-ever": false, "max-age=60": false,
	} {
		res := response(429, "Retry-After", "60", "Cache-Control", value)
		var want []string
		if !ok {
			want = []string{"status 429, Retry-After 60: the request was refused, and Cache-Control is \"" + value +
				"\"; want no-store: does something around the limiter replace it?"}
		}
		said(t, try(t, func(t testing.TB) { limittest.Refused(t, res, time.Minute) }), want...)
	}
	two := response(429, "Retry-After", "60", "Cache-Control", "private", "Cache-Control", "no-store")
	said(t, try(t, func(t testing.TB) { limittest.Refused(t, two, time.Minute) }))
}

func TestRefusedTellsAllThatIsWrong(t *testing.T) {
	f := try(t, func(t testing.TB) { limittest.Refused(t, response(429, "Retry-After", "9"), time.Minute) })
	said(t, f,
		"status 429, Retry-After 9: the request was refused; want Retry-After 60, for a wait of 1m0s: "+
			"were units taken at another time, or does another limit refuse?",
		`status 429, Retry-After 9: the request was refused, and Cache-Control is ""; want no-store: does something around the limiter replace it?`)
}

func TestRemaining(t *testing.T) {
	for name, x := range map[string]struct {
		res  *http.Response
		want []string
	}{
		"right":   {response(200, left3...), nil},
		"refused": {response(429, "X-RateLimit-Remaining", "3"), nil},
		"other": {
			response(200, "X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "4"),
			[]string{"X-RateLimit-Remaining is 4, want 3: status 200: the request was admitted with 4 of 5 left"},
		},
		"junk": {
			response(200, "X-RateLimit-Remaining", "03"),
			[]string{"X-RateLimit-Remaining is 03, want 3: status 200: the request was admitted (X-RateLimit-Remaining: 03)"},
		},
		"another dialect": {
			response(200, "RateLimit", `"1m";r=3;t=60`, "RateLimit-Policy", `"1m";q=5;w=60`),
			[]string{"no X-RateLimit-Remaining, want 3: the limiter writes another dialect (RateLimit, RateLimit-Policy); have it write core.XRateLimit too"},
		},
		"unseen":    {response(200), []string{"no X-RateLimit-Remaining, want 3: status 200" + unseen}},
		"undecided": {response(503, "Cache-Control", "no-store"), []string{"no X-RateLimit-Remaining, want 3: status 503" + undecided}},
	} {
		t.Run(name, func(t *testing.T) {
			said(t, try(t, func(t testing.TB) { limittest.Remaining(t, x.res, 3) }), x.want...)
		})
	}
}

func TestNoResponse(t *testing.T) {
	const want = "the response is nil: look at the error of the request"
	var res *http.Response
	var rec *httptest.ResponseRecorder
	said(t, try(t, func(t testing.TB) { limittest.Admitted(t, res) }), want)
	said(t, try(t, func(t testing.TB) { limittest.Refused(t, res, time.Minute) }), want)
	said(t, try(t, func(t testing.TB) { limittest.Remaining(t, res, 1) }), want)
	said(t, try(t, func(t testing.TB) { limittest.Admitted(t, rec) }), want)
}

// A recorder that no handler has written to says 200.
func TestARecorderThatWasNotUsed(t *testing.T) {
	said(t, try(t, func(t testing.TB) { limittest.Admitted(t, httptest.NewRecorder()) }), "status 200"+unseen+"; want admitted")
}

// A client sees the headers as they were when the response began.
func TestHeadersThatAreSetTooLateDoNotCount(t *testing.T) {
	w := httptest.NewRecorder()
	w.WriteHeader(http.StatusOK)
	w.Header().Set("X-RateLimit-Remaining", "3")
	said(t, try(t, func(t testing.TB) { limittest.Remaining(t, w, 3) }), "no X-RateLimit-Remaining, want 3: status 200"+unseen)
}

func TestAssertionsLeaveTheBodyAlone(t *testing.T) {
	l := limittest.New(t, limittest.NewClock(), limits(core.PerMinute(5)))
	handler := nethttp.Middleware(l)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	w := send(handler, "GET", "/")
	limittest.Admitted(t, w)
	limittest.Remaining(t, w, 4)
	if body, err := io.ReadAll(w.Result().Body); err != nil || string(body) != "hello" || w.Body.String() != "hello" {
		t.Errorf("the body is %q, %v", body, err)
	}
}

// The assertions know the responses of limiters with each dialect.
func TestAssertionsInEachDialect(t *testing.T) {
	for d := core.XRateLimit; d <= core.NoHeaders; d++ {
		t.Run(d.String(), func(t *testing.T) {
			l := limittest.New(t, limittest.NewClock(), core.Config{Limits: []core.Limit{core.PerMinute(2)}, Headers: []core.Dialect{d}})
			handler := nethttp.Middleware(l)(http.HandlerFunc(fine))
			first := send(handler, "GET", "/")
			f := try(t, func(t testing.TB) { limittest.Admitted(t, first) })
			if d == core.NoHeaders {
				said(t, f, "status 200"+unseen+"; want admitted")
			} else {
				said(t, f)
			}
			f = try(t, func(t testing.TB) { limittest.Remaining(t, first, 1) })
			if knows := d == core.XRateLimit || d == core.XRateLimitDelta; knows != (len(f.failures) == 0) {
				t.Errorf("remaining: %q", f.failures)
			}
			limittest.Exhaust(t, l, limittest.Peer())
			limittest.Refused(t, send(handler, "GET", "/"), time.Minute)
		})
	}
}

// The assertions know the other answers of limiters.
func TestAnswersOfLimiters(t *testing.T) {
	store := limittest.NewStore(t, limittest.NewClock())
	status := 0
	l := limittest.New(t, nil, core.Config{
		Name: "api", Store: store, Logger: quiet, Limits: []core.Limit{core.PerMinute(5)},
		Skip: func(r *http.Request) bool { return r.URL.Path == "/health" },
		Cost: func(r *http.Request) (int64, error) { return r.ContentLength + 1, nil },
	})
	handler := nethttp.Middleware(l)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	for _, x := range []struct {
		path, want string
		status     int
		before     func()
	}{
		{path: "/", status: 200},
		{path: "/", status: 404},
		{"/", "status 503: the request was admitted with 2 of 5 left, but its handler answers 503", 503, func() {}},
		{"/health", "status 200" + unseen, 200, func() {}},
		{"/", "status 429, Retry-After 60: the request was refused with 0 of 5 left", 200, func() { limittest.Exhaust(t, l, limittest.Peer()) }},
		{"/", "status 503" + undecided, 200, func() { store.Break(nil) }},
	} {
		status = x.status
		var want []string
		if x.want != "" {
			x.before()
			want = []string{x.want + "; want admitted"}
		}
		w := send(handler, "GET", x.path)
		said(t, try(t, func(t testing.TB) { limittest.Admitted(t, w) }), want...)
	}
	store.Mend()
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	r.ContentLength = 5
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	said(t, try(t, func(t testing.TB) { limittest.Admitted(t, w) }), "status 400"+faulty+"; want admitted")
}

func TestAssertionsInManyGoroutines(t *testing.T) {
	clock := limittest.NewClock()
	l := limittest.New(t, clock, limits(core.PerMinute(800)))
	handler := nethttp.Middleware(l)(http.HandlerFunc(fine))
	each := func(assert func(*httptest.ResponseRecorder)) {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range 100 {
					assert(send(handler, "GET", "/"))
				}
			})
		}
		group.Wait()
	}
	each(func(w *httptest.ResponseRecorder) { limittest.Admitted(t, w) })
	each(func(w *httptest.ResponseRecorder) { limittest.Refused(t, w, time.Minute) })
	clock.Advance(time.Minute)
	each(func(w *httptest.ResponseRecorder) { limittest.Admitted(t, w) })
}
