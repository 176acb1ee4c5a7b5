package core

import (
	"runtime"
	"sync"
	"time"
	"weak"
)

const (
	// sweepPerKey entries are looked at for each new key, so that old keys go at
	// least as fast as new ones come.
	sweepPerKey = 4
	// sweepPerLock entries are looked at under one lock: a few microseconds.
	sweepPerLock = 256
	// minPass is the least time from one look at all keys to the next. After a
	// look that took long, the pause is passShare times as long: half a percent
	// of one processor at most.
	minPass   = time.Second
	passShare = 200
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
		j.schedule(m, minPass)
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
	start := time.Now()
	left := 0
	for i := range m.shards {
		left += m.passShard(&m.shards[i])
	}
	if left > 0 || !m.sleep() {
		m.janitor.schedule(m, max(minPass, passShare*time.Since(start)))
	}
}

// sleep lets the timer end and reports whether it may: a key may have come
// between the look at its shard and this, and must not be left without a timer.
func (m *Memory) sleep() bool {
	m.awake.Store(false)
	return m.keys.Load() == 0 && m.Overflow() == 0 || !m.awake.CompareAndSwap(false, true)
}

// passShard forgets the idle entries of one shard and returns how many are left.
func (m *Memory) passShard(sh *shard) (left int) {
	for looked := uint32(0); ; looked += sweepPerLock {
		sh.mu.Lock()
		if looked >= sh.made {
			break
		}
		m.keys.Add(int64(-sh.sweep(sweepPerLock, m.now())))
		sh.mu.Unlock()
		// Requests first, should the processors be few.
		runtime.Gosched()
	}
	sh.shrink()
	left = sh.live
	sh.mu.Unlock()
	return left
}

// tidy does the janitor's work a little at a time, for a store whose clock tells
// no timer anything: it looks at sweepPerLock entries, shard after shard.
func (m *Memory) tidy(now Instant) {
	looked := 0
	for range m.shards {
		sh := &m.shards[int(m.turn.Add(1))%len(m.shards)]
		sh.mu.Lock()
		n := min(int(sh.made), sweepPerLock)
		m.keys.Add(int64(-sh.sweep(n, now)))
		sh.shrink()
		sh.mu.Unlock()
		if looked += n; looked >= sweepPerLock {
			return
		}
	}
}
