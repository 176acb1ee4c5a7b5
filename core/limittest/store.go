package limittest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/core"
)

// Store is a core.Memory that can be made to fail, for tests of what a service
// does when its store is broken or slow. Make one with NewStore. It may be used
// and changed by many goroutines at once.
//
// Calls that it does not answer count nothing.
type Store struct {
	memory *core.Memory
	mood   atomic.Pointer[mood]
	closed atomic.Bool
}

// mood is how a Store treats its calls.
type mood struct {
	err   error
	hangs bool
	over  chan struct{} // closed when another mood follows
}

// NewStore returns a store whose time is that of clock, or, if clock is nil, the
// process's, which in a testing/synctest bubble is the bubble's. It is closed at
// the end of the test.
func NewStore(t testing.TB, clock *Clock) *Store {
	t.Helper()
	var cfg core.MemoryConfig
	if clock != nil {
		cfg.Clock = clock.Now
	}
	memory, err := core.NewMemory(cfg)
	if err != nil {
		t.Fatalf("limittest: the clock was not made by NewClock: %v", err)
	}
	s := &Store{memory: memory}
	s.mood.Store(&mood{over: make(chan struct{})})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

var errBroken = errors.New("slidegate: the store is broken, by limittest.Store.Break")

// Break makes the store answer no call until Mend: each gets err, or an error of
// its own if err is nil. Limiters wrap it in core.ErrNoDecision and act by
// Config.OnFailure: under core.Open requests pass without rate limit headers, else
// they are answered by Config.OnError or with 503.
func (s *Store) Break(err error) {
	if err == nil {
		err = errBroken
	}
	s.become(&mood{err: err})
}

// Hang makes the store keep calls waiting, as a Redis does that cannot be
// reached, until their context ends. A limiter ends it when Config.Budget is spent,
// and then acts as described at Break; a short budget makes a quick test. Calls
// that wait when Mend, Break or Close is called are answered accordingly, so that
// Hang and Mend together make a slow store.
func (s *Store) Hang() { s.become(&mood{hangs: true}) }

// Mend makes the store answer again, after Break or Hang. What was counted before
// is still counted.
func (s *Store) Mend() { s.become(&mood{}) }

func (s *Store) become(m *mood) {
	m.over = make(chan struct{})
	close(s.mood.Swap(m).over)
}

// Do implements core.Store.
func (s *Store) Do(ctx context.Context, c *core.Call) error {
	for !s.closed.Load() {
		m := s.mood.Load()
		switch {
		case m.err != nil:
			return m.err
		case !m.hangs:
			return s.memory.Do(ctx, c)
		}
		select {
		case <-m.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return core.ErrClosed
}

// Close implements core.Store. NewStore has arranged for it to be called.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.Mend()
	return s.memory.Close()
}
