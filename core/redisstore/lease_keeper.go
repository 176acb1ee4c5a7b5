package redisstore

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slidegate/slidegate/core"
)

// keeper keeps the leases of a key, one after the other, in a goroutine of its own.
type keeper struct {
	leases *leases
	place  *leasePlace
	length time.Duration
	want   int64     // units for the next lease
	call   core.Call // as of the take that it began with

	id core.ReservationID // of the lease that was last asked for
	// The lease that is to be ended by the next call.
	units, spent int64
	latest       [mostLeased]core.Instant
}

// run keeps leases while there is use for them.
func (k *keeper) run() {
	binary.BigEndian.PutUint64(k.id[:], rand.Uint64())
	rate, err := int64(0), error(nil)
	for err == nil && k.want >= leastBlock {
		var l *lease
		if l, err = k.exchange(k.want); err != nil {
			break
		}
		if l == nil {
			// The limit is nearly full: single units from here on, until there is room.
			rate = k.want
			break
		}
		k.hold(l)
	}
	if err == nil && k.units > 0 {
		_, err = k.exchange(0)
	}
	if err != nil {
		k.settle()
	}
	k.leave(rate)
}

// hold waits until the lease is of no more use, and decides how much the next should have.
func (k *keeper) hold(l *lease) {
	timer := time.NewTimer(l.until.mono - k.leases.now().mono)
	defer timer.Stop()
	closing := false
	select {
	case <-l.wake:
	case <-timer.C:
	case <-k.leases.done:
		closing = true
	}
	now := k.leases.now().mono
	k.units = l.units
	k.spent, k.latest = k.place.end(l, now)
	k.told()
	k.want = 0
	if !closing && k.spent >= leastBlock {
		k.want = next(l.units, k.spent, min(now, l.until.mono)-l.began, k.length)
	}
}

// next returns how many units a lease of some length should have, after one that had so
// many and took some time to spend some of them: as many as would be spent, but not more
// than four times what there was, and not less than half.
func next(units, spent int64, took, length time.Duration) int64 {
	rate := float64(spent) / float64(max(took, length/1000))
	return int64(min(max(rate*float64(length), float64(units/2), float64(spent)), float64(4*units)))
}

// told says what was spent.
func (k *keeper) told() {
	if k.leases.hooks.spent == nil || k.spent == 0 {
		return
	}
	c := k.call
	c.Op, c.Parts = core.OpTake, slices.Clone(c.Parts)
	for i := range c.Parts {
		c.Parts[i].Cost, c.Parts[i].Done = k.spent, true
	}
	k.leases.hooks.spent(&c)
}

// exchange ends the lease before and begins the next, if most is above 0. It returns
// none if Redis has not begun any.
func (k *keeper) exchange(most int64) (*lease, error) {
	k.id = after(k.id)
	p, s := k.place, k.leases
	turn := p.turned()
	c := k.question(most)
	sent := s.now()
	if err := k.ask(c); err != nil || c.Parts[0].Reserved == 0 {
		return nil, err
	}
	now := s.now().mono
	l := newLease(c, sent, now, k.length)
	if !p.begin(l, turn, now) {
		l.stop()
		l.rouse()
	}
	return l, nil
}

// question returns the call of an exchange.
func (k *keeper) question(most int64) *core.Call {
	c := k.call
	c.Op, c.ID, c.Parts = opLease, k.id, slices.Clone(c.Parts)
	c.Budget = max(c.Budget, k.length)
	for i := range c.Parts {
		x := &c.Parts[i]
		x.Reserved, x.Cost, x.ReservedAt = k.units, k.spent, k.latest[i]
		x.Used, x.OldestLeaves = most, core.Instant(k.length/time.Microsecond)
	}
	return &c
}

// ask has the call answered, which ends the lease before.
func (k *keeper) ask(c *core.Call) error {
	ctx, stop := bounded(context.Background(), c.Budget)
	defer stop()
	if err := k.leases.next(ctx, c); err != nil {
		return err
	}
	if k.units > k.spent && k.leases.hooks.freed != nil {
		k.leases.hooks.freed(c)
	}
	k.units, k.spent = 0, 0
	return nil
}

// settle ends the lease before after a call of which nobody knows whether Redis has
// carried it out, and takes back the one that may have begun. It tries for some seconds;
// after that the units leave when the leases lapse.
func (k *keeper) settle() {
	const last = 4 * time.Second
	for wait := 100 * time.Millisecond; wait < last; wait *= 2 {
		select {
		case <-k.leases.done:
			wait = last // once more
		case <-time.After(wait):
		}
		if k.ask(k.question(0)) == nil {
			return
		}
	}
}

// leave ends the keeper's work. The rate is that of the key, if it may go on as it was.
func (k *keeper) leave(rate int64) {
	p := k.place
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turnOver(int64(k.leases.now().mono / k.leases.length))
	p.kept = false
	p.last, p.units = rate, max(p.units, rate)
}
