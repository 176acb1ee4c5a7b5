package core

// index finds the entries of a shard by their ids: a hash table with linear
// probing that holds no pointers and no ids, 8 bytes to a slot. A Go map of the
// same entries takes three times the memory and a lookup twice the time.
type index struct {
	slots []indexSlot // a power of two of them, at most three quarters in use
	used  uint32
}

// indexSlot is a tag, made from the id, and 1 + the number of the entry; 0 is
// an empty slot. The tag says where the slot belongs and tells nearly all other
// ids apart, so that entries are looked at only to make sure.
type indexSlot uint64

const minSlots = 8

// tagOf spreads ids that differ in few bits, as those of overflow cells do
// (Fibonacci hashing: Knuth, The Art of Computer Programming 3, §6.4).
func tagOf(id counterID) uint32 {
	return uint32((id[0] ^ id[1]) * 0x9E37_79B9_7F4A_7C15 >> 32)
}

func newSlot(tag, entry uint32) indexSlot { return indexSlot(tag)<<32 | indexSlot(entry+1) }

func (s indexSlot) tag() uint32   { return uint32(s >> 32) }
func (s indexSlot) entry() uint32 { return uint32(s) - 1 }

// insert adds an entry that is not in the index.
func (x *index) insert(tag, entry uint32) {
	if int(x.used+1) > len(x.slots)/4*3 {
		old := x.slots
		x.slots = make([]indexSlot, max(minSlots, 2*len(old)))
		for _, s := range old {
			if s != 0 {
				x.put(s)
			}
		}
	}
	x.put(newSlot(tag, entry))
	x.used++
}

func (x *index) put(s indexSlot) {
	mask := uint32(len(x.slots) - 1)
	i := s.tag() & mask
	for x.slots[i] != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = s
}

// remove empties a slot, and closes the gap: slots behind it move up as long as
// that brings none before where it belongs.
func (x *index) remove(gap uint32) {
	mask := uint32(len(x.slots) - 1)
	for i := (gap + 1) & mask; x.slots[i] != 0; i = (i + 1) & mask {
		if home := x.slots[i].tag() & mask; (i-home)&mask >= (i-gap)&mask {
			x.slots[gap], gap = x.slots[i], i
		}
	}
	x.slots[gap] = 0
	x.used--
}
