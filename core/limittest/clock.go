package limittest

import (
	"sync"
	"time"
)

// Clock is a clock that stands still until it is turned, safe for concurrent use.
// Make one with NewClock.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that reads midnight UTC of 2000-01-01, where the time
// of a testing/synctest bubble begins too. It is a whole second, and the
// beginning of a slot for all slots that divide a day.
func NewClock() *Clock {
	return &Clock{now: time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)}
}

// Now reads the clock. Pass it as core.MemoryConfig.Clock where NewStore does not
// do.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance turns the clock forward by d. Limiters see whole microseconds of it. As
// with time.Sleep, nothing happens if d is 0 or negative: the clock never runs
// backwards.
func (c *Clock) Advance(d time.Duration) {
	if d <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
