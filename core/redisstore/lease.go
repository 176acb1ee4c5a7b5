package redisstore

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/slidegate/slidegate/core"
)

// A lease is a block of units that Redis has counted in advance, for this instance to
// spend by itself during a short time. When the time is up, or the block is spent, Redis
// is told how many units that were: these count from then on, and the others are free
// again. So Redis holds each unit from before it is spent until a window after, and no
// window can hold more than N, whatever number of instances has leases. Should an
// instance die, or Redis not hear of the end, the whole block counts until a window after
// the last instant at which it could be spent.
//
// A lease admits and never refuses: what it has no units for goes to Redis, as if there
// were no lease.

const (
	defaultLease  = 50 * time.Millisecond
	shortestLease = time.Millisecond
	longestLease  = time.Second
	// windowLeases bounds a lease to one in so many parts of the window: that is how
	// much longer than a window its units count, at most.
	windowLeases = 20
	// mostLeased is how many limits a call can have to be answered from a lease.
	mostLeased = 4
	// leastBlock is the fewest units that are worth the calls of a lease, and blockShare
	// the part of what is free that one gets: as in lease.lua.
	leastBlock, blockShare = 8, 4
	// clockRates is the part of a lease that is not used, for clocks differ in their rates:
	// NTP makes one faster or slower by up to 500 parts in a million (MAXFREQ in
	// https://www.rfc-editor.org/rfc/rfc5905), so two can differ by a thousandth.
	clockRates = 1000
	// leaseClosing is how long Close waits for leases to be given back.
	leaseClosing = time.Second
)

// leaseLength returns how long leases last if the option says d.
func leaseLength(d time.Duration) (time.Duration, error) {
	if d == 0 {
		return defaultLease, nil
	}
	if d < shortestLease || d > longestLease {
		return 0, &FieldError{Field: "Leases", Value: d.String(), Problem: "not the length of a lease",
			Remedy: fmt.Sprintf("use %v to %v, or 0 for %v", shortestLease, longestLease, defaultLease)}
	}
	return d, nil
}

// leases answers takes from leases, and has next answer all else.
type leases struct {
	next   func(context.Context, *core.Call) error
	length time.Duration
	hooks  leaseHooks
	now    func() moment
	seed   maphash.Seed
	// A table with one place for each hash: of two keys with the same one, the busier
	// one can have a lease.
	places [leasePlaces]leasePlace

	mu      sync.Mutex
	closed  bool
	done    chan struct{}
	keepers sync.WaitGroup
}

const leasePlaces = 4096

// leaseHooks tell others what leases do. Each is called by the goroutine that keeps the
// lease, and may be nil.
type leaseHooks struct {
	// spent says how many units of its cost a take, already counted, has had here.
	spent func(*core.Call)
	// freed says that units were given back.
	freed func(*core.Call)
}

// newLeases returns leases of that length. Their calls on Redis, of the operation
// opLease, go to next like all others.
func newLeases(next func(context.Context, *core.Call) error, length time.Duration, hooks leaseHooks) *leases {
	return &leases{next: next, length: length, hooks: hooks, now: processClock(), seed: maphash.MakeSeed(), done: make(chan struct{})}
}

// moment is a time on two clocks of this process, of which a lease heeds the one that
// says first that it has ended: the monotonic one stands still on some systems while the
// machine sleeps, and the other one can be set back.
type moment struct {
	mono time.Duration
	wall int64 // nanoseconds
}

func processClock() func() moment {
	began := time.Now()
	return func() moment {
		t := time.Now()
		return moment{t.Sub(began), t.UnixNano()}
	}
}

// Do answers the call from a lease, or has it answered.
func (s *leases) Do(ctx context.Context, c *core.Call) error {
	if len(c.Parts) == 0 {
		return s.next(ctx, c)
	}
	h := s.hash(c)
	p := &s.places[h%leasePlaces]
	if c.Op == core.OpReset {
		// Before, so that nobody spends what is forgotten, and after, for what has begun
		// meanwhile.
		p.forget()
		defer p.forget()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.Op == core.OpTake {
		if l := p.current.Load(); l != nil && l.covers(c) && l.spend(c, s.now()) {
			return nil
		}
	}
	err := s.next(ctx, c)
	if err != nil || c.Failure != core.NoFailure || !s.leasable(c) {
		return err
	}
	now := s.now().mono
	if l := p.current.Load(); l != nil && l.covers(c) {
		l.hear(c, now)
	}
	if k := s.note(p, h, c, now); k != nil {
		s.keep(k)
	}
	return nil
}

// spend answers the call if it is one that a lease has units for. It costs less than
// 0.2 µs and no memory.
func (s *leases) spend(c *core.Call) bool {
	if c.Op != core.OpTake || len(c.Parts) == 0 {
		return false
	}
	l := s.places[s.hash(c)%leasePlaces].current.Load()
	return l != nil && l.covers(c) && l.spend(c, s.now())
}

// hash returns that of the first counter and its key.
func (s *leases) hash(c *core.Call) uint64 {
	x := &c.Parts[0]
	return maphash.Comparable(s.seed, x.Key) ^ maphash.Comparable(s.seed, x.Counter)
}

// leasable reports whether the call may be answered from a lease: its limits count the
// same key, enforce, and take the same cost.
func (s *leases) leasable(c *core.Call) bool {
	if len(c.Parts) > mostLeased {
		return false
	}
	first := &c.Parts[0]
	for i := range c.Parts {
		x := &c.Parts[i]
		if x.Watched || x.Cost != first.Cost || !sameTag(x, first) {
			return false
		}
	}
	return s.lengthFor(c) >= shortestLease
}

// lengthFor returns how long a lease on the limits of the call lasts.
func (s *leases) lengthFor(c *core.Call) time.Duration {
	length := s.length
	for i := range c.Parts {
		length = min(length, time.Duration(c.Parts[i].Counter.Window)*time.Microsecond/windowLeases)
	}
	return length.Truncate(time.Microsecond)
}

// keep has a goroutine keep a lease as long as there is use for it.
func (s *leases) keep(k *keeper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		k.leave(0)
		return
	}
	s.keepers.Add(1)
	go func() {
		defer s.keepers.Done()
		k.run()
	}()
}

// close gives back what is left of all leases, and waits for that a second at most. Calls
// are answered by next from then on.
func (s *leases) close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	s.mu.Unlock()
	given := make(chan struct{})
	go func() {
		s.keepers.Wait()
		close(given)
	}()
	timer := time.NewTimer(leaseClosing)
	defer timer.Stop()
	select {
	case <-given:
	case <-timer.C:
	}
}
