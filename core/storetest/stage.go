package storetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
	"pgregory.net/rapid"
)

// check is one thing that must hold. It fails tb, and a store that is wrong can
// be given to it with a tb that only takes note.
type check struct {
	name   string
	shapes []shape // each is a run of its own; none: one run
	run    func(tb testing.TB, open opener, sh shape)
}

type opener func(testing.TB) *Harness

// checks returns the whole suite, the quick and certain ones first.
func checks() []check {
	return slices.Concat(callChecks(), windowChecks(), limitChecks(), clockChecks(), reservationChecks(),
		storeChecks(), totalChecks(), crowdChecks(), traceChecks())
}

// shape is a way of counting.
type shape struct {
	algorithm core.Algorithm
	slots     int
}

func (s shape) String() string {
	if s.algorithm == core.Exact {
		return s.algorithm.String()
	}
	return fmt.Sprintf("%s-%d", s.algorithm, s.slots)
}

func (s shape) exact() bool { return s.algorithm == core.Exact }

// shapes returns the ways of counting that a check runs for: windows of one
// slot, of slots that divide them, and of slots that do not.
func shapes() []shape {
	return []shape{{}, {core.Slotted, 1}, {core.Slotted, 10}, {core.Slotted, 7}, {core.Hybrid, 10}, {core.Hybrid, 3}}
}

// named wraps the common form of a check.
func named(name string, run func(s *stage, sh shape), shapes ...shape) check {
	return check{name: name, shapes: shapes, run: func(tb testing.TB, open opener, sh shape) {
		run(newStage(tb, tb, open), sh)
	}}
}

// instances is how many stores on the same counts a check uses in turn.
const instances = 3

// stage is where a check plays: a harness, stores, and the oracle beside them.
type stage struct {
	rapid.TB

	h       *Harness
	stores  []core.Store
	oracle  Oracle
	limiter string // unlike that of any other stage
	second  time.Duration
	turn    int
}

// newStage opens the stores. What they need undone is left to own; faults are
// reported to tb.
func newStage(tb rapid.TB, own testing.TB, open opener) *stage {
	h := open(own)
	s := &stage{TB: tb, h: h, limiter: "storetest-" + rand.Text(), second: time.Second}
	if h.Live {
		s.second = 2 * time.Millisecond
	}
	for range instances {
		s.stores = append(s.stores, h.Open(own))
	}
	return s
}

// scaled converts a duration of a script to one of this stage.
func (s *stage) scaled(d time.Duration) time.Duration {
	return d / (time.Second / s.second)
}

func (s *stage) advance(d time.Duration) {
	if d > 0 {
		s.h.Advance(d)
		s.oracle.Pass(s.h.Now())
	}
}

func (s *stage) step(d time.Duration) {
	s.oracle.Pass(s.h.Now())
	s.h.Step(d)
	s.oracle.Pass(s.h.Now())
}

// virtual skips checks that need the clock to stand still.
func (s *stage) virtual() {
	if s.h.Live {
		s.Skip("time passes by itself")
	}
}

// wrong fails the check for an answer that is not what was worked out by hand.
// Where time passes by itself the window can have moved since the last call, and
// the oracle's judgement is all there is.
func (s *stage) wrong(format string, args ...any) {
	s.Helper()
	if !s.h.Live {
		s.Fatalf(format, args...)
	}
}

// align lets time pass until a slot of the limit begins.
func (s *stage) align(l *limit) {
	if l.SlotSize > 0 && !s.h.Live {
		s.advance(time.Duration(l.SlotSize-int64(s.h.Now())%l.SlotSize) * time.Microsecond)
	}
}

// limit is a limit on a key.
type limit struct {
	*core.Counter
	key keyfunc.Key
	n   int64
	hot int64
}

// limit returns a limit of n units in a window given in seconds of the script.
// Each name counts apart.
func (s *stage) limit(name string, sh shape, n int64, window time.Duration) *limit {
	return s.rawLimit(name, sh, n, s.scaled(window))
}

func (s *stage) rawLimit(name string, sh shape, n int64, window time.Duration) *limit {
	l := &limit{
		Counter: core.NewCounter(s.limiter, name, max(window, core.MinWindow), sh.algorithm, sh.slots),
		key:     keyfunc.User("someone"),
		n:       n,
	}
	if sh.algorithm == core.Hybrid {
		l.hot = int64(core.DefaultHot * float64(n))
	}
	return l
}

// with returns the same counter with another N.
func (l *limit) with(n int64) *limit {
	m := *l
	m.n = n
	return &m
}

// of returns the same limit for another key.
func (l *limit) of(k keyfunc.Key) *limit {
	m := *l
	m.key = k
	return &m
}

func (l *limit) part(cost int64) core.Part {
	return core.Part{Counter: l.Counter, Key: l.key, N: l.n, HotFrom: l.hot, Cost: cost}
}

// call asks for the same cost of each limit, and checks the answer.
func (s *stage) call(op core.Op, cost int64, limits ...*limit) *core.Call {
	c := &core.Call{Op: op}
	if op != core.OpTake && op != core.OpPeek && op != core.OpReset {
		c.ID = newID()
	}
	for _, l := range limits {
		c.Parts = append(c.Parts, l.part(cost))
	}
	return s.do(c)
}

func (s *stage) take(cost int64, limits ...*limit) *core.Call {
	return s.call(core.OpTake, cost, limits...)
}

func (s *stage) peek(cost int64, limits ...*limit) *core.Call {
	return s.call(core.OpPeek, cost, limits...)
}

// used peeks at the use of a limit.
func (s *stage) used(l *limit) int64 { return s.peek(1, l).Parts[0].Used }

// end ends a reservation that was made with the call r; cost is for corrections.
func (s *stage) end(op core.Op, r *core.Call, cost int64) *core.Call {
	return s.do(ending(op, r, cost))
}

// ending returns the call that ends the reservation of the call r.
func ending(op core.Op, r *core.Call, cost int64) *core.Call {
	c := &core.Call{Op: op, ID: r.ID, Parts: slices.Clone(r.Parts)}
	for i := range c.Parts {
		x := &c.Parts[i]
		x.Reserved, x.ReservedAt, x.Cost = x.Cost, x.At, cost
	}
	return c
}

// do asks the next of the stores, and compares each field of the answer.
func (s *stage) do(c *core.Call) *core.Call {
	s.Helper()
	prepare(c)
	s.turn++
	asked := slices.Clone(c.Parts)
	before := s.h.Now()
	if err := s.ask(s.stores[s.turn%instances], c); err != nil {
		s.Fatalf("%s: %v", c.Op, err)
	}
	after := s.h.Now()
	if s.h.Live {
		before, after = before.Add(-slack), after.Add(slack)
	}
	if err := s.oracle.Check(c, before, after); err != nil {
		s.Fatalf("%v", err)
	}
	for i, x := range c.Parts {
		y := asked[i]
		y.At, y.Used, y.OldestLeaves, y.FitsAt, y.Done = x.At, x.Used, x.OldestLeaves, x.FitsAt, x.Done
		if x != y {
			s.Fatalf("%s: the store changed what was asked in part %d: %+v, was %+v", c.Op, i, x, y)
		}
	}
	return c
}

// slack is how far the readings of a live clock may be from the store's own.
const slack = time.Millisecond

// patience is how long a store may take for one call before it is called stuck.
const patience = 30 * time.Second

// prepare fills the answer with what an earlier use of the call could have left
// there: a store must overwrite all of it.
func prepare(c *core.Call) {
	c.Policy, c.Budget = core.Closed, patience
	for i := range c.Parts {
		x := &c.Parts[i]
		x.At, x.Used, x.OldestLeaves, x.FitsAt, x.Done = -1, -1, -1, -1, i%2 == 0
	}
}

func (s *stage) ask(store core.Store, c *core.Call) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return store.Do(ctx, c)
}

func newID() (id core.ReservationID) {
	rand.Read(id[:]) // never fails
	return id
}
