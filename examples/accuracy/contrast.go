package main

import "github.com/slidegate/slidegate/core"

// The models of this file are how rate limits are often counted. They are here
// to be compared with, and are no part of slidegate.

// slotSize is the length of a slot, rounded up to the microsecond.
func slotSize(window core.Instant, slots int64) core.Instant {
	return (window + core.Instant(slots) - 1) / core.Instant(slots)
}

// slotModel counts in slots of a fixed length, at multiples of it.
type slotModel struct {
	n      int64
	size   core.Instant
	before int64 // slots before the current one that count
	weigh  bool  // the oldest counts in proportion to what the window covers of it
	counts map[int64]int64
}

// fixedWindow starts anew at each edge.
func fixedWindow(n int64, window core.Instant) subject {
	return &slotModel{n: n, size: window, counts: map[int64]int64{}}
}

// weightedCounter is the current window, and the one before in proportion to
// what the sliding window still covers of it.
func weightedCounter(n int64, window core.Instant) subject {
	return &slotModel{n: n, size: window, before: 1, weigh: true, counts: map[int64]int64{}}
}

// shortSlots counts the current slot and slots-1 before it.
func shortSlots(n int64, window core.Instant, slots int64) subject {
	return &slotModel{n: n, size: slotSize(window, slots), before: slots - 1, counts: map[int64]int64{}}
}

// weightedSlots counts the oldest slot in proportion.
func weightedSlots(n int64, window core.Instant, slots int64) subject {
	return &slotModel{n: n, size: slotSize(window, slots), before: slots, weigh: true, counts: map[int64]int64{}}
}

// roundedSlots counts as slidegate does, but with slots rounded down to the
// microsecond.
func roundedSlots(n int64, window core.Instant, slots int64) subject {
	return &slotModel{n: n, size: window / core.Instant(slots), before: slots, counts: map[int64]int64{}}
}

func (m *slotModel) answer(o offer) (answer, error) {
	slot, elapsed := int64(o.clock/m.size), int64(o.clock%m.size)
	size := int64(m.size)
	used := int64(0) // in units times size
	for s := slot - m.before; s <= slot; s++ {
		share := size
		if m.weigh && s == slot-m.before {
			share = size - elapsed
		}
		used += m.counts[s] * share
	}
	admitted := used+o.cost*size <= m.n*size
	if admitted {
		m.counts[slot] += o.cost
	}
	return answer{admitted: admitted, at: o.clock}, nil
}

// tokenBucket holds at most n tokens and gains n per window.
type tokenBucket struct {
	n      int64
	window core.Instant
	level  int64 // in tokens times window
	filled core.Instant
}

func newTokenBucket(n int64, window core.Instant) subject {
	return &tokenBucket{n: n, window: window, level: n * int64(window), filled: start}
}

func (b *tokenBucket) answer(o offer) (answer, error) {
	full := b.n * int64(b.window)
	b.level = min(full, b.level+b.n*int64(o.clock-b.filled))
	b.filled = o.clock
	need := o.cost * int64(b.window)
	if need > b.level {
		return answer{at: o.clock}, nil
	}
	b.level -= need
	return answer{admitted: true, at: o.clock}, nil
}
