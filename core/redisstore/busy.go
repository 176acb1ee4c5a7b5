package redisstore

import (
	"sync"
	"time"
)

// busy counts those who carry calls, so that Close can wait for them.
type busy struct {
	mu     sync.Mutex
	number int
	none   chan struct{} // closed when the last one ends; nil if nobody waits
}

// Go has a goroutine of its own run f.
func (b *busy) Go(f func()) {
	b.begin()
	go func() {
		defer b.end()
		f()
	}()
}

func (b *busy) begin() {
	b.mu.Lock()
	b.number++
	b.mu.Unlock()
}

func (b *busy) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.number--; b.number == 0 && b.none != nil {
		close(b.none)
		b.none = nil
	}
}

// wait waits until nobody is left, but not longer than d: clients do not always
// heed a deadline.
func (b *busy) wait(d time.Duration) {
	b.mu.Lock()
	if b.number == 0 {
		b.mu.Unlock()
		return
	}
	if b.none == nil {
		b.none = make(chan struct{})
	}
	none := b.none
	b.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-none:
	case <-timer.C:
	}
}
