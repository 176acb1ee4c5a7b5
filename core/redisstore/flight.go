package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
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
	landed   chan error // not buffered: an answer is either taken or known not to be
}

var flights = sync.Pool{New: func() any { return &flight{landed: make(chan error)} }}

func takeOff(c *core.Call) *flight {
	f := flights.Get().(*flight)
	f.call = *c
	f.call.Parts = append(f.parts[:0], c.Parts...)
	return f
}

// fly has a goroutine answer the call, and waits for it as long as the caller
// would and the budget lasts.
func (s *link) fly(ctx context.Context, c *core.Call) error {
	f := takeOff(c)
	within, stop := bounded(ctx, c.Budget)
	abandoned := make(chan struct{})
	began := time.Now()
	go func() {
		defer stop()
		err := s.answer(within, &f.question, &f.call)
		if err != nil {
			err = inTime(err, began)
			unclear := f.call // the caller takes the flight over
			unclear.Parts = slices.Clone(f.call.Parts)
			defer s.giveBackUnclear(within, &unclear, err)
		}
		select {
		case f.landed <- err:
		case <-abandoned:
			if err == nil && f.call.Op == core.OpReserve && admits(f.call.Parts) {
				// If this fails the units leave when the reservation lapses.
				_ = s.cancel(within, &f.call)
			}
		}
	}()
	select {
	case err := <-f.landed:
		if err == nil {
			copy(c.Parts, f.call.Parts)
		}
		flights.Put(f)
		return err
	case <-within.Done():
		close(abandoned)
		if c.Budget <= 0 || ctx.Err() != nil {
			return within.Err() // the deadline was the caller's own
		}
		return late(began, within.Err())
	case <-ctx.Done():
		close(abandoned)
		return ctx.Err()
	}
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

// bounded returns a context with the values of ctx that ends with the budget, or
// with the deadline of ctx where that is sooner, and not when ctx is cancelled: a
// script that is on its way is better heard out than lost.
func bounded(ctx context.Context, budget time.Duration) (context.Context, context.CancelFunc) {
	within := context.WithoutCancel(ctx)
	end, some := ctx.Deadline()
	if budget > 0 {
		if soon := time.Now().Add(budget); !some || soon.Before(end) {
			end, some = soon, true
		}
	}
	if !some {
		return within, func() {}
	}
	return context.WithDeadline(within, end)
}

// cancel gives back what the call has reserved.
func (s *link) cancel(ctx context.Context, c *core.Call) error {
	ctx, stop := bounded(context.WithoutCancel(ctx), max(c.Budget, 100*time.Millisecond))
	defer stop()
	return s.answer(ctx, new(question), ending(c, core.OpCancel))
}

// giveBackUnclear cancels a reservation of which nobody knows whether it was made,
// since the reply was lost. The server may hang, so it tries again for some seconds;
// after that the units leave when the reservation lapses. A reply of the server is
// clear: nothing was reserved.
func (s *link) giveBackUnclear(ctx context.Context, c *core.Call, err error) {
	var reply redis.Error
	if c.Op != core.OpReserve || errors.As(err, &reply) {
		return
	}
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
