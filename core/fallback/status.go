package fallback

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/core"
)

// Status is what the Store knows of the primary store, for health checks and
// metrics.
type Status struct {
	// Healthy reports that the primary store answers. It becomes false with the first
	// call that fails, and true again once none has failed for a second.
	Healthy bool
	// Since is when the present outage began; zero while healthy.
	Since time.Time
	// Failure is the first failure of the outage.
	Failure core.Failure
	// Local counts the decisions of the local window, and Undecided the calls without
	// any, since the Store was made, by what kept the primary store from them.
	Local, Undecided map[core.Failure]int64
}

// Status tells whether the primary store answers. It asks nobody, and may be called
// at any time; a service that limits locally is alive, so its health check should
// report what this says and not fail because of it.
func (s *Store) Status() Status {
	s.mended() // nobody may have asked since
	local, undecided := s.counts.read()
	st := Status{Local: byFailure(local), Undecided: byFailure(undecided)}
	st.Since, st.Failure = s.outages.state()
	st.Healthy = st.Failure == core.NoFailure
	return st
}

func byFailure(counts []int64) map[core.Failure]int64 {
	all := map[core.Failure]int64{}
	for f, n := range counts {
		if n > 0 {
			all[core.Failure(f)] = n
		}
	}
	return all
}

// counts count calls that the primary store did not decide, by failure.
type counts struct{ local, undecided []atomic.Int64 }

func newCounts() *counts {
	n := len(core.Failures()) + 1
	return &counts{make([]atomic.Int64, n), make([]atomic.Int64, n)}
}

func (c *counts) read() (local, undecided []int64) {
	local, undecided = make([]int64, len(c.local)), make([]int64, len(c.local))
	for i := range c.local {
		local[i], undecided[i] = c.local[i].Load(), c.undecided[i].Load()
	}
	return local, undecided
}

// health logs when the store begins to fail and when it is well again: once per
// change, not once per request. A store that answers now and then is still failing.
type health struct {
	log             *slog.Logger
	level           slog.Level
	failing, mended string
	quiet           time.Duration
	counts          *counts

	began  time.Time // what last counts from, on the monotonic clock: a stepped wall clock must not end an outage, or make it last
	down   atomic.Bool
	ending atomic.Bool  // somebody is saying that it is well again
	last   atomic.Int64 // when the latest failure was, in nanoseconds since began

	mu      sync.Mutex
	since   time.Time
	failure core.Failure
	local   []int64 // the counts when it began
	without []int64
}

func (h *health) failed(f core.Failure, p core.Policy, err error) {
	h.last.Store(int64(time.Since(h.began)))
	if h.down.Load() || !h.begin(f) {
		return
	}
	h.log.LogAttrs(context.Background(), h.level, h.failing,
		slog.String("failure", f.String()), slog.String("policy", p.String()), slog.Any("error", err))
}

// unsettled says that the store has only just begun to answer again: it has to do so
// for a while before it counts as well.
func (h *health) unsettled() { h.last.Store(int64(time.Since(h.began))) }

// begin takes down that the store fails, and reports whether that is new.
func (h *health) begin(f core.Failure) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failure != core.NoFailure {
		return false
	}
	h.since, h.failure = time.Now(), f
	h.local, h.without = h.counts.read()
	h.down.Store(true)
	return true
}

// answered reports whether the store is well: whether no call has failed for a while. It
// is not before that has been said, so that who finds it healthy finds the line as well.
func (h *health) answered() bool {
	if !h.down.Load() {
		return true
	}
	if time.Since(h.began)-time.Duration(h.last.Load()) < h.quiet || !h.ending.CompareAndSwap(false, true) {
		return false
	}
	defer h.ending.Store(false)
	if !h.down.Load() {
		return true
	}
	h.log.LogAttrs(context.Background(), slog.LevelInfo, h.mended, h.happened()...)
	h.end()
	return true
}

// happened returns what has happened since the store began to fail.
func (h *health) happened() []slog.Attr {
	h.mu.Lock()
	defer h.mu.Unlock()
	local, undecided := h.counts.read()
	return []slog.Attr{
		slog.Duration("after", time.Since(h.since).Round(time.Millisecond)),
		slog.String("decided_locally", difference(local, h.local)),
		slog.String("undecided", difference(undecided, h.without)),
	}
}

// end takes down that the store is well again.
func (h *health) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failure, h.since = core.NoFailure, time.Time{}
	h.down.Store(false)
}

// state returns when the store began to fail, and how; NoFailure if it does not.
func (h *health) state() (time.Time, core.Failure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since, h.failure
}

// difference prints what has grown, as "timeout=203 refused=1044", or "0".
func difference(now, before []int64) string {
	var b strings.Builder
	for f := range now {
		if n := now[f] - before[f]; n > 0 {
			fmt.Fprintf(&b, " %s=%d", core.Failure(f), n)
		}
	}
	if b.Len() == 0 {
		return "0"
	}
	return b.String()[1:]
}
