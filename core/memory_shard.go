package core

import "sync"

// counterID names a counter in a Memory: a keyed hash of the key, combined with
// the digest of the counter's identity.
type counterID [2]uint64

// shard is a part of a Memory's keys under one lock. Entries and records lie in
// blocks without pointers; places in them are numbers.
type shard struct {
	mu      sync.Mutex
	index   index
	blocks  []*[entryBlock]entry
	made    uint32 // entries that exist in blocks
	free    uint32 // 1 + the first free entry; 0: none
	cursor  uint32 // where sweeping goes on
	live    int    // entries in use
	cells   int    // of which overflow cells
	records arena
	extras  []*extra
	spare   []uint32 // free places in extras

	_ [64]byte // keeps the lock of the next shard out of this one's cache line
}

// entryBlock entries fill a page of 4 KiB.
const entryBlock = 64

type entryState uint8

const (
	freeEntry entryState = iota
	keyEntry
	cellEntry // an overflow cell
)

// entry is what a counter always needs, in one cache line; what few counters
// need is in an extra.
type entry struct {
	id     counterID
	seen   Instant // latest instant of the key's own time at which units were counted
	leaves Instant // when the last unit leaves
	units  log     // counted exactly, or by slot
	extra  uint32  // 1 + place in shard.extras; 0: none. In a free entry, the next free one
	state  entryState
}

// extra holds the rest of a counter.
type extra struct {
	// offset is what to add to the clock to get the key's own time. It grows when
	// the clock is set back.
	offset Instant
	// exact holds the units that a hybrid counter counts exactly.
	exact log
	// pending holds the units of reservations, open those reservations in the
	// order in which they lapse.
	pending log
	open    []openReservation
}

type openReservation struct {
	id     ReservationID
	lapses Instant
	units  int64
}

func (sh *shard) at(i uint32) *entry { return &sh.blocks[i/entryBlock][i%entryBlock] }

// slot returns where the index has id.
func (sh *shard) slot(id counterID) (i uint32, ok bool) {
	slots := sh.index.slots
	if len(slots) == 0 {
		return 0, false
	}
	mask := uint32(len(slots) - 1)
	tag := tagOf(id)
	for i = tag & mask; slots[i] != 0; i = (i + 1) & mask {
		if slots[i].tag() == tag && sh.at(slots[i].entry()).id == id {
			return i, true
		}
	}
	return 0, false
}

// entry returns the entry of id, nil if there is none.
func (sh *shard) entry(id counterID) *entry {
	if i, ok := sh.slot(id); ok {
		return sh.at(sh.index.slots[i].entry())
	}
	return nil
}

// extra returns the rest of e, nil if it has none.
func (sh *shard) extra(e *entry) *extra {
	if e.extra == 0 {
		return nil
	}
	return sh.extras[e.extra-1]
}

// needExtra returns the rest of e, making it if necessary.
func (sh *shard) needExtra(e *entry) *extra {
	if e.extra == 0 {
		if n := len(sh.spare); n > 0 {
			e.extra = sh.spare[n-1] + 1
			sh.spare = sh.spare[:n-1]
		} else {
			sh.extras = append(sh.extras, new(extra))
			e.extra = uint32(len(sh.extras))
		}
	}
	return sh.extras[e.extra-1]
}

// insert makes an empty entry.
func (sh *shard) insert(id counterID, state entryState) *entry {
	i := sh.made
	if sh.free != 0 {
		i = sh.free - 1
		sh.free = sh.at(i).extra
	} else {
		if i%entryBlock == 0 {
			sh.blocks = append(sh.blocks, new([entryBlock]entry))
		}
		sh.made++
	}
	sh.index.insert(tagOf(id), i)
	sh.live++
	if state == cellEntry {
		sh.cells++
	}
	e := sh.at(i)
	*e = entry{id: id, state: state}
	return e
}

// remove forgets an entry.
func (sh *shard) remove(e *entry) {
	slot, _ := sh.slot(e.id)
	i := sh.index.slots[slot].entry()
	sh.index.remove(slot)
	sh.live--
	if e.state == cellEntry {
		sh.cells--
	}
	sh.records.clear(&e.units)
	if x := sh.extra(e); x != nil {
		sh.records.clear(&x.exact)
		sh.records.clear(&x.pending)
		*x = extra{}
		sh.spare = append(sh.spare, e.extra-1)
	}
	*e = entry{extra: sh.free}
	sh.free = i + 1
}

// idle reports whether no unit of e is live at clock.
func (sh *shard) idle(e *entry, clock Instant) bool {
	if x := sh.extra(e); x != nil {
		clock += x.offset
	}
	return e.leaves <= clock
}

// sweep looks at the next n entries and forgets those that are idle. It returns
// how many keys it forgot; overflow cells are not counted.
func (sh *shard) sweep(n int, clock Instant) (keys int) {
	for ; n > 0 && sh.made > 0; n-- {
		if sh.cursor >= sh.made {
			sh.cursor = 0
		}
		e := sh.at(sh.cursor)
		sh.cursor++
		if e.state == freeEntry || !sh.idle(e, clock) {
			continue
		}
		if e.state == keyEntry {
			keys++
		}
		sh.remove(e)
	}
	return keys
}

// forget drops everything.
func (sh *shard) forget() {
	sh.index, sh.blocks, sh.records, sh.extras, sh.spare = index{}, nil, arena{}, nil, nil
	sh.made, sh.free, sh.cursor, sh.live, sh.cells = 0, 0, 0, 0, 0
}

// shrink gives back room that the shard does not need any more: parts of it are
// never freed one by one.
func (sh *shard) shrink() {
	if sh.live == 0 {
		sh.forget()
		return
	}
	if sh.made >= 4*entryBlock && sh.live <= int(sh.made/8) {
		sh.packEntries()
	}
	if sh.records.sparse() {
		sh.packRecords()
	}
}

// packEntries moves the entries to as few blocks as hold them.
func (sh *shard) packEntries() {
	blocks, made, extras := sh.blocks, sh.made, sh.extras
	sh.index, sh.blocks, sh.extras, sh.spare = index{}, nil, nil, nil
	sh.made, sh.free, sh.cursor, sh.live, sh.cells = 0, 0, 0, 0, 0
	for i := range made {
		from := &blocks[i/entryBlock][i%entryBlock]
		if from.state == freeEntry {
			continue
		}
		to := sh.insert(from.id, from.state)
		to.seen, to.leaves, to.units = from.seen, from.leaves, from.units
		if from.extra != 0 {
			sh.extras = append(sh.extras, extras[from.extra-1])
			to.extra = uint32(len(sh.extras))
		}
	}
}

// packRecords moves the records to as few chunks as hold them.
func (sh *shard) packRecords() {
	old := sh.records
	sh.records = arena{}
	for i := range sh.made {
		e := sh.at(i)
		if e.state == freeEntry {
			continue
		}
		e.units = sh.records.copied(&old, &e.units)
		if x := sh.extra(e); x != nil {
			x.exact = sh.records.copied(&old, &x.exact)
			x.pending = sh.records.copied(&old, &x.pending)
		}
	}
}
