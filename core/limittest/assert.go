package limittest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
)

// Response is what assertions look at: the answer of a server, or the recorder
// that a finished handler has written to. Bodies are not read.
type Response interface {
	*http.Response | *httptest.ResponseRecorder
}

// Admitted fails the test unless the response is that of a request which limiters
// have counted and let through to its handler: it has rate limit headers of any
// dialect, and its status is not 429, nor 503, nor 400 with Cache-Control:
// no-store, as a limiter answers when a cost never fits. Other statuses are the
// handler's own affair.
//
// Nothing in a response tells that it was admitted by a limiter with
// core.NoHeaders, or without a decision under core.Open: look at its status.
func Admitted[R Response](t testing.TB, res R) {
	t.Helper()
	a, ok := read(t, res)
	if !ok {
		return
	}
	if outcome, text := a.outcome(); outcome != admitted {
		t.Errorf("%s; want admitted", text)
	}
}

// Refused fails the test unless the response is a limiter's refusal: status 429,
// Cache-Control: no-store, and in Retry-After the wait in seconds, rounded up, at
// least 1. wait is how long after the request the same request would pass.
//
// A service that answers refusals in another way, by Config.OnRefuse, may keep the
// headers and change the status: then look at both yourself.
func Refused[R Response](t testing.TB, res R, wait time.Duration) {
	t.Helper()
	a, ok := read(t, res)
	if !ok {
		return
	}
	outcome, text := a.outcome()
	if outcome != refused {
		t.Errorf("%s; want refused", text)
		return
	}
	if want := seconds(wait); a.header.Get("Retry-After") != want {
		t.Errorf("%s; want Retry-After %s, for a wait of %v: were units taken at another time, or does another limit refuse?", text, want, wait)
	}
	if !a.noStore() {
		t.Errorf("%s, and Cache-Control is %q; want no-store: does something around the limiter replace it?",
			text, a.header.Get("Cache-Control"))
	}
}

// seconds returns the wait as Retry-After has it.
func seconds(wait time.Duration) string {
	n := int64(wait / time.Second)
	if wait%time.Second > 0 {
		n++
	}
	return strconv.FormatInt(max(1, n), 10)
}

// Remaining fails the test unless the response says that n units remain, by the
// header X-RateLimit-Remaining. It is that of the limit closest to exhaustion.
// Limiters whose Config.Headers names neither core.XRateLimit, the default, nor
// core.XRateLimitDelta do not write it.
func Remaining[R Response](t testing.TB, res R, n int64) {
	t.Helper()
	a, ok := read(t, res)
	if !ok {
		return
	}
	want := strconv.FormatInt(n, 10)
	switch got := a.header.Get(remainingHeader); {
	case got == want:
	case got != "":
		t.Errorf("%s is %s, want %s: %s", remainingHeader, got, want, a.text())
	case len(a.limits()) > 0:
		t.Errorf("no %s, want %s: the limiter writes another dialect (%s); have it write core.XRateLimit too",
			remainingHeader, want, strings.Join(a.limits(), ", "))
	default:
		t.Errorf("no %s, want %s: %s", remainingHeader, want, a.text())
	}
}

const (
	limitHeader     = "X-RateLimit-Limit"
	remainingHeader = "X-RateLimit-Remaining"
)

// answer is what matters of a response.
type answer struct {
	status int
	header http.Header
}

// read takes the response apart, and fails the test if there is none.
func read[R Response](t testing.TB, res R) (answer, bool) {
	t.Helper()
	if res == nil {
		t.Errorf("the response is nil: look at the error of the request")
		return answer{}, false
	}
	if w, ok := any(res).(*httptest.ResponseRecorder); ok {
		// Its Header may have been changed after it was sent.
		sent := w.Result()
		return answer{sent.StatusCode, sent.Header}, true
	}
	r := any(res).(*http.Response)
	return answer{r.StatusCode, r.Header}, true
}

// outcome is what became of a request.
type outcome int

const (
	admitted outcome = iota
	refused
	neither // no limiter has decided it, or not in the usual way
)

// outcome reads off what became of the request, and says it in a sentence.
func (a answer) outcome() (outcome, string) {
	retry := a.header.Get("Retry-After")
	counted := len(a.limits()) > 0
	text := fmt.Sprintf("status %d", a.status)
	if retry != "" {
		text += ", Retry-After " + retry
	}
	switch {
	case a.status == http.StatusTooManyRequests && retry != "":
		return refused, text + ": the request was refused" + a.left()
	case a.status == http.StatusTooManyRequests:
		return neither, text + " without Retry-After: this is no refusal of a limiter, but the handler's or that of another middleware"
	case retry != "" && counted && a.noStore():
		return neither, text + ": the request was refused" + a.left() + ", but with another status than 429 (by Config.OnRefuse?)"
	case a.status == http.StatusServiceUnavailable && counted && !a.noStore():
		return neither, text + ": the request was admitted" + a.left() + ", but its handler answers 503"
	case a.status == http.StatusServiceUnavailable:
		return neither, text + ": a limiter had no decision (its store or a key function fails, or it is closed), or the handler is unavailable"
	case a.status == http.StatusBadRequest && a.noStore():
		return neither, text + ": a limiter has found a cost that never fits, or a required key missing or ambiguous"
	case !counted:
		return neither, text + " without rate limit headers: no limiter has seen this request, or it was not counted " +
			"(by Config.Skip, as a preflight, or without a decision under core.Open), or the limiter writes core.NoHeaders"
	}
	return admitted, text + ": the request was admitted" + a.left()
}

func (a answer) text() string {
	_, text := a.outcome()
	return text
}

// left says what the headers tell of the limit shown.
func (a answer) left() string {
	limit, remaining := a.header.Get(limitHeader), a.header.Get(remainingHeader)
	if limit != "" && remaining != "" {
		return fmt.Sprintf(" with %s of %s left", remaining, limit)
	}
	if names := a.limits(); len(names) > 0 {
		return fmt.Sprintf(" (%s: %s)", names[0], a.header.Get(names[0]))
	}
	return ""
}

// limits returns the rate limit headers of the response that the dialects of core
// write, Retry-After apart: anybody writes that.
func (a answer) limits() (names []string) {
	for _, name := range core.ExposedHeaders() {
		if name != "Retry-After" && a.header.Get(name) != "" {
			names = append(names, name)
		}
	}
	return names
}

// noStore reports whether caches may not store the response.
func (a answer) noStore() bool {
	for _, line := range a.header.Values("Cache-Control") {
		for directive := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(directive), "no-store") {
				return true
			}
		}
	}
	return false
}
