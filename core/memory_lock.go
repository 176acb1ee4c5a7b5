package core

import (
	"encoding/binary"
	"hash/maphash"

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
		d0 := binary.LittleEndian.Uint64(p.Counter.digest[:])
		d1 := binary.LittleEndian.Uint64(p.Counter.digest[8:])
		at := &places[i]
		at.number = int(lo & uint64(len(m.shards)-1))
		at.shard = &m.shards[at.number]
		at.id = counterID{lo ^ d0, hi ^ d1}
		at.cell = counterID{d0, d1 ^ hi&(m.cells-1)}
	}
}

// hash returns 128 bits that nobody outside this process can foresee.
func (m *Memory) hash(k *keyfunc.Key) (lo, hi uint64) {
	var buf [keyfunc.MaxBinary]byte
	b, _ := k.AppendBinary(buf[:0])
	return maphash.Bytes(m.seeds[0], b), maphash.Bytes(m.seeds[1], b)
}

// lock takes the locks of all places, each once and in the order of the shards,
// so that no two calls wait for each other.
func (m *Memory) lock(places []place) {
	if len(places) == 1 {
		places[0].shard.mu.Lock()
		return
	}
	for n := nextShard(places, -1); n >= 0; n = nextShard(places, n) {
		m.shards[n].mu.Lock()
	}
}

func (m *Memory) unlock(places []place) {
	if len(places) == 1 {
		places[0].shard.mu.Unlock()
		return
	}
	for n := nextShard(places, -1); n >= 0; n = nextShard(places, n) {
		m.shards[n].mu.Unlock()
	}
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
