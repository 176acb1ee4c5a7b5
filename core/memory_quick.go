package core

// Most calls take or peek at limits of one key, each of which is known and counts
// in one log, while the clock runs as it should. They are decided here, in the steps
// that such a call needs; all others by way of places, which give the same answers.

// quickly does what c asks for if it is such a call, and reports whether it was.
// The process's clock cannot panic, so that no deferred call need free the lock.
func (m *Memory) quickly(c *Call) (done bool) {
	if m.clock != nil || !c.isSimple() {
		return false
	}
	lo, hi := m.hash(&c.Parts[0].Key)
	sh := &m.shards[lo&uint64(len(m.shards)-1)]
	sh.mu.Lock()
	if !m.closed.Load() {
		done = sh.quick(c, lo, hi, m.now())
	}
	sh.mu.Unlock()
	return done
}

// isSimple reports whether a call is one that may be decided quickly.
func (c *Call) isSimple() bool {
	if c.Op > OpPeek || len(c.Parts) == 0 || len(c.Parts) > inlineParts {
		return false
	}
	for i := 1; i < len(c.Parts); i++ {
		if c.Parts[i].Key != c.Parts[0].Key {
			return false
		}
	}
	return true
}

// glance is what quick has found of a counter.
type glance struct {
	entry *entry
	first uint32 // the first live record
	used  uint64
}

// quick decides a simple call on the key of that hash if each counter is simple too,
// and reports whether it was. What it has answered by then is answered anew by places.
func (sh *shard) quick(c *Call, lo, hi uint64, now Instant) bool {
	if len(c.Parts) == 1 {
		var g glance
		p := &c.Parts[0]
		if !sh.glance(&g, p, p.Counter.id(lo, hi), now) {
			return false
		}
		if p.Done && c.Op == OpTake {
			sh.take(&g, p, now)
		}
		return true
	}
	var found [inlineParts]glance
	admitted := c.Op == OpTake
	for i := range c.Parts {
		p, g := &c.Parts[i], &found[i]
		if !sh.glance(g, p, p.Counter.id(lo, hi), now) {
			return false
		}
		admitted = admitted && (p.Done || p.Watched)
	}
	if admitted {
		for i := range c.Parts {
			if p := &c.Parts[i]; p.Done {
				sh.take(&found[i], p, now)
			}
		}
	}
	return true
}

// glance answers p as things are, if its counter is simple, and reports whether it is.
func (sh *shard) glance(g *glance, p *Part, id counterID, now Instant) bool {
	e := sh.table.find(id)
	if e == nil || e.units.state != keyEntry || now < e.seen || p.Counter.Algorithm == Hybrid {
		return false
	}
	l, a := &e.units, &sh.records
	g.entry, g.used = e, l.last.total-l.base
	oldest := l.oldest
	if oldest <= now {
		g.first, g.used, oldest = a.live(l, now)
	}
	p.At, p.Used, p.OldestLeaves, p.FitsAt = now, int64(g.used), oldest, now
	p.Done = p.Cost <= p.N-p.Used
	if !p.Done {
		p.FitsAt = a.fits(l, g.first, p)
	}
	return true
}

// take counts the cost of p, which fits.
func (sh *shard) take(g *glance, p *Part, now Instant) {
	l, a := &g.entry.units, &sh.records
	if l.oldest <= now {
		a.drop(l, g.first)
	}
	units := min(uint64(p.Cost), maxUsed-g.used)
	a.add(l, l.release(p.Counter, now), units)
	g.entry.seen = now
	p.Used, p.OldestLeaves = int64(g.used+units), l.oldest
}

// live returns the first record of l that is live, the units from it on, and when
// it leaves.
func (a *arena) live(l *log, now Instant) (first uint32, used uint64, oldest Instant) {
	if l.newest() <= now {
		return l.n, 0, 0
	}
	first = a.after(l, 0, now)
	return first, l.last.total - a.before(l, first), a.at(l, first).release
}

// fits returns when the cost of p, for which l has no room now, will fit.
func (a *arena) fits(l *log, first uint32, p *Part) Instant {
	if p.Cost > p.N {
		return 0
	}
	need := uint64(p.Used - (p.N - p.Cost))
	if need == 1 {
		return p.OldestLeaves
	}
	return a.at(l, a.reached(l, first, need)).release
}

// release returns when units leave that are counted now in l, the only log of a
// counter: by Counter.Release, without its division where the slot is that of the
// newest record.
func (l *log) release(c *Counter, now Instant) Instant {
	if c.Algorithm == Exact {
		return now + Instant(c.Window)
	}
	if newest := l.newest(); now < newest-Instant(int64(c.Slots)*c.SlotSize) {
		return newest
	}
	return c.Release(now, false)
}
