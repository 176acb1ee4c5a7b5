package core

import (
	"cmp"
	"slices"
)

// inlineParts is how many limits a decision holds without taking memory.
const inlineParts = 4

// maxUsed bounds what one counter can hold, so that sums stay exact whatever is
// corrected upward: 2^62 is four thousand times MaxUnits.
const maxUsed = 1 << 62

// keptOpen is how much room for reservations a key keeps while it has none.
const keptOpen = 16

// place is where one part of a call is counted: its shard, its entry and what
// the call has found there. It is used under the shard's lock.
type place struct {
	shard  *shard
	number int // of the shard: locks are taken in this order
	id     counterID
	cell   counterID // of the overflow cell
	entry  *entry    // nil: nothing is known of the key
	shared bool      // the entry is the overflow cell
	made   bool      // the call made the entry
	clock  Instant   // as read for the call

	now    Instant   // the key's own time
	logs   [3]*log   // that hold live units: at most units, exact and pending
	first  [3]uint32 // the first live record in each
	alive  int       // how many logs that is
	used   uint64
	oldest Instant
}

// find looks the entry up, brings its time forward and sums what is live. It
// reports whether the key has an entry of its own.
func (at *place) find(clock Instant) (known bool) {
	sh := at.shard
	at.clock, at.entry, at.shared = clock, sh.table.find(at.id), false
	known = at.entry != nil
	if !known && sh.cells > 0 {
		// A key that was counted in a cell stays there while the cell has live
		// units: in an entry of its own it would start anew.
		if cell := sh.table.find(at.cell); cell != nil && !sh.idle(cell, clock) {
			at.entry, at.shared = cell, true
		}
	}
	at.look()
	return known
}

// again looks the entry up once more, after others of its page came or went.
func (at *place) again() {
	switch {
	case at.entry == nil:
	case at.shared:
		at.entry = at.shard.table.find(at.cell)
	default:
		at.entry = at.shard.table.find(at.id)
	}
}

// look fills in now, the live logs, used and oldest.
func (at *place) look() {
	at.now, at.alive, at.used, at.oldest = at.clock, 0, 0, 0
	e, sh := at.entry, at.shard
	if e == nil {
		return
	}
	x, seen := sh.extra(e), e.seen
	if x != nil {
		at.now += x.offset
		seen = x.seen
	}
	if at.now < seen {
		// The clock was set back. The key's time goes on from where it was.
		x = sh.needExtra(e)
		x.offset += seen - at.now
		at.now = seen
	}
	at.sum(&e.units)
	if x != nil {
		at.sum(&x.exact)
		at.sum(&x.pending)
	}
}

// sum adds what is live in l.
func (at *place) sum(l *log) {
	if l.newest() <= at.now {
		return
	}
	a := &at.shard.records
	i := a.after(l, 0, at.now)
	at.logs[at.alive], at.first[at.alive] = l, i
	at.alive++
	at.used += a.units(l, i)
	if r := a.at(l, i).release; at.oldest == 0 || r < at.oldest {
		at.oldest = r
	}
}

// judge answers p as things are and reports whether its cost fits.
func (at *place) judge(p *Part) bool {
	at.answer(p)
	// Not used + cost <= N: the sum could exceed what is exact.
	if p.Cost <= p.N-p.Used {
		p.FitsAt = at.now
		return true
	}
	p.FitsAt = 0
	if p.Cost <= p.N {
		p.FitsAt = at.frees(uint64(p.Used - (p.N - p.Cost)))
	}
	return false
}

// answer fills in what p tells of the counter.
func (at *place) answer(p *Part) {
	p.At, p.Used, p.OldestLeaves = at.now, int64(at.used), at.oldest
}

// frees returns the first instant at which at least need of the live units have
// left. need is 1 to used.
func (at *place) frees(need uint64) (when Instant) {
	a := &at.shard.records
	if at.alive == 1 {
		l := at.logs[0]
		return a.at(l, a.reached(l, at.first[0], need)).release
	}
	for k, l := range at.logs[:at.alive] {
		lo, hi := at.first[k], l.n
		for lo < hi {
			mid := lo + (hi-lo)/2
			if at.left(a.at(l, mid).release) >= need {
				hi = mid
			} else {
				lo = mid + 1
			}
		}
		if lo == l.n {
			continue
		}
		if r := a.at(l, lo).release; when == 0 || r < when {
			when = r
		}
	}
	return when
}

// left returns how many of the live units have left at t.
func (at *place) left(t Instant) (units uint64) {
	a := &at.shard.records
	for k, l := range at.logs[:at.alive] {
		units += a.before(l, a.after(l, at.first[k], t)) - a.before(l, at.first[k])
	}
	return units
}

// trim forgets what has left. Only calls that count something trim: what they
// count is seen, so the key's time cannot fall behind this again.
func (at *place) trim() {
	e, a := at.entry, &at.shard.records
	a.drop(&e.units, a.after(&e.units, 0, at.now))
	x := at.shard.extra(e)
	if x == nil {
		e.seen = at.now
		return
	}
	x.seen = at.now
	a.drop(&x.exact, a.after(&x.exact, 0, at.now))
	a.drop(&x.pending, a.after(&x.pending, 0, at.now))
	n := 0
	for n < len(x.open) && x.open[n].lapses <= at.now {
		n++
	}
	x.open = x.open[n:]
	if len(x.open) == 0 && cap(x.open) > keptOpen {
		x.open = nil
	}
}

// book counts units as made now.
func (at *place) book(p *Part, units int64) {
	at.trim()
	add := min(uint64(units), maxUsed-at.used)
	exact := p.CountsExactly(int64(at.used + add))
	l := &at.entry.units
	if exact && p.Counter.Algorithm == Hybrid {
		l = &at.shard.needExtra(at.entry).exact
	}
	release := p.Counter.Release(at.now, exact)
	at.shard.records.add(l, release, add)
	at.counted(p, release, add)
}

// reserve counts the cost of p as pending.
func (at *place) reserve(p *Part, id ReservationID) {
	at.trim()
	x := at.shard.needExtra(at.entry)
	lapses := at.now + Instant(p.Counter.Window)
	at.shard.records.add(&x.pending, lapses, uint64(p.Cost))
	x.open = append(x.open, openReservation{id, lapses, p.Cost})
	at.counted(p, lapses, uint64(p.Cost))
}

// counted answers p after units that leave at release were added.
func (at *place) counted(p *Part, release Instant, units uint64) {
	at.used += units
	if at.oldest == 0 || release < at.oldest {
		at.oldest = release
	}
	if x := at.shard.extra(at.entry); x != nil {
		x.leaves = max(x.leaves, release)
	}
	at.answer(p)
}

// unreserve takes the pending units of a reservation away and reports whether
// there were any.
func (at *place) unreserve(p *Part, id ReservationID) bool {
	if at.entry == nil {
		return false
	}
	x := at.shard.extra(at.entry)
	if x == nil {
		return false
	}
	lapses := p.ReservedAt + Instant(p.Counter.Window)
	i, _ := slices.BinarySearchFunc(x.open, lapses, func(o openReservation, t Instant) int {
		return cmp.Compare(o.lapses, t)
	})
	for ; i < len(x.open) && x.open[i].lapses == lapses; i++ {
		if x.open[i].id != id || lapses <= at.now {
			continue
		}
		a := &at.shard.records
		a.remove(&x.pending, a.after(&x.pending, 0, lapses-1), uint64(x.open[i].units))
		x.open = without(x.open, i)
		x.leaves = max(at.entry.units.newest(), x.exact.newest(), x.pending.newest())
		at.look()
		return true
	}
	return false
}

// without takes element i out of open, moving the shorter side.
func without(open []openReservation, i int) []openReservation {
	if i < len(open)/2 {
		copy(open[1:i+1], open[:i])
		return open[1:]
	}
	return slices.Delete(open, i, i+1)
}
