package core

const (
	smallClass = 4                   // up to here, blocks grow to four times their size
	maxClass   = 10                  // of a single block
	maxBlock   = 1 << (maxClass - 1) // records in it: 512, 8 KiB
	longClass  = maxClass + 1        // a queue of largest blocks
	chunkSize  = maxBlock            // places in a chunk
	firstChunk = 32                  // records in the first chunk: a store of few keys stays small
	spareBlock = 4                   // largest blocks that are kept when free
)

// arena owns the records of many logs. It is guarded by its shard's lock.
//
// A chunk is cut into blocks of one class. A chunk that is one largest block is
// given back to Go when it is free, so that a long log shrinks for good. Chunks
// of smaller blocks stay until so few are used that the shard packs its records.
type arena struct {
	chunks [][]record // nil: vacant
	vacant []uint32   // numbers of vacant chunks
	// free[c] is 1 + the place of the first free block of class c, each free
	// block's first record naming the next; 0 ends the list.
	free   [maxClass + 1]uint32
	spares int // free blocks of the largest class
	held   int // records that the chunks hold
	used   int // records in blocks that are in use
	queues []queue
	unused []uint32 // free indexes of queues

	// late are records that are yet to be put where they belong. With many keys
	// that is seldom at hand, and memory takes several at a time as fast as one.
	late  [8]lateRecord
	lates int
}

// lateRecord is a record and the place where it belongs.
type lateRecord struct {
	record
	place uint32
}

// put has the record be at the place, sooner or later.
func (a *arena) put(r record, at uint32) {
	if a.lates == len(a.late) {
		a.settle()
	}
	a.late[a.lates] = lateRecord{r, at}
	a.lates++
}

// settle puts all records where they belong.
func (a *arena) settle() {
	for i := range a.late[:a.lates] {
		r := &a.late[i]
		*a.place(r.place) = r.record
	}
	a.lates = 0
}

// queue is the storage of a log beyond maxBlock records.
type queue struct{ blocks []uint32 }

// capacity returns how many records a block of the class holds.
func capacity(class uint8) uint32 {
	if class == 0 {
		return 0
	}
	return 1 << (class - 1)
}

func (a *arena) place(at uint32) *record {
	return &a.chunks[at/chunkSize][at%chunkSize]
}

// queue returns the index of a queue of blocks.
func (a *arena) queue(blocks []uint32) uint32 {
	if k := len(a.unused); k > 0 {
		i := a.unused[k-1]
		a.unused = a.unused[:k-1]
		a.queues[i].blocks = blocks
		return i
	}
	a.queues = append(a.queues, queue{blocks})
	return uint32(len(a.queues) - 1)
}

// alloc returns the place of a block of the class, cutting a new chunk into
// such blocks when none is free.
func (a *arena) alloc(class uint8) uint32 {
	a.settle()
	if a.free[class] == 0 {
		a.cut(class)
	}
	at := a.free[class] - 1
	a.free[class] = uint32(a.place(at).total)
	a.used += int(capacity(class))
	if class == maxClass {
		a.spares--
	}
	return at
}

// cut makes a chunk of free blocks of the class.
func (a *arena) cut(class uint8) {
	size := max(capacity(class), min(uint32(firstChunk)<<min(len(a.chunks), maxClass), chunkSize))
	n := uint32(len(a.chunks))
	if k := len(a.vacant); k > 0 {
		n = a.vacant[k-1]
		a.vacant = a.vacant[:k-1]
		a.chunks[n] = make([]record, size)
	} else {
		a.chunks = append(a.chunks, make([]record, size))
	}
	a.held += int(size)
	// From the back, so that they are handed out from the front.
	for b := size; b > 0; {
		b -= capacity(class)
		a.link(class, n*chunkSize+b)
	}
	if class == maxClass {
		a.spares++
	}
}

// link puts a block on the list of free ones.
func (a *arena) link(class uint8, at uint32) {
	a.place(at).total = uint64(a.free[class])
	a.free[class] = at + 1
}

// release takes a block back.
func (a *arena) release(class uint8, at uint32) {
	a.settle()
	a.used -= int(capacity(class))
	if class < maxClass {
		a.link(class, at)
		return
	}
	if a.spares < spareBlock {
		a.spares++
		a.link(class, at)
		return
	}
	n := at / chunkSize
	a.chunks[n] = nil
	a.vacant = append(a.vacant, n)
	a.held -= chunkSize
}

// sparse reports whether the arena holds far more room than it needs.
func (a *arena) sparse() bool { return a.held >= 2*chunkSize && a.used <= a.held/8 }

func (a *arena) copyBlock(from *arena, class uint8, at uint32) uint32 {
	to := a.alloc(class)
	copy(a.chunks[to/chunkSize][to%chunkSize:][:capacity(class)], from.chunks[at/chunkSize][at%chunkSize:])
	return to
}
