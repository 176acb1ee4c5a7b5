package main

import "github.com/slidegate/slidegate/core"

// entry is units that were counted together.
type entry struct {
	at    core.Instant
	units int64
	ref   int // of a reservation that has not ended; 0: the units are final
}

// ledger is the plain list by which everything is judged: units and their
// instants, added up anew each time. It shares no code with the limiter.
type ledger struct {
	window  core.Instant
	entries []entry // in the order of their instants
	kept    int     // entries left by the last cut
}

// used returns the units counted in (t-W-late, t]. Reservations that have not
// ended lapse after W, whatever late is.
func (l *ledger) used(t, late core.Instant) (units int64) {
	for i := len(l.entries) - 1; i >= 0; i-- {
		e := &l.entries[i]
		if e.at <= t-l.window-late {
			break
		}
		if e.ref == 0 || e.at > t-l.window {
			units += e.units
		}
	}
	return units
}

// fits returns the first instant from t on at which cost fits n if nothing else
// comes. cost is at most n.
func (l *ledger) fits(t core.Instant, cost, n int64) core.Instant {
	need := l.used(t, 0) - (n - cost)
	if need <= 0 {
		return t
	}
	i := len(l.entries)
	for i > 0 && l.entries[i-1].at > t-l.window {
		i--
	}
	for ; need > l.entries[i].units; i++ {
		need -= l.entries[i].units
	}
	return l.entries[i].at + l.window
}

// add counts units at t, which is no earlier than all before.
func (l *ledger) add(t core.Instant, units int64, ref int) {
	// Nothing counts for longer than two windows. Cut off in large pieces, since
	// each cut copies what is left.
	if len(l.entries) >= max(2048, 2*l.kept) {
		old := 0
		for old < len(l.entries) && l.entries[old].at <= t-3*l.window {
			old++
		}
		l.entries = append(l.entries[:0], l.entries[old:]...)
		l.kept = len(l.entries)
	}
	l.entries = append(l.entries, entry{t, units, ref})
}

// end takes a reservation off the list and returns its units, or false if it
// has lapsed by t.
func (l *ledger) end(t core.Instant, ref int) (units int64, ok bool) {
	for i := len(l.entries) - 1; i >= 0 && l.entries[i].at > t-l.window; i-- {
		if e := &l.entries[i]; e.ref == ref {
			units = e.units
			e.units, e.ref = 0, 0
			return units, true
		}
	}
	return 0, false
}

// finish ends a reservation of cost reserved as o says, at t. It returns the
// units that are counted now, and whether the reservation was still there.
func (l *ledger) finish(t core.Instant, o offer, reserved int64) (units int64, ok bool) {
	_, ok = l.end(t, o.ref)
	switch {
	case o.deed == commit && ok:
		units = reserved
	case o.deed == correct && ok:
		units = o.cost
	case o.deed == correct:
		// It was counted for a whole window already, up to what was reserved.
		units = max(0, o.cost-reserved)
	}
	if units > 0 {
		l.add(t, units, 0)
	}
	return units, ok
}
