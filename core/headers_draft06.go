package core

import (
	"net/http"
	"strconv"
	"strings"
)

// writeDraft06 sets the four fields of draft-ietf-httpapi-ratelimit-headers-06.
func (l *Limiter) writeDraft06(h http.Header, v *Verdict) {
	names := limitNames{headerRateLimitLimit, headerRateLimitRemaining, headerRateLimitReset}
	if l.writeLimit(h, v, names, true) {
		l.writeQuotas(h, v)
	}
}

// Members of the RateLimit dictionary of draft-07.
const (
	memberLimit     = "limit="
	memberRemaining = ", remaining="
	memberReset     = ", reset="
)

// writeDraft07 sets RateLimit, a dictionary of one limit, and RateLimit-Policy.
func (l *Limiter) writeDraft07(h http.Header, v *Verdict) {
	d := &v.Decision
	s := &d.states()[d.shown]
	if d.Allowed {
		_, shown, _ := strings.Cut(first(h[headerRateLimit]), memberRemaining)
		shown, _, _ = strings.Cut(shown, memberReset)
		if !stricter(s.Remaining(), shown) {
			return
		}
	}
	var buf [96]byte
	b := strconv.AppendInt(append(buf[:0], memberLimit...), s.N, 10)
	b = strconv.AppendInt(append(b, memberRemaining...), s.Remaining(), 10)
	b = strconv.AppendInt(append(b, memberReset...), ceilSeconds(int64(s.resets(d.Allowed)-s.At)), 10)
	v.values.reserve(l.room)
	v.values.set(h, headerRateLimit, string(b))
	l.writeQuotas(h, v)
}

// writeQuotas sets the RateLimit-Policy of both.
func (l *Limiter) writeQuotas(h http.Header, v *Verdict) {
	d := &v.Decision
	list := l.quotas[d.shown]
	if !d.asConfigured() {
		list = quotaList(d.states(), int(d.shown))
	}
	v.values.set(h, headerRateLimitPolicy, list)
}

// quotaList lists the quotas with their windows. No quota may stand there twice
// (so the draft): of limits with the same N, the one shown does, or else the first.
func quotaList(states []LimitState, shown int) string {
	var buf [128]byte
	b := buf[:0]
	for i := range states {
		if i != shown && hasEarlier(states[:i], states[i].N, states[shown].N) {
			continue
		}
		if len(b) > 0 {
			b = append(b, listSeparator...)
		}
		b = strconv.AppendInt(b, states[i].N, 10)
		b = append(b, parameterWindow...)
		b = strconv.AppendInt(b, states[i].windowSeconds(), 10)
	}
	return string(b)
}

// hasEarlier reports whether n is the quota shown, or that of an earlier limit.
func hasEarlier(earlier []LimitState, n, shown int64) bool {
	if n == shown {
		return true
	}
	for i := range earlier {
		if earlier[i].N == n {
			return true
		}
	}
	return false
}

// windowSeconds returns the window in seconds, rounded up: the fields know no
// fractions, and a client that believes the window longer than it is keeps the limit.
func (s *LimitState) windowSeconds() int64 { return ceilSeconds(s.limit.window.Microseconds()) }

// asConfigured reports whether every quota in force is the configured one, so that
// what was prepared of it can be used.
func (d *Decision) asConfigured() bool {
	states := d.states()
	for i := range states {
		if states[i].N != states[i].limit.n {
			return false
		}
	}
	return true
}
