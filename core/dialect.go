package core

import (
	"net/http"
	"strconv"
	"strings"
)

// Dialect is a form of rate limit headers. A limiter can write several at once.
// All set their headers before the handler runs, and replace what is there, but
// for what another limiter around this one has written: the dialects that show
// one limit show the stricter of both; those that list limits list all.
//
// draft-ietf-httpapi-ratelimit-headers is not a standard yet, and its revisions
// differ: hence one dialect for each form that is in use.
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
	// Draft06 writes RateLimit-Limit, -Remaining and -Reset (seconds from now), and
	// RateLimit-Policy with the quota and window of all limits, as revision 06 of the
	// draft has them. Limits with the same N as another are left out of the list.
	Draft06
	// Draft07 writes RateLimit with the members limit, remaining and reset (seconds
	// from now), and RateLimit-Policy as Draft06 does: revision 07.
	Draft07
	// Draft08 writes RateLimit and RateLimit-Policy as lists of named limits, as
	// revisions 08 to 11 have them: RateLimit-Policy always lists all; RateLimit
	// those that refuse, or all if none does. r is what remains; t is the number of
	// seconds until the oldest counted unit leaves, rounded up, before which nothing
	// is added to r. See LimitState.Policy for the names.
	Draft08
	// Draft12 is Draft08 with the parameters of the editors' text of August 2026: a
	// in place of r, w in place of t, and c, the units that the request has taken.
	// Experimental: it will change with the draft.
	Draft12
	// NoHeaders writes nothing. A refusal still has its Retry-After.
	NoHeaders
)

var dialects = [...]struct {
	name   string
	fields int      // how many headers it sets
	shares string   // dialects that write the same headers in other forms have the same mark
	usage  []string // those of them that tell of use
	mark   string   // that of them whose text is the limiter's own: see wroteHeaders
}{
	XRateLimit:      {"x-ratelimit", 3, "X-RateLimit", usageHeaders[:3], headerLimit},
	XRateLimitDelta: {"x-ratelimit-delta", 3, "X-RateLimit", usageHeaders[:3], headerLimit},
	Draft06:         {"draft-06", 4, "RateLimit", usageHeaders[3:6], headerRateLimitLimit},
	Draft07:         {"draft-07", 2, "RateLimit", usageHeaders[6:], headerRateLimitPolicy},
	Draft08:         {"draft-08", 2, "RateLimit", usageHeaders[6:], headerRateLimitPolicy},
	Draft12:         {"draft-12", 2, "RateLimit", usageHeaders[6:], headerRateLimitPolicy},
	NoHeaders:       {"none", 0, "", nil, ""},
}

// usageHeaders tell how much of a limit is used.
var usageHeaders = []string{
	headerLimit, headerRemaining, headerReset, headerRateLimitLimit, headerRateLimitRemaining, headerRateLimitReset, headerRateLimit,
}

// write sets the headers of one dialect: with the table above, the place where a
// new one is registered. Functions in the table would make the verdict escape to
// the heap.
func (d Dialect) write(l *Limiter, h http.Header, v *Verdict) {
	switch d {
	case XRateLimit:
		l.writeLimit(h, v, limitNames{headerLimit, headerRemaining, headerReset}, false)
	case XRateLimitDelta:
		l.writeLimit(h, v, limitNames{headerLimit, headerRemaining, headerReset}, true)
	case Draft06:
		l.writeDraft06(h, v)
	case Draft07:
		l.writeDraft07(h, v)
	case Draft08:
		l.writeLists(h, v, listParameters{left: ";r=", until: ";t="})
	case Draft12:
		l.writeLists(h, v, listParameters{left: ";a=", until: ";w=", cost: ";c="})
	}
}

// String returns the name of the dialect, such as "draft-08".
func (d Dialect) String() string {
	if int(d) < len(dialects) {
		return dialects[d].name
	}
	return "Dialect(" + strconv.Itoa(int(d)) + ")"
}

// goTogether reports whether a response can carry both: Draft06 and Draft07 differ
// in the fields that they do not share.
func (d Dialect) goTogether(other Dialect) bool {
	pair := [2]Dialect{min(d, other), max(d, other)}
	return pair == [2]Dialect{Draft06, Draft07} || dialects[d].shares != dialects[other].shares
}

// checkDialects returns the faults of Config.Headers and Config.PartitionKeys.
func checkDialects(all []Dialect, partitionKeys bool) (faults []*FieldError) {
	bad := func(field, value, problem, remedy string) {
		faults = append(faults, &FieldError{Field: field, Value: value, Problem: problem, Remedy: remedy})
	}
	lists := false
	for i, d := range all {
		switch {
		case int(d) >= len(dialects):
			bad("Headers", d.String(), "not a dialect", "use one of "+dialectNames())
			continue
		case d == NoHeaders && len(all) > 1:
			bad("Headers", d.String(), "listed with others", "list it alone")
		}
		lists = lists || d == Draft08 || d == Draft12
		for _, earlier := range all[:i] {
			if earlier == d {
				bad("Headers", d.String(), "listed twice", "list it once")
			} else if int(earlier) < len(dialects) && !d.goTogether(earlier) {
				bad("Headers", earlier.String()+", "+d.String(), "both write the same headers", "choose one")
			}
		}
	}
	if partitionKeys && !lists {
		bad("PartitionKeys", "true", "no dialect in Headers has a place for it", "add Draft08 or Draft12 to Headers, or leave PartitionKeys out")
	}
	return faults
}

func dialectNames() string {
	names := make([]string, len(dialects))
	for i := range dialects {
		names[i] = dialects[i].name
	}
	return strings.Join(names, ", ")
}
