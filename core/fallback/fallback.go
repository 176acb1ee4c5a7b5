package fallback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/core"
)

// Config says how a Store takes over. The zero value is ready to use.
type Config struct {
	// Replicas is how many instances share the limits, 1 or more: while the primary
	// store is down, each admits ⌊N/Replicas⌋ units of a key in a window, and at least
	// one. 0 stands for 1: then each instance admits N.
	Replicas int

	// Share replaces Replicas where the number of instances changes: it returns the
	// part of N that this instance admits, above 0 up to 1. What lies outside of that
	// is taken for the nearest value in it. It is called for each decision of the
	// local window, by several goroutines at once.
	Share func() float64

	// Cold leaves out counting in the local window while the primary store answers,
	// which takes about a third of a microsecond and the memory of the keys. An outage
	// then begins with a fresh local quota.
	Cold bool

	// MaxKeys bounds the local window: see core.MemoryConfig.
	MaxKeys int

	// Failures is how many calls in a row fail before the breaker opens; 0 stands for 5.
	Failures int

	// Probe finds out whether the primary store answers a call again, within the
	// budget, by a way of its own. One goroutine calls it while a breaker is open, first
	// after some 25ms and then ever less often, up to every half second. Its context
	// ends with the Store. Without it, now and then a call is let through and waits for
	// its budget.
	Probe func(ctx context.Context, lane int, budget time.Duration) error

	// Lanes tells as bits which parts of the primary store a call needs, for a store
	// whose parts fail one by one, such as a cluster: each has a breaker of its own.
	// Without it the store has one part, 1.
	Lanes func(c *core.Call) uint64

	// Clock is that of the local window, for tests: see core.MemoryConfig.
	Clock func() time.Time

	// Logger gets one line for each change between healthy and degraded. Default:
	// slog.Default().
	Logger *slog.Logger
}

// DefaultFailures is how many calls in a row fail before the breaker opens.
const DefaultFailures = 5

// Store answers in place of a primary store that is out of order. It is safe for
// concurrent use.
type Store struct {
	primary core.Store
	timed   bool // the primary keeps the budget by itself
	window  *window
	breaker breaker
	outages health
	faults  map[core.Failure]*health // those that are no outages
	known   []*health                // the same, to be gone through with each call
	counts  *counts
	lanes   func(*core.Call) uint64
	closed  atomic.Bool
}

// New returns a Store in front of primary, which stays the caller's until Close
// closes it. The error joins FieldErrors.
func New(primary core.Store, cfg Config) (*Store, error) {
	if faults := cfg.check(primary); len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	w, err := newWindow(cfg)
	if err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.Default()
	}
	s := &Store{primary: primary, window: w, lanes: cfg.Lanes, counts: newCounts()}
	if s.lanes == nil {
		s.lanes = func(*core.Call) uint64 { return 1 }
	}
	b, ok := primary.(core.Budgeted)
	s.timed = ok && b.KeepsBudget()
	began := time.Now()
	s.outages = health{
		began: began, log: log, level: slog.LevelWarn, quiet: quietPeriod, counts: s.counts,
		failing: "slidegate: the store gives no decision", mended: "slidegate: the store answers again",
	}
	s.faults = map[core.Failure]*health{}
	for _, f := range core.Failures() {
		if !f.Outage() {
			s.faults[f] = &health{
				began: began, log: log, level: slog.LevelError, quiet: time.Minute, counts: s.counts,
				failing: "slidegate: the store cannot answer calls, which is no outage but a fault of the program or its rights",
				mended:  "slidegate: no such fault for a minute",
			}
		}
	}
	for _, h := range s.faults {
		s.known = append(s.known, h)
	}
	s.breaker.init(cfg, s.outages.unsettled, s.mended)
	return s, nil
}

// mended reports whether the primary store is well: no breaker is open, and no call
// has failed for a while.
func (s *Store) mended() bool {
	for _, h := range s.known {
		h.answered()
	}
	return s.breaker.open.Load() == 0 && s.outages.answered()
}

func (cfg *Config) check(primary core.Store) (faults []error) {
	bad := func(field, value, problem, remedy string) {
		faults = append(faults, &core.FieldError{Field: field, Value: value, Problem: problem, Remedy: remedy})
	}
	if v := reflect.ValueOf(primary); primary == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		bad("primary", fmt.Sprintf("%T", primary), "there is no store", "pass one, and look at the error of its constructor")
	}
	if cfg.Replicas < 0 {
		bad("Config.Replicas", strconv.Itoa(cfg.Replicas), "not a number of instances", "use 1 or more, or 0 for 1")
	}
	if cfg.Replicas > 0 && cfg.Share != nil {
		bad("Config.Share", "set", "Replicas is set too", "set one of them")
	}
	if cfg.Failures < 0 {
		bad("Config.Failures", strconv.Itoa(cfg.Failures), "not a number of calls", "use 1 or more, or 0 for 5")
	}
	return faults
}

// KeepsBudget says that no call waits longer than its budget.
func (s *Store) KeepsBudget() bool { return true }

// LogsOutages says that the Store logs when the primary fails and answers again.
func (s *Store) LogsOutages() bool { return true }

// Do has the primary store answer the call, or the policy if that fails: the local
// window, whose answer has a Call.Failure, or an error with a core.StoreError in it.
//
// A reservation is ended where it was made. One that was made in the primary store
// cannot be ended while that is down: the error says so, and the units count until
// it lapses. Likewise Reset is an error then, though the local window has forgotten.
func (s *Store) Do(ctx context.Context, c *core.Call) error {
	if s.closed.Load() {
		return core.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.Failure = core.NoFailure
	if s.window.ends(c) {
		return nil
	}
	lanes := s.lanes(c)
	if f := s.breaker.refuses(lanes, c.Budget); f != core.NoFailure {
		return s.stepIn(c, f, nil)
	}
	err := s.ask(ctx, c)
	switch {
	case err == nil:
		s.breaker.answered(lanes)
		s.mended()
		s.window.warm(c)
		return nil
	case ctx.Err() != nil:
		// The client went away. That says nothing about the store.
		return ctx.Err()
	case errors.Is(err, core.ErrClosed):
		return err
	case s.closed.Load():
		// It was closed under the call, which says nothing about what was behind it.
		return core.ErrClosed
	case errors.Is(err, errors.ErrUnsupported):
		// The program asks for what the store does not have: nobody shall answer that.
		s.faults[core.FailureScript].failed(core.FailureScript, c.Policy, err)
		return err
	}
	f := core.FailureOf(err)
	if f.Outage() {
		s.breaker.failed(lanes, f, c.Budget)
		s.outages.failed(f, c.Policy, err)
	} else if h := s.faults[f]; h != nil {
		h.failed(f, c.Policy, err)
	}
	return s.stepIn(c, f, err)
}

// Count has the local window count what a layer in front of the Store has admitted by
// itself from what the primary store had counted before: a take, with Part.Done of the
// limits that have taken their cost.
func (s *Store) Count(c *core.Call) {
	if !s.closed.Load() {
		s.window.warm(c)
	}
}

// ask asks the primary store within the budget.
func (s *Store) ask(ctx context.Context, c *core.Call) error {
	if s.timed || c.Budget <= 0 {
		return s.primary.Do(ctx, c)
	}
	ctx, stop := context.WithTimeout(ctx, c.Budget)
	defer stop()
	return s.primary.Do(ctx, c)
}

// stepIn answers by the policy. Where the primary was not asked, err is nil.
func (s *Store) stepIn(c *core.Call, f core.Failure, err error) error {
	if c.Policy == core.Local && s.window.decides(c) {
		s.counts.local[f].Add(1)
		c.Failure = f
		return nil
	}
	if c.Op == core.OpReset {
		s.window.forget(c)
	}
	s.counts.undecided[f].Add(1)
	if e, ok := errors.AsType[*core.StoreError](err); ok && e.Failure == f {
		return err
	}
	return &core.StoreError{Failure: f, Err: err}
}

// Close closes the primary store, stops probing, and frees the local window. It may
// be called more than once.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.breaker.close()
	return errors.Join(s.primary.Close(), s.window.memory.Close())
}
