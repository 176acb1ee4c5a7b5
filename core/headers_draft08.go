package core

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// listParameters are the parameters of RateLimit, whose names the revisions of the
// draft have changed. Those without a name are not written.
type listParameters struct{ left, until, cost string }

// Of both fields, in all revisions.
const (
	listSeparator      = ", "
	parameterQuota     = ";q="
	parameterWindow    = ";w="
	parameterPartition = ";pk=:" // and base64, and a colon
)

// Integers of structured fields have at most 15 digits (RFC 9651 §3.3.1).
const (
	maxDigits  = 15
	maxInteger = 999_999_999_999_999
)

// writeLists sets RateLimit-Policy and RateLimit, lists of named limits.
//
// RateLimit lists the limits that refuse, or all. With those that have room beside
// one that refuses, a Retry-After could lie before the end of a window that is
// listed, which the draft advises against.
func (l *Limiter) writeLists(h http.Header, v *Verdict, names listParameters) {
	d := &v.Decision
	states := d.states()
	outer, hidden := outerLists(h, d, names)
	v.values.reserve(l.room)

	var buf [256]byte
	policy := l.policies
	if outer != (lists{}) || hidden != 0 || v.keys != nil || !d.asConfigured() {
		b := append(buf[:0], outer.policies...)
		for i := range states {
			if hidden&(1<<i) == 0 {
				b = appendPolicy(separated(b), &states[i], v.keyOf(i))
			}
		}
		policy = string(b)
	}
	v.values.set(h, headerRateLimitPolicy, policy)

	b := append(buf[:0], outer.limits...)
	for i := range states {
		if hidden&(1<<i) == 0 && (d.Allowed || states[i].Violated) {
			b = names.appendLimit(separated(b), &states[i], d, v.keyOf(i))
		}
	}
	v.values.set(h, headerRateLimit, string(b))
}

// policyList lists all limits with their quotas.
func policyList(states []LimitState) string {
	var b []byte
	for i := range states {
		b = appendPolicy(separated(b), &states[i], nil)
	}
	return string(b)
}

// separated appends what stands between two members of a list.
func separated(b []byte) []byte {
	if len(b) > 0 {
		b = append(b, listSeparator...)
	}
	return b
}

// appendPolicy appends a member of RateLimit-Policy. A window under a second cannot
// be told, and is left out.
func appendPolicy(b []byte, s *LimitState, key []byte) []byte {
	b = appendQuoted(b, s.limit.policy)
	b = appendParameter(b, parameterQuota, s.N)
	if s.limit.window >= time.Second {
		b = appendParameter(b, parameterWindow, s.windowSeconds())
	}
	return appendPartition(b, key)
}

// appendLimit appends a member of RateLimit.
func (p listParameters) appendLimit(b []byte, s *LimitState, d *Decision, key []byte) []byte {
	b = appendQuoted(b, s.limit.policy)
	b = appendParameter(b, p.left, s.Remaining())
	if s.OldestLeaves != 0 {
		b = appendParameter(b, p.until, max(0, ceilSeconds(int64(s.OldestLeaves-s.At))))
	}
	if p.cost != "" && d.Allowed {
		b = appendParameter(b, p.cost, d.Cost)
	}
	return appendPartition(b, key)
}

// appendQuoted appends a name as a string; names have nothing to escape (validName).
func appendQuoted(b []byte, name string) []byte {
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"')
}

func appendParameter(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), min(n, maxInteger), 10)
}

func appendPartition(b, key []byte) []byte {
	if key == nil {
		return b
	}
	b = append(b, parameterPartition...)
	b = append(b, key...)
	return append(b, ':')
}

// lists are the two fields.
type lists struct{ policies, limits string }

// outerLists returns what limiters around this one have written and what is kept of
// it, and as bits the limits of this one that are not written because they have
// the name of an outer limit that is as strict: no name may stand in a list twice.
// What others wrote, in other forms, is not kept.
func outerLists(h http.Header, d *Decision, names listParameters) (kept lists, hidden uint64) {
	policies, limits := h[headerRateLimitPolicy], h[headerRateLimit]
	if len(policies) != 1 || len(limits) != 1 {
		return kept, 0
	}
	states := d.states()
	for rest := limits[0]; rest != ""; {
		m, ok := cutMember(&rest, names.left)
		if !ok {
			return lists{}, 0
		}
		if i := withPolicy(states, m.name); i < 0 {
			kept.limits = joined(kept.limits, m.text)
		} else if d.Allowed && m.n <= states[i].Remaining() {
			kept.limits = joined(kept.limits, m.text)
			hidden |= 1 << i
		}
	}
	if !d.Allowed {
		kept.limits = ""
	}
	for rest := policies[0]; rest != ""; {
		m, ok := cutMember(&rest, parameterQuota)
		if !ok {
			return lists{}, 0
		}
		if i := withPolicy(states, m.name); i < 0 || hidden&(1<<i) != 0 {
			kept.policies = joined(kept.policies, m.text)
		}
	}
	return kept, hidden
}

func joined(list, member string) string {
	if list == "" {
		return member
	}
	return list + listSeparator + member
}

// withPolicy returns the index of the limit with that policy name, or -1. Clients
// may compare names without case.
func withPolicy(states []LimitState, name string) int {
	for i := range states {
		if strings.EqualFold(states[i].limit.policy, name) {
			return i
		}
	}
	return -1
}

// member is one member of a list.
type member struct {
	text, name string
	n          int64 // the value of its first parameter
}

// cutMember cuts the first member from a list that a limiter has written: a name, a
// number under the first parameter, and others. Anything else is not ok.
func cutMember(list *string, first string) (m member, ok bool) {
	m.text, *list, ok = strings.Cut(*list, listSeparator)
	if ok && *list == "" {
		return m, false
	}
	name, rest, closed := strings.Cut(strings.TrimPrefix(m.text, `"`), `"`)
	if !closed || m.text[0] != '"' || !validName(name) {
		return m, false
	}
	value, ok := strings.CutPrefix(rest, first)
	if !ok {
		return m, false
	}
	value, others, more := strings.Cut(value, ";")
	m.name = name
	m.n, ok = parseInteger(value)
	return m, ok && (!more || validParameters(others))
}

// validParameters reports whether s is parameters of the kinds that a limiter
// writes: x=number and pk=:base64:.
func validParameters(s string) bool {
	for more := true; more; {
		var p string
		p, s, more = strings.Cut(s, ";")
		name, value, _ := strings.Cut(p, "=")
		if name == "pk" {
			if !validPartition(value) {
				return false
			}
		} else if _, ok := parseInteger(value); !ok || len(name) != 1 || name[0] < 'a' || name[0] > 'z' {
			return false
		}
	}
	return true
}

// validPartition reports whether s is a byte sequence of the length that a partition
// key has.
func validPartition(s string) bool {
	b, opened := strings.CutPrefix(s, ":")
	b, closed := strings.CutSuffix(b, ":")
	_, err := base64.StdEncoding.DecodeString(b)
	return opened && closed && err == nil && len(b) == partitionLen
}

// parseInteger reads an integer of a structured field that is not negative.
func parseInteger(s string) (n int64, ok bool) {
	if s == "" || len(s) > maxDigits || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
