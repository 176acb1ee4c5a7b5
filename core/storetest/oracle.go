package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// Oracle knows what a store must answer. It keeps a plain list of units for
// each counter and key and scans it for everything: nothing in it is shared
// with a store, or quick. The zero value is ready to use. It is not safe for
// concurrent use, and it must see every call in the order in which the store
// decided them.
type Oracle struct{ accounts map[place]*account }

// place is where a counter keeps the count of a key.
type place struct {
	counter string
	key     keyfunc.Key
}

// account is what the oracle knows of a place.
type account struct {
	window time.Duration
	pasts  []past // never empty
	record []Unit // everything that was admitted and not given back
	most   int64  // the largest N under which something was admitted
	raised bool   // a correction booked more than was reserved
}

func (o *Oracle) account(c *core.Counter, k keyfunc.Key) *account {
	at := place{c.Identity(), k}
	a := o.accounts[at]
	if a == nil {
		if o.accounts == nil {
			o.accounts = make(map[place]*account)
		}
		a = &account{window: time.Duration(c.Window) * time.Microsecond, pasts: []past{{}}}
		o.accounts[at] = a
	}
	return a
}

// Check compares a finished call with what the store must have answered, given
// all calls before it, and counts what the call admitted. The store's clock
// read before at some moment before the call and after at some moment after it:
// the same instant where the clock stands still. A difference comes back as an
// error that names the parts and fields. The oracle is of no use afterwards.
func (o *Oracle) Check(c *core.Call, before, after core.Instant) error {
	if err := distinct(c); err != nil {
		return err
	}
	admitted := Admitted(c)
	var errs []error
	for i := range c.Parts {
		x := &c.Parts[i]
		a := o.account(x.Counter, x.Key)
		a.pass(min(max(x.At, before), after))
		if err := a.check(c, x, before, after, admitted); err != nil {
			errs = append(errs, fmt.Errorf("storetest: %s, part %d of %d: %w", c.Op, i, len(c.Parts), err))
		}
	}
	return errors.Join(errs...)
}

// Admitted reports whether the answers of a take, peek or reserve say that it
// passed: every limit that is not only watched has Done.
func Admitted(c *core.Call) bool {
	return !slices.ContainsFunc(c.Parts, func(x core.Part) bool { return !x.Done && !x.Watched })
}

// distinct refuses calls whose meaning is undefined.
func distinct(c *core.Call) error {
	if len(c.Parts) < 2 {
		return nil
	}
	named := make(map[place]bool)
	for _, x := range c.Parts {
		at := place{x.Counter.Identity(), x.Key}
		if named[at] {
			return fmt.Errorf("storetest: a call names counter %s twice for one key: give each limit a name of its own", at.counter)
		}
		named[at] = true
	}
	return nil
}

// Pass tells the oracle that the clock reads now, after it was moved. A key that
// has no live unit at that moment can be forgotten by the store unasked.
func (o *Oracle) Pass(now core.Instant) {
	for _, a := range o.accounts {
		a.pass(now)
	}
}

func (a *account) pass(now core.Instant) {
	for _, p := range slices.Clone(a.pasts) {
		if len(p.live(p.time(now))) == 0 {
			a.pasts = addPast(a.pasts, past{from: len(a.record)})
		}
	}
}

// addPast adds a past unless it is known. Of two that differ in their beginning
// alone, the later beginning stays: it claims less.
func addPast(pasts []past, p past) []past {
	for i, q := range pasts {
		if q.seen == p.seen && q.offset == p.offset && slices.Equal(q.units, p.units) {
			pasts[i].from = max(q.from, p.from)
			return pasts
		}
	}
	return append(pasts, p)
}

// check keeps those pasts that explain the answer.
func (a *account) check(c *core.Call, x *core.Part, before, after core.Instant, admitted bool) error {
	got := answerOf(x)
	var left []past
	var booked []Unit
	var faults []string
	for _, p := range a.pasts {
		lo, hi := p.time(before), p.time(after)
		if c.Op == core.OpReset {
			lo = min(lo, before) // a store may forget the key unread
		}
		if got.at < lo || got.at > hi {
			faults = append(faults, fmt.Sprintf("At is %d, want %s", got.at, span(lo, hi)))
			continue
		}
		want, units, next := p.at(after).after(c, x, got.at, admitted)
		if c.Op == core.OpReset {
			want.fits, next.from = got.fits, len(a.record)
		}
		if fault := differ(got, want); fault != "" {
			faults = append(faults, fault+"; the list holds "+list(p.live(got.at)))
			continue
		}
		booked = units
		left = addPast(left, next)
		next.units = next.live(got.at)
		left = addPast(left, next)
	}
	if len(left) == 0 {
		slices.Sort(faults)
		return fmt.Errorf("%s: %s", describe(x), strings.Join(slices.Compact(faults), "; or else: "))
	}
	a.pasts = left
	a.note(c, x, booked)
	return nil
}

// note brings the record up to date.
func (a *account) note(c *core.Call, x *core.Part, booked []Unit) {
	ends := c.Op == core.OpCommit || c.Op == core.OpCorrect || c.Op == core.OpCancel
	if ends && x.Done {
		for i := range a.record {
			if a.record[i].Pending == c.ID {
				a.record[i].Weight = 0
			}
		}
	}
	a.record = append(a.record, booked...)
	switch {
	case c.Op == core.OpCorrect && len(booked) > 0 && x.Cost > x.Reserved:
		a.raised = true
	case !ends && len(booked) > 0:
		a.most = max(a.most, x.N)
	}
}

// Worst returns the most units of a key that were admitted in any half-open
// window of that length, by the key's own time, within one life of the key.
// Units that were given back do not count; a reservation counts from its taking,
// and from its commit once it is committed.
func (o *Oracle) Worst(c *core.Counter, k keyfunc.Key, window time.Duration) int64 {
	return o.account(c, k).worst(window)
}

func (a *account) worst(window time.Duration) int64 {
	var worst int64
	for _, p := range a.pasts {
		worst = max(worst, Worst(a.record[p.from:], window))
	}
	return worst
}

// CheckWindows returns an error if any window of any key holds more than the
// largest N it was asked with. Keys with a correction upwards are left out: it
// is booked even above N.
func (o *Oracle) CheckWindows() error {
	var errs []error
	for at, a := range o.accounts {
		if worst := a.worst(a.window); worst > a.most && !a.raised {
			errs = append(errs, fmt.Errorf("storetest: a window of counter %s holds %d units, N is %d", at.counter, worst, a.most))
		}
	}
	return errors.Join(errs...)
}

// waits returns how long each unit of the key still counts.
func (o *Oracle) waits(c *core.Counter, k keyfunc.Key, now core.Instant) []time.Duration {
	var waits []time.Duration
	for _, p := range o.account(c, k).pasts {
		for _, u := range p.live(p.time(now)) {
			waits = append(waits, u.Release.Sub(p.time(now)))
		}
	}
	return waits
}
