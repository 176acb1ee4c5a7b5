package core

import (
	"runtime"
	"sync"
	"time"
	"weak"
)

const (
	// sweepPerKey slots are looked at for each new key: two entries or more, so that
	// old keys go at least as fast as new ones come. A full store looks at
	// sweepForRoom: a few in a row can be empty.
	sweepPerKey  = 4
	sweepForRoom = 16
	// sweepPerLock slots are looked at under one lock: a few microseconds.
	sweepPerLock = 256
	// minPause is the least time from one look at all keys to the next. Looking at
	// a slot takes about 6 ns and is followed by lookPause of rest: half a percent
	// of one processor, and two seconds for a million keys.
	minPause  = time.Second
	lookPause = 1250 * time.Nanosecond
)

// janitor looks through a Memory's keys from time to time. It holds the store
// weakly: one that nobody uses any more goes with all its keys.
type janitor struct {
	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// wake makes sure that the timer runs while there are keys.
func (j *janitor) wake(m *Memory) {
	if m.clock == nil && !m.awake.Load() && m.awake.CompareAndSwap(false, true) {
		j.schedule(m, minPause)
	}
}

func (j *janitor) schedule(m *Memory, pause time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stopped {
		return
	}
	ref := weak.Make(m)
	j.timer = time.AfterFunc(pause, func() {
		if m := ref.Value(); m != nil {
			m.pass()
		}
	})
}

func (j *janitor) stop() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stopped = true
	if j.timer != nil {
		j.timer.Stop()
	}
}

// pass looks at all keys once, and plans the next look if any are left.
func (m *Memory) pass() {
	looked, left := 0, 0
	for i := range m.shards {
		n, l := m.passShard(&m.shards[i])
		looked, left = looked+n, left+l
	}
	if left > 0 || !m.sleep() {
		m.janitor.schedule(m, pauseAfter(looked))
	}
}

// pauseAfter returns how long to rest after a look at so many slots. The time
// that the look took is no measure: forgetting keys takes most of it, is done
// once, and is the sooner over the sooner the next look comes.
func pauseAfter(looked int) time.Duration {
	return max(minPause, time.Duration(looked)*lookPause)
}

// sleep lets the timer end and reports whether it may: a key may have come
// between the look at its shard and this, and must not be left without a timer.
func (m *Memory) sleep() bool {
	m.awake.Store(false)
	return m.keys.Load() == 0 && m.Overflow() == 0 || !m.awake.CompareAndSwap(false, true)
}

// passShard forgets the idle entries of one shard. It returns how many slots it
// has looked at, and how many entries are left.
func (m *Memory) passShard(sh *shard) (looked, left int) {
	for {
		sh.mu.Lock()
		if looked >= sh.table.slots {
			break
		}
		m.keys.Add(int64(-sh.sweep(sweepPerLock, m.now())))
		sh.mu.Unlock()
		looked += sweepPerLock
		// Requests first, should the processors be few.
		runtime.Gosched()
	}
	sh.shrink()
	left = sh.live
	sh.mu.Unlock()
	return looked, left
}

// tidy does the janitor's work a little at a time, for a store whose clock tells
// no timer anything: it looks at sweepPerLock slots, shard after shard. It does
// so only in a store that is more than half full. A clock of the caller's own can
// jump ahead and back again, and what is idle in between may be live after it.
func (m *Memory) tidy(now Instant) {
	if m.keys.Load() <= m.max/2 {
		return
	}
	looked := 0
	for range m.shards {
		sh := &m.shards[int(m.turn.Add(1))%len(m.shards)]
		sh.mu.Lock()
		n := min(sh.table.slots, sweepPerLock)
		m.keys.Add(int64(-sh.sweep(n, now)))
		sh.shrink()
		sh.mu.Unlock()
		if looked += n; looked >= sweepPerLock {
			return
		}
	}
}
