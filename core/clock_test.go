package core_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// start is the instant at which hand clocks start: a whole minute.
const start = core.Instant(1_699_999_980_000_000)

// handClock is a clock that moves only when a test moves it, and tells those who
// follow it by how much.
type handClock struct {
	micros    atomic.Int64
	moves     sync.Mutex // so that those who follow it see its moves in order
	followers []func(by time.Duration)
}

func newHandClock() *handClock {
	c := &handClock{}
	c.micros.Store(int64(start))
	return c
}

func (c *handClock) now() time.Time        { return time.UnixMicro(c.micros.Load()) }
func (c *handClock) instant() core.Instant { return core.Instant(c.micros.Load()) }
func (c *handClock) at(d time.Duration)    { c.set(start.Add(d)) }
func (c *handClock) set(t core.Instant)    { c.move(func(core.Instant) core.Instant { return t }) }
func (c *handClock) advance(d time.Duration) {
	c.move(func(t core.Instant) core.Instant { return t.Add(d) })
}

func (c *handClock) move(to func(core.Instant) core.Instant) {
	c.moves.Lock()
	defer c.moves.Unlock()
	from := c.instant()
	c.micros.Store(int64(to(from)))
	for _, moved := range c.followers {
		moved(c.instant().Sub(from))
	}
}

// follow has moved called after each move of the clock, and once now.
func (c *handClock) follow(moved func(by time.Duration)) {
	c.moves.Lock()
	defer c.moves.Unlock()
	c.followers = append(c.followers, moved)
	moved(0)
}

// memoryOn returns a store that reads the clock.
func memoryOn(t testing.TB, c *handClock) *core.Memory {
	t.Helper()
	m, err := core.NewMemory(core.MemoryConfig{MaxKeys: 1 << 16, Clock: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// limiterWith returns a limiter of the configuration.
func limiterWith(t testing.TB, cfg core.Config) *core.Limiter {
	t.Helper()
	l, err := core.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// limiterOn returns a limiter with a store of its own that reads the clock.
func limiterOn(t testing.TB, c *handClock, limits ...core.Limit) *core.Limiter {
	t.Helper()
	return limiterAt(t, memoryOn(t, c), limits...)
}

// limiterAt returns a limiter that counts in the store, and waits for it even on a
// busy machine.
func limiterAt(t testing.TB, s core.Store, limits ...core.Limit) *core.Limiter {
	t.Helper()
	return limiterWith(t, core.Config{Name: "test", Limits: limits, Store: s, Budget: 10 * time.Second})
}

// someone is a key for tests in which it does not matter who is counted.
var someone = keyfunc.User("someone")

// allow asks l for units and fails the test if there is no decision.
func allow(t testing.TB, l *core.Limiter, units int64, own ...core.LimitKey) core.Decision {
	t.Helper()
	return allowKey(t, l, someone, units, own...)
}

func allowKey(t testing.TB, l *core.Limiter, key keyfunc.Key, units int64, own ...core.LimitKey) core.Decision {
	t.Helper()
	d, err := l.AllowN(context.Background(), key, units, own...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// peek looks at what units would be answered.
func peek(t testing.TB, l *core.Limiter, units int64, own ...core.LimitKey) core.Decision {
	t.Helper()
	d, err := l.PeekN(context.Background(), someone, units, own...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// used returns what l's first limit counts for someone.
func used(t testing.TB, l *core.Limiter) int64 {
	t.Helper()
	for s := range limitsOf(peek(t, l, 1)) {
		return s.Used
	}
	t.Fatal("a decision without limits")
	return 0
}

// limitsOf makes a decision that is not addressable walkable.
func limitsOf(d core.Decision) func(func(core.LimitState) bool) { return d.Limits() }

// algorithms returns every way of counting, for tests of what they share.
func algorithms() map[string]func(core.Limit) core.Limit {
	return map[string]func(core.Limit) core.Limit{
		"exact":   core.Limit.Exact,
		"slotted": func(l core.Limit) core.Limit { return l.Slotted(10) },
		"hybrid":  func(l core.Limit) core.Limit { return l.Hybrid(10, 0.5) },
	}
}

// eachAlgorithm runs a test with every way of counting.
func eachAlgorithm(t *testing.T, test func(t *testing.T, as func(core.Limit) core.Limit)) {
	t.Helper()
	for name, as := range algorithms() {
		t.Run(name, func(t *testing.T) { test(t, as) })
	}
}

// slotOf returns the length of a slot of the limit, 0 if it counts exactly: how
// much later than exactly a unit may leave.
func slotOf(l core.Limit) time.Duration {
	if l.Slots() == 0 {
		return 0
	}
	n := time.Duration(l.Slots()) * time.Microsecond
	return (l.Window() + n - 1) / n * time.Microsecond
}

// outcome is what a table says of one decision.
type outcome struct {
	allowed   bool
	remaining int64
	wait      time.Duration
}

func outcomeOf(d core.Decision) outcome {
	return outcome{d.Allowed, d.Shown().Remaining(), d.RetryAfter()}
}
