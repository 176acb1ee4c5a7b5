package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
)

// flight is a call on its way, with a copy of its own of all it needs: whoever
// asked may stop waiting and use the call for something else while the client is
// still busy with it. A client of go-redis does not look at a context that is
// cancelled while it reads, and with its default options not at a deadline either.
type flight struct {
	call     core.Call
	parts    [4]core.Part // room for most calls
	question question
	ctx      context.Context // the caller's
	began    time.Time
	until    time.Time // when the budget or the context ends; zero if neither does
	timer    *time.Timer
	state    atomic.Uint32
	landed   chan error // room for one, so that nobody waits for a caller to take it
	road     *road      // that it goes by; nil if it goes alone
	next     *flight    // behind it in the queue
}

// The states of a flight. The first to leave waiting decides whose it is from then on:
// the caller's once it has landed, and of what carries it once it is abandoned.
const (
	waiting uint32 = iota
	landed
	abandoned
)

var flights = sync.Pool{New: func() any {
	f := &flight{landed: make(chan error, 1), timer: time.NewTimer(time.Hour)}
	f.timer.Stop()
	return f
}}

func takeOff(ctx context.Context, c *core.Call) *flight {
	f := flights.Get().(*flight)
	f.call = *c
	f.call.Parts = append(f.parts[:0], c.Parts...)
	f.ctx, f.began, f.road, f.next = ctx, time.Now(), nil, nil
	f.until, _ = ctx.Deadline()
	if end := f.began.Add(c.Budget); c.Budget > 0 && (f.until.IsZero() || end.Before(f.until)) {
		f.until = end
	}
	f.state.Store(waiting)
	return f
}

// recycle ends a flight that nobody waits for any more.
func (f *flight) recycle() {
	f.ctx, f.road, f.next = nil, nil, nil
	clear(f.call.Parts) // what they point to may go
	flights.Put(f)
}

// context returns what the client is given: a context with the values of the caller's
// that ends when the flight's time is up, and not when the caller's is cancelled: a
// script that is on its way is better heard out than lost.
func (f *flight) context() (context.Context, context.CancelFunc) {
	return endingAt(context.WithoutCancel(f.ctx), f.until)
}

func endingAt(ctx context.Context, until time.Time) (context.Context, context.CancelFunc) {
	if until.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, until)
}

// fly has the call answered, with others or alone, and waits for it as long as the
// caller would and the budget lasts.
func (s *link) fly(ctx context.Context, c *core.Call) error {
	f, left := takeOff(ctx, c), c.Budget
	if s.dispatch(f) {
		select {
		case err := <-f.landed:
			return f.end(c, err)
		default: // another server has to be asked
			left = max(time.Until(f.began.Add(left)), 1)
		}
	}
	var up <-chan time.Time
	if c.Budget > 0 {
		f.timer.Reset(left)
		up = f.timer.C
	}
	select {
	case err := <-f.landed:
		f.timer.Stop()
		return f.end(c, err)
	case <-up:
		return f.giveUp(ctx, c)
	case <-ctx.Done():
		f.timer.Stop()
		return f.giveUp(ctx, c)
	}
}

// end hands the answer over, and the flight back.
func (f *flight) end(c *core.Call, err error) error {
	if err == nil {
		copy(c.Parts, f.call.Parts)
	}
	f.recycle()
	return err
}

// giveUp stops waiting, unless the answer is there.
func (f *flight) giveUp(ctx context.Context, c *core.Call) error {
	r, began := f.road, f.began
	if !f.state.CompareAndSwap(waiting, abandoned) {
		return f.end(c, <-f.landed)
	}
	// From here on the flight is another's.
	err := ctx.Err()
	if err == nil {
		err = late(began, context.DeadlineExceeded)
	}
	if r != nil && !errors.Is(err, context.Canceled) {
		r.writeOff(began)
	}
	return err
}

// land brings the answer to the caller. If there is none any more, what was reserved is
// given back.
func (s *link) land(f *flight, err error) {
	if err != nil {
		err = inTime(err, f.began)
		if unclear(&f.call, err) {
			c := f.call
			c.Parts = slices.Clone(c.Parts)
			ctx := context.WithoutCancel(f.ctx)
			s.busy.Go(func() { s.giveBackUnclear(ctx, &c) })
		}
	}
	if f.state.CompareAndSwap(waiting, landed) {
		f.landed <- err
		return
	}
	if err == nil && f.call.Op == core.OpReserve && admits(f.call.Parts) {
		s.busy.Go(func() {
			// If this fails the units leave when the reservation lapses.
			_ = s.cancel(context.WithoutCancel(f.ctx), &f.call)
			f.recycle()
		})
		return
	}
	f.recycle()
}

func late(began time.Time, err error) error {
	return fmt.Errorf("slidegate: Redis gave no answer within %v: %w", time.Since(began).Round(time.Millisecond), err)
}

// inTime makes one error of all those that say that time was up: which of them
// go-redis returns depends on what it was waiting for.
func inTime(err error, began time.Time) error {
	var timeout net.Error
	if !errors.Is(err, context.DeadlineExceeded) && errors.As(err, &timeout) && timeout.Timeout() {
		return late(began, errors.Join(context.DeadlineExceeded, err))
	}
	return err
}

// bounded returns a context with the values of ctx that ends with the budget.
func bounded(ctx context.Context, budget time.Duration) (context.Context, context.CancelFunc) {
	within := context.WithoutCancel(ctx)
	if budget <= 0 {
		return within, func() {}
	}
	return context.WithTimeout(within, budget)
}

// cancel gives back what the call has reserved.
func (s *link) cancel(ctx context.Context, c *core.Call) error {
	ctx, stop := bounded(ctx, max(c.Budget, 100*time.Millisecond))
	defer stop()
	s.gaveBack(c)
	defer s.gaveBack(c)
	return s.answer(ctx, new(question), ending(c, core.OpCancel))
}

// unclear reports whether nobody knows if the call has reserved something, since the
// reply was lost. A reply of the server is clear: nothing was reserved.
func unclear(c *core.Call, err error) bool {
	_, reply := errors.AsType[redis.Error](err)
	return c.Op == core.OpReserve && !reply
}

// giveBackUnclear cancels a reservation of which nobody knows whether it was made. The
// server may hang, so it tries again for some seconds; after that the units leave when
// the reservation lapses.
func (s *link) giveBackUnclear(ctx context.Context, c *core.Call) {
	for wait := 100 * time.Millisecond; wait < 4*time.Second; wait *= 2 {
		select {
		case <-s.done:
			return
		case <-time.After(wait):
		}
		if s.cancel(ctx, c) == nil {
			return
		}
	}
}

// admits reports whether all limits but the watched ones have done their part.
func admits(parts []core.Part) bool {
	for i := range parts {
		if !parts[i].Done && !parts[i].Watched {
			return false
		}
	}
	return true
}

// ending returns the call that ends what c has reserved under its ID.
func ending(c *core.Call, op core.Op) *core.Call {
	end := &core.Call{Op: op, ID: c.ID, Policy: c.Policy, Budget: c.Budget}
	end.Parts = append(end.Parts, c.Parts...)
	for i := range end.Parts {
		x := &end.Parts[i]
		x.Reserved, x.ReservedAt = x.Cost, x.At
	}
	return end
}
