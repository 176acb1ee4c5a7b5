package storetest

import (
	"slices"

	"github.com/slidegate/slidegate/core"
)

// past is one thing that can have happened to a key so far. There is more than
// one when a store had the choice to forget what is dead.
type past struct {
	units  []Unit       // those that can still count
	seen   core.Instant // the latest instant at which the key booked
	offset core.Instant // what its time is ahead of the clock
	from   int          // where its life begins in the account's record
}

// answer is what a store fills in.
type answer struct {
	at     core.Instant
	used   int64
	oldest core.Instant
	fits   core.Instant
	done   bool
}

func answerOf(x *core.Part) answer { return answer{x.At, x.Used, x.OldestLeaves, x.FitsAt, x.Done} }

// time returns the key's own time when the clock reads clock.
func (p past) time(clock core.Instant) core.Instant { return max(p.seen, clock+p.offset) }

// at returns the past with what a call at that clock reading makes of the
// offset: time goes on from the latest booked instant.
func (p past) at(clock core.Instant) past {
	p.offset = p.time(clock) - clock
	return p
}

// live returns the units that count at t.
func (p past) live(t core.Instant) []Unit {
	var live []Unit
	for _, u := range p.units {
		if u.Release > t {
			live = append(live, u)
		}
	}
	return live
}

func (p past) used(t core.Instant) int64 {
	var used int64
	for _, u := range p.units {
		if u.Release > t {
			used += u.Weight
		}
	}
	return used
}

func (p past) oldest(t core.Instant) core.Instant {
	var oldest core.Instant
	for _, u := range p.units {
		if u.Release > t && (oldest == 0 || u.Release < oldest) {
			oldest = u.Release
		}
	}
	return oldest
}

// fits returns when the cost of x would fit: it tries every release instant.
func (p past) fits(x *core.Part, t core.Instant) core.Instant {
	if x.Cost <= x.N-p.used(t) {
		return t
	}
	if x.Cost > x.N {
		return 0
	}
	var first core.Instant
	for _, u := range p.live(t) {
		if x.Cost <= x.N-p.used(u.Release) && (first == 0 || u.Release < first) {
			first = u.Release
		}
	}
	return first
}

// pending reports whether the reservation has not ended or lapsed.
func (p past) pending(id core.ReservationID, t core.Instant) bool {
	return slices.ContainsFunc(p.live(t), func(u Unit) bool { return u.Pending == id })
}

// without returns the past without the reservation.
func (p past) without(id core.ReservationID) past {
	p.units = slices.DeleteFunc(slices.Clone(p.units), func(u Unit) bool { return u.Pending == id })
	return p
}

// with returns the past with units that were booked at t. Nothing of the key is
// judged at an earlier instant again, so what is dead at t has left for good.
func (p past) with(t core.Instant, booked ...Unit) past {
	p.units = append(p.live(t), booked...)
	p.seen = max(p.seen, t)
	return p
}

// booking returns the units that a final booking of x makes at t.
func (p past) booking(x *core.Part, t core.Instant, weight int64) []Unit {
	if weight == 0 {
		return nil
	}
	exact := x.CountsExactly(p.used(t) + weight)
	return []Unit{{Made: t, Release: x.Counter.Release(t, exact), Weight: weight}}
}

// after returns what a store must answer to the part x of the call when the
// key's time is t, which units that books, and the past that follows.
func (p past) after(c *core.Call, x *core.Part, t core.Instant, admitted bool) (answer, []Unit, past) {
	want := answer{at: t, fits: t}
	var booked []Unit
	next := p
	switch c.Op {
	case core.OpTake, core.OpReserve, core.OpPeek:
		want.fits = p.fits(x, t)
		want.done = want.fits == t
		if admitted && want.done && c.Op != core.OpPeek {
			booked = p.booking(x, t, x.Cost)
			if c.Op == core.OpReserve {
				booked = []Unit{{Made: t, Release: t + core.Instant(x.Counter.Window), Weight: x.Cost, Pending: c.ID}}
			}
		}
	case core.OpReset:
		want.done = true
		next = past{}
	default:
		want.done = p.pending(c.ID, t)
		if want.done {
			next = p.without(c.ID)
		}
		booked = next.booking(x, t, booksAtEnd(c.Op, x, want.done))
	}
	if len(booked) > 0 {
		next = next.with(t, booked...)
	}
	want.used, want.oldest = next.used(t), next.oldest(t)
	return want, booked, next
}

// booksAtEnd returns the units that the end of a reservation books.
func booksAtEnd(op core.Op, x *core.Part, pending bool) int64 {
	switch {
	case op == core.OpCommit && pending:
		return x.Reserved
	case op == core.OpCorrect && pending:
		return x.Cost
	case op == core.OpCorrect:
		// What was reserved is accounted for; the excess never was.
		return max(0, x.Cost-x.Reserved)
	default:
		return 0
	}
}
