package core

import (
	"fmt"
	"time"

	"github.com/slidegate/slidegate/keyfunc"
)

// Bounds of limits and costs.
const (
	// MaxUnits is the largest N and the largest cost: the largest integer that a
	// structured header field can carry (RFC 9651 §3.3.1).
	MaxUnits = 999_999_999_999_999
	// MinWindow is the shortest window.
	MinWindow = time.Millisecond
	// MaxWindow is the longest window.
	MaxWindow = 366 * 24 * time.Hour
	// MaxSlots is the largest number of slots of a window.
	MaxSlots = 10_000
	// DefaultHot is the share of N above which Hybrid counts exactly.
	DefaultHot = 0.8
)

// Algorithm says how a limit counts. All three keep the promise that no window
// holds more than N units; they differ in memory and in when they refuse.
type Algorithm uint8

// The algorithms.
const (
	// Exact keeps a log: it admits whenever the window has room.
	Exact Algorithm = iota
	// Slotted keeps counters: less memory, and it may refuse up to one slot early.
	Slotted
	// Hybrid keeps counters while a key is quiet, and the log once it is near its limit.
	Hybrid
)

var algorithmNames = [...]string{"exact", "slotted", "hybrid"}

// String returns the name of the algorithm.
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// Limit is a quota of N units in a sliding window. It is a value: the methods
// that change something return a changed copy, and New checks the result.
//
//	core.PerSecond(10)
//	core.PerDay(100_000).Slotted(48)
//	core.PerMinute(5).Named("login").Key(keyfunc.ByIP())
type Limit struct {
	name      string
	n         int64
	window    time.Duration
	algorithm Algorithm
	slots     int
	hot       float64
	key       keyfunc.Func
}

// Per returns a limit of n units in any window of length w, counted exactly.
// n is 1 to MaxUnits; w is MinWindow to MaxWindow, in whole microseconds.
func Per(n int64, w time.Duration) Limit { return Limit{n: n, window: w} }

// PerSecond is Per(n, time.Second).
func PerSecond(n int64) Limit { return Per(n, time.Second) }

// PerMinute is Per(n, time.Minute).
func PerMinute(n int64) Limit { return Per(n, time.Minute) }

// PerHour is Per(n, time.Hour).
func PerHour(n int64) Limit { return Per(n, time.Hour) }

// PerDay is Per(n, 24*time.Hour). A day is a window like any other: it slides,
// and midnight means nothing to it.
func PerDay(n int64) Limit { return Per(n, 24*time.Hour) }

// Named gives the limit a name of 1 to 64 characters of [A-Za-z0-9._/-]. It
// stands in headers, keys and metrics and must be unique in its limiter.
// Without one, the window serves as name: "1m", "24h".
func (l Limit) Named(name string) Limit {
	l.name = name
	return l
}

// Exact counts each unit with its instant: the default.
func (l Limit) Exact() Limit {
	l.algorithm, l.slots, l.hot = Exact, 0, 0
	return l
}

// Slotted counts in slots of 1/n of the window, n from 1 to MaxSlots and at most
// one per microsecond. A unit leaves up to one slot late, never early.
func (l Limit) Slotted(n int) Limit {
	l.algorithm, l.slots, l.hot = Slotted, n, 0
	return l
}

// Hybrid counts in n slots while at most the share hot of N is in use, and
// exactly above it. hot is between 0 and 1, exclusive; 0 stands for DefaultHot.
func (l Limit) Hybrid(n int, hot float64) Limit {
	if hot == 0 {
		hot = DefaultHot
	}
	l.algorithm, l.slots, l.hot = Hybrid, n, hot
	return l
}

// Key gives the limit a key of its own in place of its limiter's: a limiter can
// count per user and, in the same decision, per address.
func (l Limit) Key(f keyfunc.Func) Limit {
	l.key = f
	return l
}

// Name returns the limit's name, made from the window if none was given.
func (l Limit) Name() string {
	if l.name != "" {
		return l.name
	}
	return formatWindow(l.window)
}

// N returns the units that any window holds.
func (l Limit) N() int64 { return l.n }

// Window returns the length of the window.
func (l Limit) Window() time.Duration { return l.window }

// Algorithm returns how the limit counts.
func (l Limit) Algorithm() Algorithm { return l.algorithm }

// Slots returns the number of slots of a window, 0 if the limit counts exactly.
func (l Limit) Slots() int { return l.slots }

// Hot returns the share of N above which a Hybrid limit counts exactly, else 0.
func (l Limit) Hot() float64 { return l.hot }

// OwnKey reports whether the limit has a key of its own.
func (l Limit) OwnKey() bool { return l.key != nil }

// hotFrom returns the use above which a Hybrid limit counts exactly.
func (l Limit) hotFrom() int64 { return int64(l.hot * float64(l.n)) }
