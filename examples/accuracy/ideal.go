package main

import "github.com/slidegate/slidegate/core"

// ideal is what a sliding window ought to be: every unit with its instant, all
// of them added up at each offer. It is far too slow for anything but this.
type ideal struct {
	ledger
	n        int64
	reserved map[int]int64

	// The key's own time is the clock plus ahead, which grows when the clock reads
	// less than at the last unit that was counted.
	ahead, seen core.Instant
}

func newIdeal(n int64, window core.Instant) *ideal {
	return &ideal{ledger: ledger{window: window}, n: n, reserved: make(map[int]int64)}
}

func (m *ideal) answer(o offer) (answer, error) {
	now := o.clock + m.ahead
	if now < m.seen {
		m.ahead += m.seen - now
		now = m.seen
	}
	if o.deed != take && o.deed != reserve {
		return m.end(now, o), nil
	}
	if o.cost > m.n {
		return answer{at: now}, nil
	}
	if o.cost > m.n-m.used(now, 0) {
		return answer{at: now, fits: m.fits(now, o.cost, m.n)}, nil
	}
	if o.deed == reserve {
		m.reserved[o.ref] = o.cost
	}
	m.add(now, o.cost, o.ref)
	m.seen = now
	return answer{admitted: true, at: now, fits: now}, nil
}

func (m *ideal) end(now core.Instant, o offer) answer {
	reserved, made := m.reserved[o.ref]
	if !made {
		return answer{skipped: true}
	}
	delete(m.reserved, o.ref)
	units, ok := m.finish(now, o, reserved)
	if units > 0 {
		m.seen = now
	}
	return answer{admitted: ok, at: now}
}
