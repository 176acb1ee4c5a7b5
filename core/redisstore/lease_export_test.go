package redisstore

import (
	"context"
	"time"

	"github.com/slidegate/slidegate/core"
)

// Leased is a store behind leases.
type Leased struct {
	*leases
	store *Store
}

// NewLeasedAlone is NewLeased with nothing between leases and the client.
func NewLeasedAlone(c Client, length time.Duration) *Leased {
	link := newLink(c, "", nil)
	return &Leased{newLeases(func(ctx context.Context, c *core.Call) error {
		return link.ask(ctx, new(question), c)
	}, length, leaseHooks{}), nil}
}

// NewLeased puts leases of that length in front of a store, which has to be without some
// of its own. Hooks and clock may be nil.
func NewLeased(s *Store, length time.Duration, spent, freed func(*core.Call), now func() (mono time.Duration, wall int64)) *Leased {
	if freed == nil && s.refusals != nil {
		freed = s.refusals.forget
	}
	l := newLeases(func(ctx context.Context, c *core.Call) error {
		if c.Op == opLease {
			return s.link.Load().fly(ctx, c)
		}
		return s.Do(ctx, c)
	}, length, leaseHooks{spent: spent, freed: freed})
	if now != nil {
		l.now = func() moment {
			mono, wall := now()
			return moment{mono, wall}
		}
	}
	return &Leased{l, s}
}

// Do answers from a lease, or has it answered.
func (s *Leased) Do(ctx context.Context, c *core.Call) error {
	if s.spend(c) {
		return nil
	}
	return s.leases.Do(ctx, c)
}

// Spend answers from a lease, if it can.
func (s *Leased) Spend(c *core.Call) bool { return s.spend(c) }

// Close gives back what is left.
func (s *Leased) Close() error {
	s.close()
	return nil
}

// Left returns how many units the lease of the call's key has left, and whether there is
// one.
func (s *Leased) Left(c *core.Call) (int64, bool) {
	l := s.places[s.hash(c)%leasePlaces].current.Load()
	if l == nil {
		return 0, false
	}
	return l.left.Load(), true
}

// Kept reports whether a lease of the call's key is held or asked for.
func (s *Leased) Kept(c *core.Call) bool {
	p := &s.places[s.hash(c)%leasePlaces]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept
}

// LeaseLength returns how long leases last if the option says d.
func LeaseLength(d time.Duration) (time.Duration, error) { return leaseLength(d) }

// NextLease returns the units of the lease after one.
func NextLease(units, spent int64, took, length time.Duration) int64 {
	return next(units, spent, took, length)
}

// Place returns the number of the place that the call's key has.
func (s *Leased) Place(c *core.Call) int { return int(s.hash(c) % leasePlaces) }
