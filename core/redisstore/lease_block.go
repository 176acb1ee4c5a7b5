package redisstore

import (
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/core"
)

// lease is a block of units, on one limit or several that count the same key.
type lease struct {
	units int64
	// What Redis answered, and when spending ends by its clock.
	count int
	parts [mostLeased]leasedPart
	began time.Duration // when the answer came
	until moment
	// wake has room for one: that the lease cannot serve somebody.
	wake chan struct{}

	_    [64]byte // what changes with each take lies apart from what all read
	left atomic.Int64
	rest atomic.Int64 // what was left when it was stopped
}

type leasedPart struct {
	core.Part
	ends core.Instant
	time reading
	lead atomic.Int64 // of what was heard, ahead of what the reading tells
}

// reading is an instant of a key's time as it was when an answer came: it tells by this
// process's clock the least that the key's time can be later on.
type reading struct {
	at   core.Instant
	when time.Duration
}

func (r reading) on(now time.Duration) core.Instant {
	return r.at + core.Instant((now-r.when)/time.Microsecond)
}

// newLease returns the lease that Redis has begun with its answer to c, which was sent at
// one time and has come at another.
func newLease(c *core.Call, sent moment, came time.Duration, length time.Duration) *lease {
	l := &lease{units: c.Parts[0].Reserved, count: len(c.Parts), began: came, wake: make(chan struct{}, 1)}
	// The question was sent before Redis read its clock: there the lease ends later.
	l.until = moment{sent.mono + length - length/clockRates, sent.wall + int64(length)}
	for i := range c.Parts {
		x := &l.parts[i]
		x.Part = c.Parts[i]
		x.ends = x.At + core.Instant(length/time.Microsecond)
		x.time = reading{x.At, came}
	}
	l.left.Store(l.units)
	return l
}

// covers reports whether the lease is on the limits of the call.
func (l *lease) covers(c *core.Call) bool {
	if len(c.Parts) != l.count {
		return false
	}
	for i := range c.Parts {
		x, y := &c.Parts[i], &l.parts[i]
		if x.Counter != y.Counter || x.N != y.N || x.HotFrom != y.HotFrom || x.Watched || x.Cost != c.Parts[0].Cost || x.Cost < 1 || x.Key != y.Key {
			return false
		}
	}
	return true
}

// spend answers a call that the lease covers, if it has the units and has not ended.
//
// The instant is the least that Redis's clock can read, but no less than what it has
// answered meanwhile; what is used is what Redis counted when the lease began, with all
// its units, and the oldest of that leaves no sooner than it did then.
func (l *lease) spend(c *core.Call, now moment) bool {
	if now.mono >= l.until.mono || now.wall >= l.until.wall {
		l.rouse()
		return false
	}
	for i := range c.Parts {
		x, y := &c.Parts[i], &l.parts[i]
		x.At = y.on(now.mono)
		if x.At >= y.ends {
			l.rouse() // Redis's clock was set forward
			return false
		}
	}
	cost := c.Parts[0].Cost
	for {
		left := l.left.Load()
		if left < cost {
			if cost <= l.units/blockShare {
				l.rouse()
			}
			return false
		}
		if l.left.CompareAndSwap(left, left-cost) {
			if left == cost {
				l.rouse()
			}
			break
		}
	}
	c.Failure = core.NoFailure
	for i := range c.Parts {
		x, y := &c.Parts[i], &l.parts[i]
		x.Used, x.OldestLeaves, x.FitsAt, x.Done = y.Used, max(y.OldestLeaves, x.At), x.At, true
	}
	return true
}

// rouse tells the keeper that the lease is of no more use.
func (l *lease) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// stop ends spending for good, and returns what was spent. It may be called more than
// once, by several goroutines.
func (l *lease) stop() int64 {
	if left := l.left.Swap(0); left > 0 {
		l.rest.Add(left)
	}
	return l.units - l.rest.Load()
}

// hear takes down what Redis has answered to another call on the same limits.
func (l *lease) hear(c *core.Call, now time.Duration) {
	for i := range c.Parts {
		l.parts[i].hear(c.Parts[i].At, now)
	}
}

// on reckons the key's time: never ahead of Redis, never backwards, and never behind what
// was heard of it.
func (x *leasedPart) on(now time.Duration) core.Instant {
	return x.time.on(now) + core.Instant(x.lead.Load())
}

func (x *leasedPart) hear(at core.Instant, now time.Duration) {
	more := int64(at - x.time.on(now))
	for {
		lead := x.lead.Load()
		if more <= lead || x.lead.CompareAndSwap(lead, more) {
			return
		}
	}
}
