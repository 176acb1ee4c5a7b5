package core

import (
	"net/http"
	"strconv"
	"unsafe"
)

// Header names in the canonical form that Header.Set gives them. On the wire
// their case means nothing (RFC 9110 §5.1).
const (
	headerLimit      = "X-Ratelimit-Limit"
	headerRemaining  = "X-Ratelimit-Remaining"
	headerReset      = "X-Ratelimit-Reset"
	headerRetryAfter = "Retry-After"

	// The fields of draft-ietf-httpapi-ratelimit-headers in its revisions.
	headerRateLimit          = "Ratelimit"
	headerRateLimitPolicy    = "Ratelimit-Policy"
	headerRateLimitLimit     = "Ratelimit-Limit"
	headerRateLimitRemaining = "Ratelimit-Remaining"
	headerRateLimitReset     = "Ratelimit-Reset"

	// 429 must not be stored by a cache (RFC 6585 §4); intermediaries vary.
	headerCacheControl = "Cache-Control"
	noStore            = "no-store"
)

// ExposedHeaders returns the names of all headers that a limiter may set, in any
// dialect, for the Access-Control-Expose-Headers of a CORS middleware: without it,
// scripts of other origins cannot read them. The CORS middleware goes outside the
// limiter.
func ExposedHeaders() []string {
	return []string{
		"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After",
		"RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset",
	}
}

// headerValues is the memory of one response's header values. Nobody else knows
// it, so that who changes a value in place, as some middlewares do
// (https://github.com/rs/cors/issues/198), changes no other response. All values
// lie together, to save allocations.
type headerValues []string

// roomRefused is how many values a refusal has beside those of the dialects:
// Cache-Control, Retry-After and what Refuse adds.
const roomRefused = 4

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

// writeHeaders sets what the response of a request carries that was decided.
func (l *Limiter) writeHeaders(h http.Header, v *Verdict) {
	d, values := &v.Decision, &v.values
	if d.Reason == Undecided {
		return // there is nothing true to say
	}
	if d.Allowed {
		for _, dialect := range l.cfg.Headers {
			dialect.write(l, h, v)
		}
		return
	}
	values.reserve(l.room + roomRefused)
	for _, dialect := range l.cfg.Headers {
		dialect.write(l, h, v)
	}
	if len(h) > len(*values) { // else they are all our own
		for _, name := range l.foreign {
			// What another limiter has written of a window that is not the one that refuses.
			delete(h, name)
		}
	}
	values.set(h, headerCacheControl, noStore)
	if d.Reason == Refused {
		if v.body == nil {
			v.writeRefusal(make([]byte, 0, maxRefusal))
		}
		values.set(h, headerRetryAfter, v.retryAfter)
	}
}

// limitNames are the headers of a dialect that tells of one limit in three fields.
type limitNames struct{ limit, remaining, reset string }

// maxLimitText is the length of the longest remaining units and reset together.
const maxLimitText = 2 * len("999999999999999")

// writeLimit sets the three headers of the limit shown. It reports whether it did:
// what an outer limiter has set stays if it is as strict.
func (l *Limiter) writeLimit(h http.Header, v *Verdict, names limitNames, delta bool) bool {
	d := &v.Decision
	s := &d.states()[d.shown]
	remaining, resets := s.Remaining(), s.resets(d.Allowed)
	if d.Allowed && len(h) > 0 && !stricter(remaining, first(h[names.remaining])) {
		return false
	}
	var reset int64
	if delta {
		reset = ceilSeconds(int64(resets - s.At))
	} else {
		reset = resets.unixCeil()
	}
	var buf [maxLimitText]byte
	b := strconv.AppendInt(buf[:0], remaining, 10)
	cut := len(b)
	b = strconv.AppendInt(b, reset, 10)
	var text string
	if d.Reason == Refused && v.body == nil {
		text = v.writeRefusal(append(make([]byte, 0, maxLimitText+maxRefusal), b...))
	} else {
		text = string(b)
	}
	v.values.reserve(l.room)
	limit := s.limit.header
	if s.N != s.limit.n {
		limit = strconv.FormatInt(s.N, 10)
	}
	v.values.set(h, names.limit, limit)
	v.values.set(h, names.remaining, text[:cut])
	v.values.set(h, names.reset, text[cut:])
	return true
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
// outer one stays; what is no number goes.
func stricter(remaining int64, shown string) bool {
	if shown == "" {
		return true // spares the error that ParseInt would make
	}
	other, err := strconv.ParseInt(shown, 10, 64)
	return err != nil || remaining < other
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// Lengths of the two texts of a refusal: ten digits are more than the seconds of
// MaxWindow.
const (
	maxRetryAfter = len("9999999999")
	maxRefusal    = maxRetryAfter + len(tooManyRequests) + maxRetryAfter + len(" s.\n")
)

// writeRefusal appends the Retry-After and the body of a refusal to b, keeps both, and
// returns what was in b as a string, in the same memory. Nobody writes to that again, and
// the body, which goes to writers that are not ours, lies behind it.
func (v *Verdict) writeRefusal(b []byte) string {
	before := len(b)
	b = strconv.AppendInt(b, v.Decision.retryAfterSeconds(), 10)
	after := len(b)
	b = append(v.appendText(b, http.StatusTooManyRequests), '\n')
	v.body = b[after:]
	text := unsafe.String(unsafe.SliceData(b), after)
	v.retryAfter = text[before:]
	return text[:before]
}
