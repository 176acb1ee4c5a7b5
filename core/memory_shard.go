package core

import "sync"

// counterID names a counter in a Memory: a keyed hash of the key, combined with
// the digest of the counter's identity.
type counterID struct {
	hash uint64
	tag  uint32
}

// shard is a part of a Memory's keys under one lock. Entries and records lie in
// blocks without pointers; places of records are numbers.
type shard struct {
	mu      sync.Mutex
	table   table
	records arena
	extras  []*extra
	spare   []uint32 // free places in extras
	live    int      // entries in use
	cells   int      // of which overflow cells
	cursor  cursor   // where sweeping goes on

	_ [56]byte // makes whole cache lines: two shards share none
}

// cursor is a slot of a table.
type cursor struct{ page, slot int }

// entryState says what an entry is, and whether it has an extra.
type entryState uint8

const (
	freeEntry entryState = iota
	keyEntry
	cellEntry            // an overflow cell
	withExtra entryState = 4
)

// entry is what a counter always needs, in one cache line; what few counters
// need is in an extra.
type entry struct {
	hash uint64
	// seen is the latest instant of the key's own time at which units were counted.
	// With an extra, it is the extra's number; the instant is there.
	seen  Instant
	units log // counted exactly, or by slot
}

func (e *entry) id() counterID  { return counterID{e.hash, e.units.tag} }
func (e *entry) isCell() bool   { return e.units.state&^withExtra == cellEntry }
func (e *entry) isFree() bool   { return e.units.state == freeEntry }
func (e *entry) hasExtra() bool { return e.units.state&withExtra != 0 }

// extra holds the rest of a counter.
type extra struct {
	seen   Instant // as in entry
	leaves Instant // when the last unit leaves
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

// extra returns the rest of e, nil if it has none.
func (sh *shard) extra(e *entry) *extra {
	if !e.hasExtra() {
		return nil
	}
	return sh.extras[e.seen]
}

// needExtra returns the rest of e, making it if necessary.
func (sh *shard) needExtra(e *entry) *extra {
	if e.hasExtra() {
		return sh.extras[e.seen]
	}
	i := len(sh.extras)
	if n := len(sh.spare); n > 0 {
		i = int(sh.spare[n-1])
		sh.spare = sh.spare[:n-1]
	} else {
		sh.extras = append(sh.extras, new(extra))
	}
	x := sh.extras[i]
	x.seen, x.leaves = e.seen, e.units.newest()
	e.seen = Instant(i)
	e.units.state |= withExtra
	return x
}

// insert makes an empty entry.
func (sh *shard) insert(id counterID, state entryState) *entry {
	sh.live++
	if state == cellEntry {
		sh.cells++
	}
	return sh.table.insert(id, state)
}

// remove forgets an entry.
func (sh *shard) remove(e *entry) {
	sh.live--
	if e.isCell() {
		sh.cells--
	}
	sh.empty(e)
	sh.table.remove(e)
}

// empty makes e as it was when it was inserted.
func (sh *shard) empty(e *entry) {
	sh.records.clear(&e.units)
	if x := sh.extra(e); x != nil {
		sh.records.clear(&x.exact)
		sh.records.clear(&x.pending)
		*x = extra{}
		sh.spare = append(sh.spare, uint32(e.seen))
		e.units.state &^= withExtra
	}
	e.seen = 0
}

// idle reports whether no unit of e is live at clock.
func (sh *shard) idle(e *entry, clock Instant) bool {
	if x := sh.extra(e); x != nil {
		return x.leaves <= clock+x.offset
	}
	return e.units.newest() <= clock
}

// sweep looks at the next n slots and forgets the entries that are idle. It
// returns how many keys it forgot; overflow cells are not counted.
func (sh *shard) sweep(n int, clock Instant) (keys int) {
	pages, at := sh.table.pages, &sh.cursor
	for n > 0 && len(pages) > 0 {
		if at.page >= len(pages) {
			*at = cursor{}
		}
		if at.slot >= len(pages[at.page].slots) {
			*at = cursor{page: at.page + 1}
			continue
		}
		e := &pages[at.page].slots[at.slot]
		if e.isFree() || !sh.idle(e, clock) {
			at.slot++
			n--
			continue
		}
		if !e.isCell() {
			keys++
		}
		sh.remove(e) // another may have moved here: look again
	}
	return keys
}

// forget drops everything.
func (sh *shard) forget() {
	sh.table, sh.records, sh.extras, sh.spare = table{}, arena{}, nil, nil
	sh.live, sh.cells, sh.cursor = 0, 0, cursor{}
}

// shrink gives back room that the shard does not need any more: parts of it are
// never freed one by one.
func (sh *shard) shrink() {
	if sh.live == 0 {
		sh.forget()
		return
	}
	if sh.table.slots >= 4*fullPage && sh.live <= sh.table.slots/8 {
		sh.packEntries()
	}
	if sh.records.sparse() {
		sh.packRecords()
	}
}

// packEntries moves the entries to as few pages as hold them.
func (sh *shard) packEntries() {
	old, extras := sh.table, sh.extras
	sh.table, sh.extras, sh.spare, sh.cursor = table{}, nil, nil, cursor{}
	for e := range old.entries {
		to := sh.table.insert(e.id(), e.units.state)
		*to = *e
		if e.hasExtra() {
			to.seen = Instant(len(sh.extras))
			sh.extras = append(sh.extras, extras[e.seen])
		}
	}
}

// packRecords moves the records to as few chunks as hold them.
func (sh *shard) packRecords() {
	old := sh.records
	sh.records = arena{}
	for e := range sh.table.entries {
		e.units = sh.records.copied(&old, &e.units)
		if x := sh.extra(e); x != nil {
			x.exact = sh.records.copied(&old, &x.exact)
			x.pending = sh.records.copied(&old, &x.pending)
		}
	}
}

// freeCell returns an overflow cell without units: the cell of that id has none
// that is live.
func (sh *shard) freeCell(id counterID, clock Instant) *entry {
	e := sh.table.find(id)
	if e == nil {
		return sh.insert(id, cellEntry)
	}
	if sh.idle(e, clock) {
		sh.empty(e)
	}
	return e
}
