package core

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/slidegate/slidegate/keyfunc"
)

// Wait takes one unit for key, waiting until it fits. See WaitN.
func (l *Limiter) Wait(ctx context.Context, key keyfunc.Key, own ...LimitKey) (Decision, error) {
	return l.WaitN(ctx, key, 1, own...)
}

// WaitN takes n units for key, waiting until they fit. Callers of this limiter
// in this process who wait for the same keys are served in the order in which
// they came; only the first of them asks the store, and sleeps until the
// instant at which its cost would fit. Others (Allow, other processes) can take
// units meanwhile, and then it waits on.
//
// The error is ErrNeverFits when n is above the N of a limit, ErrTooLate as
// soon as it is clear that ctx will end first, or the end of ctx. Then nothing
// was taken, and the Decision is the last refusal.
func (l *Limiter) WaitN(ctx context.Context, key keyfunc.Key, n int64, own ...LimitKey) (Decision, error) {
	if !l.canFit(n) {
		// The answer at the end of the line would hardly be another.
		if d, err := l.take(ctx, key, n, own); err != nil || d.Allowed {
			return d, err
		}
	}
	leave, err := l.queues.enter(ctx, lineOf(key, own))
	if err != nil {
		return Decision{Cost: n}, err
	}
	defer leave()
	for {
		d, err := l.take(ctx, key, n, own)
		if err != nil || d.Allowed {
			return d, err
		}
		wait := d.RetryAfter()
		if wait <= 0 {
			wait = time.Millisecond // an answer that makes no sense must not make this spin
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
			return d, fmt.Errorf("%w: it fits in %v: %w", ErrTooLate, wait, context.DeadlineExceeded)
		}
		if err := sleep(ctx, wait); err != nil {
			return d, err
		}
	}
}

// lineOf returns the key of the line in which a caller waits: all keys that it is
// counted by.
func lineOf(key keyfunc.Key, own []LimitKey) keyfunc.Key {
	if len(own) == 0 {
		return key
	}
	keys := make([]keyfunc.Key, 0, len(own)+1)
	if !key.IsZero() {
		keys = append(keys, key)
	}
	for _, o := range own {
		keys = append(keys, keyfunc.Name(o.Limit), o.Key)
	}
	return keyfunc.Join(keys...)
}

// canFit reports whether n is a cost that some window of every limit holds.
func (l *Limiter) canFit(n int64) bool {
	for i := range l.limits {
		if n > l.limits[i].n {
			return false
		}
	}
	return n > 0
}

// take is AllowN, where a cost that never fits is an error.
func (l *Limiter) take(ctx context.Context, key keyfunc.Key, n int64, own []LimitKey) (Decision, error) {
	d, err := l.ask(ctx, OpTake, n, key, own)
	if err == nil && d.Reason == NeverFits {
		err = fmt.Errorf("%w (cost %d, limit %q of %d)", ErrNeverFits, n, d.Shown().Name(), d.Shown().N)
	}
	return d, err
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// turns lines up those who wait for the same key.
type turns struct {
	mu    sync.Mutex
	lines map[keyfunc.Key]*line
}

// line is a channel of one place, held by whoever is first; Go serves senders
// that wait on a channel in the order in which they came.
type line struct {
	first   chan struct{}
	members int
}

// enter returns when the caller is first in the line of key, with a function
// that leaves it.
func (t *turns) enter(ctx context.Context, key keyfunc.Key) (leave func(), err error) {
	t.mu.Lock()
	if t.lines == nil {
		t.lines = make(map[keyfunc.Key]*line)
	}
	ln := t.lines[key]
	if ln == nil {
		ln = &line{first: make(chan struct{}, 1)}
		t.lines[key] = ln
	}
	ln.members++
	t.mu.Unlock()

	select {
	case ln.first <- struct{}{}:
		return func() { <-ln.first; t.left(key, ln) }, nil
	case <-ctx.Done():
		t.left(key, ln)
		return nil, ctx.Err()
	}
}

func (t *turns) left(key keyfunc.Key, ln *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ln.members--; ln.members == 0 {
		delete(t.lines, key)
	}
}
