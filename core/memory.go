package core

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

// DefaultMaxKeys is how many keys a Memory holds when its configuration does
// not say: about 140 MB of keys with a few units each.
const DefaultMaxKeys = 1 << 20

// MemoryConfig configures a Memory. The zero value is ready to use.
type MemoryConfig struct {
	// MaxKeys is how many counters (limits times keys) are kept apart, 1 to
	// 1<<30; 0 stands for DefaultMaxKeys. When it is reached, a key that is not
	// known yet is counted together with others in one of a fixed number of
	// overflow cells, until it and they are idle again. Sharing a cell can only
	// refuse early; no key that has live units is ever forgotten.
	MaxKeys int
	// Clock replaces the process's monotonic clock, for tests. It is read under
	// the lock of the keys at hand, hence by several goroutines at once, and must
	// not call the store. With a Clock the store does nothing by itself: idle keys
	// go as new ones come and, while the store is more than half full, as calls come.
	Clock func() time.Time
}

// Memory is a Store in this process's memory: a log or a ring of slots per
// counter, in shards with a lock each. A decision locks only the shards of its
// keys, takes no memory once a key is known, and costs the same with one key as
// with a million. Time is the process's monotonic clock, read under the lock.
//
// The store does not keep the text of a key, only 96 bits of a hash that is keyed
// anew in each process; up to 14 more choose its shard.
//
// Keys go by themselves when their last unit has left: with each new key the
// store looks at a few old ones, and while it holds keys a timer looks at all
// of them about once a second, a few at a time. The timer ends when the store is
// empty, closed, or no longer used by anyone.
type Memory struct {
	clock func() time.Time
	base  time.Time
	epoch Instant

	seeds  [2]maphash.Seed
	shards []shard
	cells  uint64 // overflow cells per shard and counter, a power of two

	max     int64
	keys    atomic.Int64
	closed  atomic.Bool
	turn    atomic.Uint32 // with a clock of its own: the shard that is looked at next
	awake   atomic.Bool   // the janitor has a look planned
	janitor janitor
}

// NewMemory makes a Memory. Its error joins FieldErrors.
func NewMemory(cfg MemoryConfig) (*Memory, error) {
	if cfg.MaxKeys < 0 || int64(cfg.MaxKeys) > 1<<30 {
		return nil, &FieldError{
			Field: "MemoryConfig.MaxKeys", Value: strconv.Itoa(cfg.MaxKeys),
			Problem: "not a number of keys", Remedy: "use 1 to 1073741824, or 0 for 1048576",
		}
	}
	m := &Memory{
		clock: cfg.Clock,
		max:   int64(cfg.MaxKeys),
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
	if m.max == 0 {
		m.max = DefaultMaxKeys
	}
	if m.clock != nil {
		if now := m.clock(); now.UnixMicro() < 1 {
			return nil, &FieldError{
				Field: "MemoryConfig.Clock", Value: now.Format(time.RFC3339),
				Problem: "not after 1970, where instants begin", Remedy: "start it at time.Now()",
			}
		}
	} else {
		m.base = time.Now()
		m.epoch = InstantOf(m.base)
	}
	m.shards = make([]shard, shardCount(int(m.max)))
	m.cells = uint64(max(overflowCells/len(m.shards), minCells))
	return m, nil
}

const (
	// shardKeys keeps the longest work under one lock, rebuilding an almost empty
	// shard, below a millisecond.
	shardKeys = 16 << 10
	maxShards = 16 << 10
	// overflowCells is how many cells a counter has over all shards. A collision
	// of two busy keys refuses both early, so there are more cells than keys that
	// a flood leaves busy for long.
	overflowCells = 4096
	minCells      = 16
	fewKeys       = 128
)

// shardCount returns a power of two: enough for the processors, and for shards
// that stay small.
func shardCount(maxKeys int) int {
	want := min(max(8*runtime.GOMAXPROCS(0), maxKeys/shardKeys), maxShards)
	// A store of few keys looks for idle ones in all of its few shards.
	want = min(want, maxKeys/fewKeys)
	n := 1
	for n < want {
		n *= 2
	}
	return n
}

// now reads the clock. The caller holds the locks of the keys that it judges:
// read before, a call could be judged at an older instant than one judged
// before it.
func (m *Memory) now() Instant {
	if m.clock != nil {
		return max(InstantOf(m.clock()), 1)
	}
	return m.epoch + Instant(time.Since(m.base)/time.Microsecond)
}

// Do implements Store. It never waits for anything but locks that are held for
// microseconds, so it does not look at ctx.
func (m *Memory) Do(_ context.Context, c *Call) error {
	if m.quickly(c) {
		return nil
	}
	return m.slowly(c)
}

// slowly does what c asks for by way of places.
func (m *Memory) slowly(c *Call) error {
	// A place has 150 bytes, which take time to clear: no more of them than needed.
	switch n := len(c.Parts); {
	case n == 1:
		var places [1]place
		return m.do(c, places[:])
	case n == 2:
		var places [2]place
		return m.do(c, places[:])
	case n <= inlineParts:
		var places [inlineParts]place
		return m.do(c, places[:n])
	default:
		return m.do(c, make([]place, n))
	}
}

func (m *Memory) do(c *Call, places []place) error {
	m.locate(c, places)
	now, err := m.decide(c, places)
	if err == nil && m.clock != nil {
		m.tidy(now)
	}
	return err
}

// decide does what c asks for, under the locks of its keys.
func (m *Memory) decide(c *Call, places []place) (now Instant, err error) {
	m.lock(places)
	defer m.unlock(places)
	if m.closed.Load() {
		return 0, ErrClosed
	}
	if c.Op > OpReset {
		return 0, fmt.Errorf("slidegate: %v: %w", c.Op, errors.ErrUnsupported)
	}
	now = m.now()
	if m.clock != nil && c.isSimple() {
		// What quickly does for the process's clock.
		if lo, hi := m.hash(&c.Parts[0].Key); places[0].shard.quick(c, lo, hi, now) {
			return now, nil
		}
	}
	m.carryOut(c, places, now)
	return now, nil
}

// carryOut does what c asks for, whatever it is.
func (m *Memory) carryOut(c *Call, places []place, now Instant) {
	if !find(places, now) && m.keys.Load() >= m.max {
		m.makeRoom(places, now)
		find(places, now)
	}
	switch {
	case c.Op.ends():
		for i := range places {
			m.end(c, &c.Parts[i], &places[i])
			if places[i].made {
				again(places[i+1:])
			}
		}
	case c.Op == OpReset:
		for i := range places {
			m.reset(&c.Parts[i], &places[i])
			again(places[i+1:])
		}
	default:
		m.admit(c, places, now)
	}
}

// find looks up all places and reports whether each has an entry of its own.
func find(places []place, now Instant) (known bool) {
	known = true
	for i := range places {
		known = places[i].find(now) && known
	}
	return known
}

// again looks up the entries of places once more, after others came or went.
func again(places []place) {
	for i := range places {
		places[i].again()
	}
}

// admit decides all parts together, then takes the cost from all or from none.
func (m *Memory) admit(c *Call, places []place, now Instant) {
	admitted := true
	for i := range places {
		p := &c.Parts[i]
		p.Done = places[i].judge(p)
		admitted = admitted && (p.Done || p.Watched)
	}
	if !admitted || c.Op == OpPeek {
		return
	}
	m.ensureAll(c, places)
	for i := range places {
		p, at := &c.Parts[i], &places[i]
		switch {
		case !p.Done:
		case c.Op == OpReserve:
			at.reserve(p, c.ID)
		default:
			at.book(p, p.Cost)
		}
	}
	for i := range places {
		if places[i].made {
			m.forgetIdle(places[i].shard, sweepPerKey, now)
		}
	}
}

// ensureAll gives the places entries where the cost of c is to be counted.
func (m *Memory) ensureAll(c *Call, places []place) {
	made := false
	for i := range places {
		if c.Parts[i].Done && places[i].entry == nil {
			m.ensure(&places[i])
			made = true
		}
	}
	if made && len(places) > 1 {
		again(places)
	}
}

// makeRoom forgets idle keys of a full store that is asked for an unknown one.
func (m *Memory) makeRoom(places []place, now Instant) {
	for i := range places {
		m.forgetIdle(places[i].shard, sweepForRoom, now)
	}
}

// forgetIdle looks at a few slots of the shard. No place of the call at hand may
// need its entry after that.
func (m *Memory) forgetIdle(sh *shard, slots int, now Instant) {
	if keys := sh.sweep(slots, now); keys > 0 {
		m.keys.Add(int64(-keys))
	}
}

// end ends the reservation of c on one limit.
func (m *Memory) end(c *Call, p *Part, at *place) {
	p.Done = at.unreserve(p, c.ID)
	units := int64(0)
	switch {
	case c.Op == OpCommit && p.Done:
		units = p.Reserved
	case c.Op == OpCorrect && p.Done:
		units = p.Cost
	case c.Op == OpCorrect:
		// What was reserved has been counted for a window already. What exceeds it
		// never was.
		units = max(0, p.Cost-p.Reserved)
	}
	if units > 0 {
		m.ensure(at)
		at.book(p, units)
	}
	at.answer(p)
	p.FitsAt = p.At
}

// reset forgets the counter of p. A key that shares an overflow cell stays
// charged: forgetting the cell would free the units of others.
func (m *Memory) reset(p *Part, at *place) {
	p.Done = true
	if at.entry != nil {
		if at.shared {
			p.Done = false
		} else {
			at.shard.remove(at.entry)
			m.keys.Add(-1)
			at.entry = nil
		}
	}
	at.look()
	at.answer(p)
	p.FitsAt = p.At
}

// ensure gives the place an entry: the key's own, or the overflow cell of its
// hash when the store is full.
func (m *Memory) ensure(at *place) {
	if at.entry != nil {
		return
	}
	// Another part of the call may have made the entry just now.
	sh := at.shard
	if at.entry = sh.table.find(at.id); at.entry == nil {
		if m.claim() {
			at.entry = sh.insert(at.id, keyEntry)
		} else {
			at.entry, at.shared = sh.freeCell(at.cell, at.clock), true
		}
	}
	at.made = true
	m.janitor.wake(m)
}

// claim counts one more key unless the store is full.
func (m *Memory) claim() bool {
	for {
		n := m.keys.Load()
		if n >= m.max {
			return false
		}
		if m.keys.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// KeepsBudget implements Budgeted: a Memory never waits.
func (m *Memory) KeepsBudget() bool { return true }

// Len returns how many counters (limits times keys) the store holds, overflow
// cells apart.
func (m *Memory) Len() int { return int(m.keys.Load()) }

// Overflow returns how many overflow cells are in use: 0 unless MaxKeys was
// reached, by keys that are live or have been until lately.
func (m *Memory) Overflow() int {
	n := 0
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		n += sh.cells
		sh.mu.Unlock()
	}
	return n
}

// Close forgets everything and ends the store's timer. It may be called more
// than once and at any time.
func (m *Memory) Close() error {
	if m.closed.Swap(true) {
		return nil
	}
	m.janitor.stop()
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		sh.forget()
		sh.mu.Unlock()
	}
	m.keys.Store(0)
	return nil
}
