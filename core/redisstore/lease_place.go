package redisstore

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/core"
)

// leasePlace measures the rate of a key, and has its lease.
type leasePlace struct {
	current atomic.Pointer[lease] // changed under mu alone

	mu   sync.Mutex
	turn uint64 // changes when the key is reset
	kept bool   // a keeper is at work
	hash uint64 // of the key; 0 if none
	// Units that Redis has admitted: in the present period, and in the one before.
	period      int64
	units, last int64
	rival       int64 // calls of others in this period
	// The key's time on each limit, as last heard.
	times [mostLeased]reading
}

// note takes down what Redis has answered to a call, and returns a keeper if a lease is
// worth while: units have been taken at a rate that would spend one, for two periods,
// and there is room for it.
func (s *leases) note(p *leasePlace, hash uint64, c *core.Call, now time.Duration) *keeper {
	admitted := c.Op == core.OpTake && admits(c.Parts)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turnOver(int64(now / s.length))
	if p.hash != hash {
		if p.hash != 0 {
			p.rival++
			return nil
		}
		p.hash, p.units, p.last = hash, 0, 0
		p.times = [mostLeased]reading{}
	}
	for i := range c.Parts {
		p.hear(i, c.Parts[i].At, now)
	}
	if !admitted {
		return nil
	}
	p.units += c.Parts[0].Cost
	length := s.lengthFor(c)
	want := int64(float64(max(p.last, p.units)) * float64(length) / float64(s.length))
	if p.kept || min(p.last, p.units) < leastBlock || want < leastBlock || !roomy(c.Parts) {
		return nil
	}
	p.kept = true
	k := &keeper{leases: s, place: p, length: length, want: want, call: *c}
	k.call.Parts = slices.Clone(c.Parts)
	return k
}

// roomy reports whether Redis would begin a lease, as far as its answer tells.
func roomy(parts []core.Part) bool {
	for i := range parts {
		if parts[i].N-parts[i].Used < 2*leastBlock*blockShare {
			return false
		}
	}
	return true
}

// turnOver begins a new period. A place that others want more than its key goes to
// whoever comes first, and so does one whose key is not asked for.
func (p *leasePlace) turnOver(period int64) {
	if period <= p.period {
		return // somebody looked at the clock earlier and came later
	}
	idle := p.units == 0
	if period > p.period+1 {
		p.last, idle = 0, true
	} else {
		p.last = p.units
	}
	if !p.kept && p.hash != 0 && (p.rival > 2*p.units || idle && p.rival > 0) {
		p.hash, p.last = 0, 0
	}
	p.period, p.units, p.rival = period, 0, 0
}

// readingLife is how long a reading is kept that later ones do not reach, because their
// answers were longer on the way: longer than a refusal is remembered, so that nobody is
// told an earlier instant than by that; and not for good, since clocks differ in their
// rates.
const readingLife = 2 * refusalLife

// hear takes down the key's time.
func (p *leasePlace) hear(i int, at core.Instant, now time.Duration) {
	if r := &p.times[i]; at > r.on(now) || now-r.when > readingLife {
		*r = reading{at, now}
	}
}

// forget ends the lease of a key that is reset, and sees to it that none that Redis has
// given out before is begun after.
func (p *leasePlace) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn++
	if l := p.current.Swap(nil); l != nil {
		l.stop()
		l.rouse()
	}
}

// turned returns the present turn.
func (p *leasePlace) turned() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turn
}

// begin makes a lease the current one, unless the key was reset since its turn.
func (p *leasePlace) begin(l *lease, turn uint64, now time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turn != turn {
		return false
	}
	for i := range l.count {
		x := &l.parts[i]
		switch told := p.times[i].on(now); {
		case told >= x.ends:
			p.times[i] = x.time // the key and its time have begun anew
		case told > x.time.on(now):
			x.time = p.times[i]
		}
	}
	p.current.Store(l)
	return true
}

// end takes the lease out of its place and stops it. It returns what was spent, until
// when by the time of each limit at the latest.
func (p *leasePlace) end(l *lease, now time.Duration) (spent int64, latest [mostLeased]core.Instant) {
	spent = l.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current.CompareAndSwap(l, nil)
	for i := range l.count {
		latest[i] = min(l.parts[i].on(now), l.parts[i].ends)
		p.hear(i, latest[i], now)
	}
	return spent, latest
}
