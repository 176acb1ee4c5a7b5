package core

import (
	"net/http"
	"strconv"
	"strings"
)

// Header names in the canonical form that Header.Set gives them. On the wire
// their case means nothing (RFC 9110 §5.1).
const (
	headerLimit      = "X-Ratelimit-Limit"
	headerRemaining  = "X-Ratelimit-Remaining"
	headerReset      = "X-Ratelimit-Reset"
	headerRetryAfter = "Retry-After"

	// 429 must not be stored by a cache (RFC 6585 §4); intermediaries vary.
	headerCacheControl = "Cache-Control"
	noStore            = "no-store"
)

// ExposedHeaders returns the names of all headers that a limiter may set, for
// the Access-Control-Expose-Headers of a CORS middleware: without it, scripts of
// other origins cannot read them. The CORS middleware goes outside the limiter.
func ExposedHeaders() []string {
	return []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"}
}

// Dialect is a form of rate limit headers. A limiter can write several at once.
// All set their headers before the handler runs, and replace what is there.
type Dialect uint8

// The dialects.
const (
	// XRateLimit writes X-RateLimit-Limit, -Remaining and -Reset. Reset is the Unix
	// time in seconds, rounded up, at which the oldest counted unit leaves; on a
	// refusal, the moment of Retry-After. The memory store tells Unix time by the
	// system's clock at its start and the monotonic clock since; where the system
	// is suspended or its clock is set, XRateLimitDelta stays right.
	XRateLimit Dialect = iota
	// XRateLimitDelta writes the same headers, Reset in seconds from now.
	XRateLimitDelta
	// NoHeaders writes nothing. A refusal still has its Retry-After.
	NoHeaders
)

var dialectNames = [...]string{"x-ratelimit", "x-ratelimit-delta", "none"}

// write sets the headers of one dialect: the place where a new one is
// registered. A table of functions would make the decision escape to the heap.
func (d Dialect) write(h http.Header, v *headerValues, of *Decision) {
	switch d {
	case XRateLimit:
		writeXRateLimit(h, v, of, false)
	case XRateLimitDelta:
		writeXRateLimit(h, v, of, true)
	}
}

// String returns the name of the dialect.
func (d Dialect) String() string {
	if int(d) < len(dialectNames) {
		return dialectNames[d]
	}
	return "Dialect(" + strconv.Itoa(int(d)) + ")"
}

func checkDialects(all []Dialect) (faults []*FieldError) {
	bad := func(value, problem, remedy string) {
		faults = append(faults, &FieldError{Field: "Headers", Value: value, Problem: problem, Remedy: remedy})
	}
	seen := map[Dialect]bool{}
	for _, d := range all {
		switch {
		case int(d) >= len(dialectNames):
			bad(d.String(), "not a dialect", "use XRateLimit, XRateLimitDelta or NoHeaders")
		case seen[d]:
			bad(d.String(), "listed twice", "list it once")
		case d == NoHeaders && len(all) > 1:
			bad(d.String(), "listed with others", "list it alone")
		}
		seen[d] = true
	}
	if seen[XRateLimit] && seen[XRateLimitDelta] {
		bad("x-ratelimit, x-ratelimit-delta", "both write the same headers", "choose one")
	}
	return faults
}

// newLimitSpec prepares a limit for the hot path.
func newLimitSpec(limiter string, l Limit) limitSpec {
	return limitSpec{
		Limit:   l,
		name:    l.Name(),
		counter: NewCounter(limiter, l.Name(), l.window, l.algorithm, l.slots),
		hotFrom: l.hotFrom(),
		// A string of its own, by whose address a response shows who wrote it
		// (see wroteHeaders); strconv shares those of small numbers.
		header: strings.Clone(strconv.FormatInt(l.n, 10)),
	}
}

// headerValues is the memory of one response's header values. Nobody else knows
// it, so that who changes a value in place, as some middlewares do
// (https://github.com/rs/cors/issues/198), changes no other response. All values
// lie together, to save allocations.
type headerValues []string

const (
	roomAdmitted = 3
	roomRefused  = 7 // with Cache-Control, Retry-After and what Refuse adds
)

// set sets a header whose name is canonical.
func (v *headerValues) set(h http.Header, name, value string) {
	*v = append(*v, value)
	last := len(*v) - 1
	h[name] = (*v)[last : last+1 : last+1]
}

// reserve makes room for n values, if there is none yet.
func (v *headerValues) reserve(n int) {
	if *v == nil {
		*v = make(headerValues, 0, n)
	}
}

// writeHeaders sets what a response carries.
func (l *Limiter) writeHeaders(h http.Header, v *headerValues, d *Decision) {
	if d.Reason == Undecided {
		return // there is nothing true to say
	}
	if !d.Allowed {
		v.reserve(roomRefused)
	}
	for _, dialect := range l.cfg.Headers {
		dialect.write(h, v, d)
	}
	if d.Allowed {
		return
	}
	v.set(h, headerCacheControl, noStore)
	if d.Reason == Refused {
		v.set(h, headerRetryAfter, strconv.FormatInt(d.retryAfterSeconds(), 10))
	}
}

// writeXRateLimit sets the three X-RateLimit headers.
func writeXRateLimit(h http.Header, v *headerValues, d *Decision, delta bool) {
	s := &d.states()[d.shown]
	remaining, reset := s.Remaining(), s.resets(d.Allowed).unixCeil()
	if d.Allowed && !stricter(h, remaining) {
		return
	}
	if delta {
		reset = ceilSeconds(int64(s.resets(d.Allowed) - s.At))
	}
	var buf [40]byte
	b := strconv.AppendInt(buf[:0], remaining, 10)
	cut := len(b)
	text := string(strconv.AppendInt(b, reset, 10))
	v.reserve(roomAdmitted)
	limit := s.limit.header
	if s.N != s.limit.n {
		limit = strconv.FormatInt(s.N, 10)
	}
	v.set(h, headerLimit, limit)
	v.set(h, headerRemaining, text[:cut])
	v.set(h, headerReset, text[cut:])
}

// resets returns the instant that Reset names: when the oldest unit leaves, or,
// on a refusal, when the cost fits. Where there is none, nothing is counted, and
// the quota is whole already.
func (s *LimitState) resets(allowed bool) Instant {
	t := s.OldestLeaves
	if !allowed && s.FitsAt != 0 {
		t = s.FitsAt
	}
	return max(t, s.At)
}

// stricter reports whether an admitted request's remaining units are fewer than
// those that an outer limiter has shown already. Of two that are equal, the
// outer one stays.
func stricter(h http.Header, remaining int64) bool {
	shown := h[headerRemaining]
	if len(shown) == 0 {
		return true
	}
	other, err := strconv.ParseInt(shown[0], 10, 64)
	return err != nil || remaining < other
}
