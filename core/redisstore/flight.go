package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

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
func (s *Store) fly(ctx context.Context, c *core.Call) error {
	f := takeOff(c)
	within, stop := bounded(ctx, c.Budget)
	abandoned := make(chan struct{})
	go func() {
		defer stop()
		err := s.answer(within, &f.question, &f.call)
		select {
		case f.landed <- err:
		case <-abandoned:
			if err == nil {
				s.giveBack(within, &f.call)
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
		return fmt.Errorf("slidegate: Redis gave no answer within %v: %w", c.Budget, within.Err())
	case <-ctx.Done():
		close(abandoned)
		return ctx.Err()
	}
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

// giveBack cancels a reservation that nobody waited for.
func (s *Store) giveBack(ctx context.Context, c *core.Call) {
	if c.Op != core.OpReserve || !admits(c.Parts) {
		return
	}
	ctx, stop := bounded(context.WithoutCancel(ctx), c.Budget)
	defer stop()
	// If this fails the units leave when the reservation lapses.
	_ = s.answer(ctx, new(question), ending(c, core.OpCancel))
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
