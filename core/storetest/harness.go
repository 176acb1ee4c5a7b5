package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
)

// Harness is a store under test with the time that it lives in. Each check gets
// a fresh one, and so does each random trace. Keys are unique to a check, so
// that harnesses may share a server.
type Harness struct {
	// Open returns a store on the harness's counts: the same store each time, or
	// another instance over the same server. It registers what must be undone
	// with the testing.TB that it gets. The check on closing closes what Open
	// returned.
	Open func(testing.TB) core.Store
	// Now reads the clock of the store.
	Now func() core.Instant
	// Advance lets time pass, for the store and for everything that expires in
	// it. It is called while other goroutines use the store.
	Advance func(time.Duration)
	// Step sets the clock forward, or back if negative, while no time passes. Nil
	// when that is not possible: checks that need it are skipped.
	Step func(time.Duration)
	// Live says that time also passes by itself, as on a real server. Most checks
	// then use windows 500 times shorter, expect nothing but what follows from the
	// instants in the answers, and read Now before and after each call: it must
	// agree with the store's clock to a millisecond.
	Live bool

	// Windows are those of random traces: nil means windows from 1 ms to a day, or 5
	// to 50 ms on a Live store. A store that needs several round trips for a decision
	// wants windows that no scheduling delay of the machine comes near.
	Windows []time.Duration
	// Checks is the number of random traces of each kind: 0 means 100.
	Checks int
	// Steps is the number of operations of a random trace: 0 means 60.
	Steps int
	// Calls is the number of calls of each check with many goroutines: 0 means 2560.
	Calls int
	// Filled is how often the check of running totals fills a window with
	// core.MaxUnits units: 0 means 20 000, which is beyond 2^64 units in all.
	Filled int
	// MaxUsed is the use up to which upward corrections raise one key: 0 means 2^60.
	MaxUsed int64
}

func (h *Harness) checks() int    { return orDefault(h.Checks, 100) }
func (h *Harness) steps() int     { return orDefault(h.Steps, 60) }
func (h *Harness) calls() int     { return orDefault(h.Calls, 2560) }
func (h *Harness) filled() int    { return orDefault(h.Filled, 20_000) }
func (h *Harness) maxUsed() int64 { return orDefault(h.MaxUsed, int64(1)<<60) }

func orDefault[T int | int64](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}

// Clock is a virtual clock for a Harness, safe for concurrent use.
type Clock struct{ now atomic.Int64 }

// NewClock returns a clock that reads start until it is moved.
func NewClock(start core.Instant) *Clock {
	c := new(Clock)
	c.now.Store(int64(start))
	return c
}

// Now reads the clock.
func (c *Clock) Now() core.Instant { return core.Instant(c.now.Load()) }

// Advance moves the clock forward by d, in whole microseconds.
func (c *Clock) Advance(d time.Duration) { c.now.Add(d.Microseconds()) }

// Step sets the clock by d, forward or back. It is Advance under another name:
// where nothing but the clock tells the time, the two are the same.
func (c *Clock) Step(d time.Duration) { c.Advance(d) }

// Run checks a store: each check is a subtest of t, with a harness of its own
// from open. The suite takes a few seconds on a store in memory.
func Run(t *testing.T, open func(testing.TB) *Harness) {
	t.Helper()
	RunIn(t, func(t *testing.T, f func(*testing.T)) { f(t) }, open)
}

// RunIn is Run with each check called through in. With synctest.Test a store
// whose time cannot be set is checked within virtual time: the harness is Live
// then, its Advance is time.Sleep.
func RunIn(t *testing.T, in func(*testing.T, func(*testing.T)), open func(testing.TB) *Harness) {
	t.Helper()
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			if len(c.shapes) == 0 {
				in(t, func(t *testing.T) { c.run(t, open, shape{}) })
				return
			}
			for _, s := range c.shapes {
				t.Run(s.String(), func(t *testing.T) {
					in(t, func(t *testing.T) { c.run(t, open, s) })
				})
			}
		})
	}
}
