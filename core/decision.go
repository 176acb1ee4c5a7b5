package core

import (
	"fmt"
	"iter"
	"time"
)

// Reason says why a decision came out as it did.
type Reason uint8

// The reasons.
const (
	// Admitted: every limit has taken the cost, or would take it (peek).
	Admitted Reason = iota
	// Refused: at least one limit has no room for the cost until later.
	Refused
	// NeverFits: the cost is greater than what a whole window holds.
	NeverFits
	// Undecided: there is no decision. Under the policy Open the request passes.
	Undecided
)

var reasonNames = [...]string{"admitted", "refused", "never_fits", "undecided"}

// String returns the reason in the words of logs and metrics.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// Decision is the answer for one request: a value of some 300 bytes.
//
// Its instants are of the store's clock, so that they can be compared with each
// other and with those of other decisions of the store.
type Decision struct {
	// Allowed reports whether the request may pass.
	Allowed bool
	// Reason says why.
	Reason Reason
	// Cost is the number of units that were asked for.
	Cost int64

	limiter *Limiter
	failure Failure
	shown   uint8 // the limit that Shown returns
	few     [inlineParts]LimitState
	many    []LimitState // in place of few when there are more limits than it holds
	count   int
}

// LimitState is what a decision says of one limit.
type LimitState struct {
	// N is the quota in force: the units that any window holds.
	N int64
	// Used is the number of units that count at At, after the decision.
	Used int64
	// At is the instant of the decision, on the time of the limit's key.
	At Instant
	// OldestLeaves is when the oldest counted unit leaves the window; zero when
	// none is counted.
	OldestLeaves Instant
	// FitsAt is when the cost would fit if nothing else came: At if it fits now,
	// zero if it never does. Calls that come at this instant are admitted, calls
	// that come a microsecond before it are refused.
	FitsAt Instant
	// Violated reports that this limit has no room for the cost, and refuses it.
	Violated bool

	limit *limitSpec
}

// Name returns the name of the limit.
func (s LimitState) Name() string {
	if s.limit == nil {
		return ""
	}
	return s.limit.name
}

// Policy returns the name under which the headers of Draft08 and Draft12 and the
// violated-policies of a refusal list the limit: the name it was given, or that of
// the limiter if it has one limit only, or Name.
func (s LimitState) Policy() string {
	if s.limit == nil {
		return ""
	}
	return s.limit.policy
}

// Window returns the length of the limit's window.
func (s LimitState) Window() time.Duration {
	if s.limit == nil {
		return 0
	}
	return s.limit.Window()
}

// Remaining returns how many units fit now: max(0, N-Used).
func (s LimitState) Remaining() int64 { return max(0, s.N-s.Used) }

// Wait returns how long after the decision the cost would fit: 0 if it fits
// now or never does.
func (s LimitState) Wait() time.Duration {
	if s.FitsAt == 0 {
		return 0
	}
	return s.FitsAt.Sub(s.At)
}

// states returns the states of all limits, in the limiter's order.
func (d *Decision) states() []LimitState {
	if d.many != nil {
		return d.many
	}
	return d.few[:d.count]
}

// Limits walks the states of all limits in the order of Config.Limits. There
// are none in a decision that is Undecided.
func (d *Decision) Limits() iter.Seq[LimitState] {
	return func(yield func(LimitState) bool) {
		for _, s := range d.states() {
			if !yield(s) {
				return
			}
		}
	}
}

// Limit returns the state of the limit with that name.
func (d *Decision) Limit(name string) (s LimitState, ok bool) {
	for _, s := range d.states() {
		if s.Name() == name {
			return s, true
		}
	}
	return LimitState{}, false
}

// Shown returns the limit that headers show. In an admitted request it is the
// one closest to exhaustion: the fewest remaining units, and of those the one
// whose oldest unit leaves last. In a refused one it is the violated limit with
// the longest wait. It is the zero LimitState in a decision that is Undecided.
func (d *Decision) Shown() LimitState {
	if d.count == 0 {
		return LimitState{}
	}
	return d.states()[d.shown]
}

// Failure says why the store did not decide: NoFailure if it did. Of a decision that
// is Undecided nobody did; any other was then made by the local window.
func (d *Decision) Failure() Failure { return d.failure }

// At returns the instant of the decision, on the time of the limit shown.
func (d *Decision) At() Instant { return d.Shown().At }

// RetryAfter returns how long after the decision the same request would pass if
// nothing else came. It is 0 when the request was admitted, and when it can
// never pass (NeverFits).
func (d *Decision) RetryAfter() time.Duration {
	if d.Reason != Refused {
		return 0
	}
	return d.Shown().Wait()
}

// retryAfterSeconds returns RetryAfter as the header has it: whole seconds,
// rounded up, at least 1 (RFC 9110 §10.2.3).
func (d *Decision) retryAfterSeconds() int64 {
	s := &d.states()[d.shown]
	return max(1, ceilSeconds(int64(s.FitsAt-s.At)))
}

// read takes the answers of a call.
func (d *Decision) read(l *Limiter, c *Call) {
	d.limiter, d.Allowed, d.count, d.failure = l, true, len(c.Parts), c.Failure
	if len(c.Parts) > len(d.few) {
		d.many = make([]LimitState, len(c.Parts))
	}
	states := d.states()
	for i := range c.Parts {
		p, s := &c.Parts[i], &states[i]
		s.N, s.Used, s.At, s.OldestLeaves, s.FitsAt = p.N, p.Used, p.At, p.OldestLeaves, p.FitsAt
		s.Violated, s.limit = !p.Done && !p.Watched, &l.limits[i]
		if !s.Violated {
			continue
		}
		d.Allowed = false
		if p.FitsAt == 0 {
			d.Reason = NeverFits
		} else if d.Reason != NeverFits {
			d.Reason = Refused
		}
	}
	for i := 1; i < len(states); i++ {
		if d.showsRather(&states[i], &states[d.shown]) {
			d.shown = uint8(i)
		}
	}
}

// showsRather reports whether headers show a rather than b.
func (d *Decision) showsRather(a, b *LimitState) bool {
	if d.Allowed {
		if ra, rb := a.Remaining(), b.Remaining(); ra != rb {
			return ra < rb
		}
		return a.OldestLeaves-a.At > b.OldestLeaves-b.At
	}
	if a.Violated != b.Violated {
		return a.Violated
	}
	if never := a.FitsAt == 0; never != (b.FitsAt == 0) {
		return never
	}
	return a.FitsAt-a.At > b.FitsAt-b.At
}
