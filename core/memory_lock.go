package core

import (
	"encoding/binary"

	"github.com/slidegate/slidegate/keyfunc"
)

// locate finds out where the counters of c live. Limits of one key share a
// shard, and so one lock.
func (m *Memory) locate(c *Call, places []place) {
	var lo, hi uint64
	for i := range places {
		p := &c.Parts[i]
		if i == 0 || p.Key != c.Parts[i-1].Key {
			lo, hi = m.hash(&p.Key)
		}
		at := &places[i]
		at.number = int(lo & uint64(len(m.shards)-1))
		at.shard = &m.shards[at.number]
		at.id = p.Counter.id(lo, hi)
		at.cell = p.Counter.id(cellOf(hi & (m.cells - 1)))
	}
}

// hash returns 128 bits that nobody outside this process can foresee.
func (m *Memory) hash(k *keyfunc.Key) (lo, hi uint64) {
	return k.Hash(m.seeds[0]), k.Hash(m.seeds[1])
}

// id returns the id of the counter of a key, by the key's hash. The low half of lo
// is not in it: that chooses the shard.
func (c *Counter) id(lo, hi uint64) counterID {
	d0 := binary.LittleEndian.Uint64(c.digest[:])
	d1 := binary.LittleEndian.Uint64(c.digest[8:])
	return counterID{hash: hi ^ d1, tag: uint32((lo ^ d0) >> 32)}
}

// cellOf stands in for the hash of overflow cell n, and spreads the cells of a
// counter over the table: n alone would change a few low bits (Fibonacci hashing:
// Knuth, The Art of Computer Programming 3, §6.4).
func cellOf(n uint64) (lo, hi uint64) {
	lo = n * 0x9E37_79B9_7F4A_7C15
	return lo, lo>>32 | lo<<32
}

// lock takes the locks of all places, each once and in the order of the shards,
// so that no two calls wait for each other.
func (m *Memory) lock(places []place) {
	if oneShard(places) {
		places[0].shard.mu.Lock()
		return
	}
	for n := nextShard(places, -1); n >= 0; n = nextShard(places, n) {
		m.shards[n].mu.Lock()
	}
}

func (m *Memory) unlock(places []place) {
	if oneShard(places) {
		places[0].shard.mu.Unlock()
		return
	}
	for n := nextShard(places, -1); n >= 0; n = nextShard(places, n) {
		m.shards[n].mu.Unlock()
	}
}

// oneShard reports whether the places share a shard, as the limits of one key do.
func oneShard(places []place) bool {
	for i := range places {
		if places[i].number != places[0].number {
			return false
		}
	}
	return len(places) > 0
}

// nextShard returns the smallest shard number above n, -1 if there is none.
func nextShard(places []place, n int) int {
	next := -1
	for i := range places {
		if k := places[i].number; k > n && (next < 0 || k < next) {
			next = k
		}
	}
	return next
}
