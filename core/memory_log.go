package core

// A log holds the live units of one counter in the order in which they leave:
// release instants that never fall, each with the running total of all units up
// to it. Units that leave together share a record, so that the same structure
// is the exact log (one record per instant) and the ring of slots (one record
// per slot). What is in use is a difference of two totals, what leaves when is
// a binary search: no operation walks records, however many have died.
//
// Totals are unsigned and wrap: differences stay exact, since no more than
// maxUsed units are ever live.
//
// The newest record lies in the log itself, and so does the instant at which the
// first one leaves: most questions need no other record. The others lie in the
// blocks of an arena, which holds no pointers, so that the garbage collector need
// not look at a million keys. A log has one block of a power of two records, used
// as a ring; beyond the largest block, it has a queue of largest blocks, so that a
// log of a million records grows and shrinks by a block at a time and never moves.
type log struct {
	base   uint64  // running total before the first record
	oldest Instant // when the first record leaves; 0 if there is none
	last   record  // the newest record
	block  uint32  // place of the block in the arena, or index of the queue
	n      uint32  // records, the newest included
	head   uint16  // where the first record is in the ring
	class  uint8   // the block holds 1<<(class-1) records; 0: there is none

	// These are of the entry whose log this is, and fill a cache line with it.
	state entryState
	tag   uint32
}

// record is a release instant and the running total up to it.
type record struct {
	release Instant
	total   uint64
}

// at returns record i of l, i < l.n.
func (a *arena) at(l *log, i uint32) *record {
	if i+1 == l.n {
		return &l.last
	}
	return a.ring(l, i)
}

// ring returns record i of l, which is not the newest.
func (a *arena) ring(l *log, i uint32) *record {
	if a.lates > 0 {
		a.settle()
	}
	return a.place(a.where(l, i))
}

// where returns the place of record i of l, when it is not the newest.
func (a *arena) where(l *log, i uint32) uint32 {
	p := uint32(l.head) + i
	if l.class == longClass {
		return a.queues[l.block].blocks[p/maxBlock] + p%maxBlock
	}
	return l.block + p&(capacity(l.class)-1)
}

// before returns the running total before record i.
func (a *arena) before(l *log, i uint32) uint64 {
	if i == 0 {
		return l.base
	}
	return a.at(l, i-1).total
}

// newest returns the release instant of the last record, 0 if there is none.
func (l *log) newest() Instant { return l.last.release }

// after returns the first record, from record lo on, that is released after t.
// It is the faster the nearer that is.
func (a *arena) after(l *log, lo uint32, t Instant) uint32 {
	if lo >= l.n || a.at(l, lo).release > t {
		return lo
	}
	hi := l.n
	for step := uint32(1); step < hi-lo; step *= 2 {
		if a.at(l, lo+step).release > t {
			hi = lo + step
			break
		}
		lo += step
	}
	for lo++; lo < hi; {
		mid := lo + (hi-lo)/2
		if a.at(l, mid).release > t {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// units returns the weight of all records from record i on.
func (a *arena) units(l *log, i uint32) uint64 {
	if i >= l.n {
		return 0
	}
	return l.last.total - a.before(l, i)
}

// add appends units that leave at release, which is no earlier than the newest.
func (a *arena) add(l *log, release Instant, units uint64) {
	switch {
	case l.n == 0:
		l.oldest, l.last = release, record{release, l.base + units}
	case l.last.release == release:
		l.last.total += units
		return
	default:
		a.grow(l)
		a.put(l.last, a.where(l, l.n-1))
		l.last = record{release, l.last.total + units}
	}
	l.n++
}

// reached returns the first record, from record lo on, by whose release at least
// units have left, counted from record lo. No more than are there are asked for.
func (a *arena) reached(l *log, lo uint32, units uint64) uint32 {
	before := a.before(l, lo)
	if a.at(l, lo).total-before >= units {
		return lo
	}
	hi := l.n - 1
	for lo++; lo < hi; {
		mid := lo + (hi-lo)/2
		if a.at(l, mid).total-before >= units {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// drop forgets the first i records.
func (a *arena) drop(l *log, i uint32) {
	if i > 0 {
		l.base = a.before(l, i)
		a.advance(l, i)
	}
}

// advance moves the head past i records and gives back storage that is far too
// large. The running total before the new head is up to the caller.
func (a *arena) advance(l *log, i uint32) {
	l.n -= i
	if l.n == 0 {
		a.clear(l)
		return
	}
	head := uint32(l.head) + i
	if l.class == longClass {
		q := &a.queues[l.block]
		gone := head / maxBlock
		for _, b := range q.blocks[:gone] {
			a.release(maxClass, b)
		}
		q.blocks = q.blocks[gone:]
		head %= maxBlock
	} else {
		head &= capacity(l.class) - 1
	}
	l.head = uint16(head)
	a.shrink(l)
	l.oldest = a.at(l, 0).release
}

// shrink gives back blocks that l does not reach, and moves it to a smaller one
// when it fills a quarter or less.
func (a *arena) shrink(l *log) {
	held := l.n - 1
	if held == 0 {
		a.freeStorage(l)
		l.block, l.head, l.class = 0, 0, 0
		return
	}
	if l.class == longClass {
		q := &a.queues[l.block]
		// One block ahead stays: who takes a unit off may add one next.
		for n := uint32(len(q.blocks)); n > (uint32(l.head)+held)/maxBlock+1; n-- {
			a.release(maxClass, q.blocks[n-1])
			q.blocks = q.blocks[:n-1]
		}
	}
	class := min(l.class, maxClass)
	for class > 1 && held <= capacity(class)/4 {
		class--
	}
	if class < min(l.class, maxClass) {
		a.move(l, class)
	}
}

// remove takes units off record i and, if nothing is left in it, the record.
// Only differences of totals count, so that it can change those before the
// record or those from it on: it costs a step per record on the shorter side.
func (a *arena) remove(l *log, i uint32, units uint64) {
	front := i < l.n/2
	if front {
		l.base += units
		for k := range i {
			a.at(l, k).total += units
		}
	} else {
		for k := i; k < l.n; k++ {
			a.at(l, k).total -= units
		}
	}
	switch {
	case a.at(l, i).total != a.before(l, i):
	case front:
		for k := i; k > 0; k-- {
			*a.at(l, k) = *a.at(l, k-1)
		}
		a.advance(l, 1)
	default:
		for k := i; k+1 < l.n; k++ {
			*a.at(l, k) = *a.at(l, k+1)
		}
		a.retract(l)
	}
}

// retract takes the newest record off.
func (a *arena) retract(l *log) {
	if l.n == 1 {
		a.clear(l)
		return
	}
	l.last = *a.ring(l, l.n-2)
	l.n--
	a.shrink(l)
	l.oldest = a.at(l, 0).release
}

// grow makes room for one more record.
func (a *arena) grow(l *log) {
	switch {
	case l.class == longClass:
		q := &a.queues[l.block]
		if uint32(l.head)+l.n-1 == uint32(len(q.blocks))*maxBlock {
			q.blocks = append(q.blocks, a.alloc(maxClass))
		}
	case l.n <= capacity(l.class):
	case l.class == maxClass:
		a.lengthen(l)
	case l.class < smallClass:
		// Small logs grow most of all, and each move touches two more blocks.
		a.move(l, l.class+2)
	default:
		a.move(l, l.class+1)
	}
}

// move copies what l holds in the arena into a block of another class.
func (a *arena) move(l *log, class uint8) {
	moved := *l
	moved.block, moved.head, moved.class = a.alloc(class), 0, class
	for i := range l.n - 1 {
		*a.ring(&moved, i) = *a.ring(l, i)
	}
	a.freeStorage(l)
	*l = moved
}

// lengthen turns a full block into a queue of two. The ring is unrolled, so
// that positions count on from the first record.
func (a *arena) lengthen(l *log) {
	a.move(l, maxClass)
	blocks := []uint32{l.block, a.alloc(maxClass)}
	l.block = a.queue(blocks)
	l.class = longClass
}

// clear empties l. The running total starts anew.
func (a *arena) clear(l *log) {
	a.freeStorage(l)
	*l = log{tag: l.tag, state: l.state}
}

func (a *arena) freeStorage(l *log) {
	switch {
	case l.class == 0:
	case l.class == longClass:
		for _, b := range a.queues[l.block].blocks {
			a.release(maxClass, b)
		}
		a.queues[l.block] = queue{}
		a.unused = append(a.unused, l.block)
	default:
		a.release(l.class, l.block)
	}
}

// copied returns a copy of l, which lies in from, that lies in a.
func (a *arena) copied(from *arena, l *log) log {
	from.settle()
	c := *l
	switch {
	case l.class == 0:
	case l.class == longClass:
		blocks := make([]uint32, len(from.queues[l.block].blocks))
		for i, b := range from.queues[l.block].blocks {
			blocks[i] = a.copyBlock(from, maxClass, b)
		}
		c.block = a.queue(blocks)
	default:
		c.block = a.copyBlock(from, l.class, l.block)
	}
	return c
}
