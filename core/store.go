package core

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/slidegate/slidegate/keyfunc"
)

// Store is where the counts live. A limiter hands it one Call per request and
// the store answers in the same Call, for all limits at once: either every
// limit that is enforced takes the cost, or none does.
//
// A store must keep what package storetest checks, whoever else uses it at the
// same time. Stores are layered by wrapping: a store in front of a store passes
// the Call on, or answers it itself.
//
// Do returns when ctx ends, at the latest. A store over a client that does not
// heed contexts hands a copy of the Call to a goroutine that it owns and stops
// waiting for it: once Do has returned, the Call belongs to the caller again,
// who reuses it. An error means that there is no decision; a refusal is none.
// After Close, Do returns ErrClosed. An operation that a store does not know is
// an error in which errors.ErrUnsupported is, and counts nothing.
type Store interface {
	Do(ctx context.Context, c *Call) error
	Close() error
}

// Budgeted is a store that keeps Call.Budget by itself, if KeepsBudget says so.
// For all others the limiter bounds the context of each call, at the price of a
// timer.
type Budgeted interface {
	Store
	KeepsBudget() bool
}

// Guarded is a store that tells operators by itself when it fails and when it
// answers again, if LogsOutages says so. For all others the limiter logs that.
type Guarded interface {
	Store
	LogsOutages() bool
}

// Op is what a Call wants done.
type Op uint8

// The operations of a store.
const (
	// OpTake counts the cost against every limit if it fits all that are enforced.
	OpTake Op = iota
	// OpPeek answers as OpTake would and counts nothing.
	OpPeek
	// OpReserve is OpTake, but the units stay pending under Call.ID until one of
	// the next three ends them, or until a window has passed since.
	OpReserve
	// OpCommit counts the pending units of Call.ID as made now.
	OpCommit
	// OpCorrect is OpCommit with Part.Cost units in place of those reserved, even
	// where that exceeds the limit; 0 gives them all back.
	OpCorrect
	// OpCancel takes the pending units of Call.ID away.
	OpCancel
	// OpReset forgets the key.
	OpReset
)

var opNames = [...]string{"take", "peek", "reserve", "commit", "correct", "cancel", "reset"}

// String returns the name of the operation.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// ends reports whether the operation ends a reservation.
func (o Op) ends() bool { return o == OpCommit || o == OpCorrect || o == OpCancel }

// ReservationID names a reservation among all that were ever made.
type ReservationID [16]byte

// Call is one question to a store and its answer.
type Call struct {
	Op    Op
	ID    ReservationID // of OpReserve and the operations that end it
	Parts []Part        // one per limit, in the limiter's order

	// Policy and Budget say what a store that cannot answer in time does.
	Policy Policy
	Budget time.Duration

	// Failure is an answer: where a local window has decided in place of the store,
	// it says why the store did not.
	Failure Failure
}

// Part is the share of a Call that concerns one limit.
type Part struct {
	// Asked.
	Counter *Counter
	Key     keyfunc.Key
	N       int64 // units that the window holds
	HotFrom int64 // Hybrid: use above which units are counted exactly
	Cost    int64
	// Watched limits are answered like the others and take the cost only if it
	// fits, but they refuse nothing.
	Watched bool
	// Of the operations that end a reservation: what was reserved, and when.
	Reserved   int64
	ReservedAt Instant

	// Answered.
	At           Instant // the key's own time
	Used         int64   // after the operation
	OldestLeaves Instant // when the oldest counted unit leaves; zero when nothing is counted
	FitsAt       Instant // when Cost would fit if nothing else came: At if it does, zero if never
	// Done says that the operation took place on this limit: the cost fitted, or
	// the reservation was still pending.
	Done bool
}

// Counter says how a limit counts. It is made once for each limit of a limiter,
// by NewCounter; calls point to it, and nobody changes it.
type Counter struct {
	Limiter   string
	Limit     string
	Window    int64 // microseconds
	Algorithm Algorithm
	Slots     int   // of Slotted and Hybrid
	SlotSize  int64 // microseconds: ceil(Window/Slots)

	identity string
	digest   [sha256.Size]byte
}

// counterFormat is raised whenever stored counts change their meaning.
const counterFormat = 1

// NewCounter returns the counter of one limit. Stores and tests may call it;
// Config.check has already judged the values when a limiter does.
func NewCounter(limiter, limit string, window time.Duration, a Algorithm, slots int) *Counter {
	c := &Counter{Limiter: limiter, Limit: limit, Window: window.Microseconds(), Algorithm: a}
	if a != Exact {
		c.Slots = max(slots, 1)
		// Rounded down, n slots would be shorter than the window and let nearly
		// 2 N through in some window.
		c.SlotSize = (c.Window + int64(c.Slots) - 1) / int64(c.Slots)
	}
	c.identity = fmt.Sprintf("%d/%q/%q/%d/%s/%d", counterFormat, c.Limiter, c.Limit, c.Window, c.Algorithm, c.Slots)
	c.digest = sha256.Sum256([]byte(c.identity))
	return c
}

// Identity names the counter among all that share a store: limiter, limit,
// window, algorithm, slots and format. N is no part of it, so that a changed N
// keeps the counts, while a changed window starts anew.
func (c *Counter) Identity() string { return c.identity }

// Release returns the instant at which a unit counted at t stops counting:
// t + W when counted exactly, else the end of its slot plus n slots. The window
// of slots is thus the current slot and the n full slots before it, the oldest
// counted whole: with fewer, or with the oldest weighted, more than N units can
// fall into one window (see docs/algorithms.md).
func (c *Counter) Release(t Instant, exact bool) Instant {
	if exact {
		return t + Instant(c.Window)
	}
	slot := int64(t) / c.SlotSize
	return Instant((slot + 1 + int64(c.Slots)) * c.SlotSize)
}

// CountsExactly reports whether units that raise the use to used are counted
// one by one (true) or by slot.
func (p *Part) CountsExactly(used int64) bool {
	switch p.Counter.Algorithm {
	case Slotted:
		return false
	case Hybrid:
		return used > p.HotFrom
	default:
		return true
	}
}

// Policy says what happens to a request when the store gives no decision.
type Policy uint8

// The policies. The zero value is Local.
const (
	// Local decides by a window in this process's memory, where a store brings one,
	// as package redisstore does by itself, and package fallback for any store. With
	// other stores it is Closed.
	Local Policy = iota
	// Open lets the request pass.
	Open
	// Closed refuses it: 503, not 429.
	Closed
)

var policyNames = [...]string{"local", "open", "closed"}

// String returns the name of the policy.
func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return fmt.Sprintf("Policy(%d)", uint8(p))
}
