package storetest

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
	"pgregory.net/rapid"
)

func traceChecks() []check {
	return []check{
		{name: "RandomTraces", run: func(tb testing.TB, open opener, _ shape) { repeat(tb, open, randomTrace) }},
		{name: "WaitIsExact", shapes: shapes(), run: func(tb testing.TB, open opener, sh shape) {
			repeat(tb, open, func(rt *rapid.T, s *stage) { exactWait(rt, s, sh) })
		}},
	}
}

// repeat runs a property as often as the harness says, each time on a stage of
// its own, so that a failure can be replayed.
func repeat(tb testing.TB, open opener, property func(*rapid.T, *stage)) {
	want, ran, failed := 0, 0, false
	for first := true; first || ran < want; first = false {
		// Without its Deadline, which may not be asked for in a synctest bubble.
		rapid.Check(struct{ rapid.TB }{tb}, func(rt *rapid.T) {
			if want > 0 && ran >= want && !failed {
				return
			}
			own := &scope{TB: tb}
			defer own.end()
			s := newStage(rt, own, open)
			want = s.h.checks()
			ran++
			failed = true
			property(rt, s)
			failed = false
		})
	}
}

// scope undoes what one trace set up when the trace ends, not the whole test.
type scope struct {
	testing.TB
	undo []func()
}

// Cleanup registers what end calls, the last first.
func (o *scope) Cleanup(f func()) { o.undo = append(o.undo, f) }

func (o *scope) end() {
	for _, f := range slices.Backward(o.undo) {
		f()
	}
}

// trace draws what happens on a stage.
type trace struct {
	*rapid.T
	s      *stage
	limits []*limit
	held   []*core.Call // reservations, ended or not
}

// number draws from a range: each number of a small one is as likely as another,
// where rapid's own ranges prefer the low ones; of a large one rapid's choice.
func (t *trace) number(label string, low, high int64) int64 {
	if high-low > 1000 {
		return rapid.Int64Range(low, high).Draw(t.T, label)
	}
	return low + rapid.Custom(func(t *rapid.T) int64 {
		var v int64
		for range bits.Len64(uint64(high-low)) + 3 {
			v *= 2
			if rapid.Bool().Draw(t, "bit") {
				v++
			}
		}
		return v % (high - low + 1)
	}).Draw(t.T, label)
}

func (t *trace) odds(label string, percent int64) bool { return t.number(label, 1, 100) <= percent }

func pick[E any](t *trace, label string, from []E) E {
	return from[t.number(label, 0, int64(len(from)-1))]
}

func randomTrace(rt *rapid.T, s *stage) {
	t := &trace{T: rt, s: s}
	known := make(map[string]bool)
	for i := range t.number("limits", 1, 3) {
		l := t.limit(pick(t, "name", []string{"a", "b"}))
		if known[l.Identity()] {
			l = t.limit(fmt.Sprint("limit ", i))
		}
		known[l.Identity()] = true
		t.limits = append(t.limits, l)
	}
	for range t.number("steps", 1, int64(s.h.steps())) {
		t.action()
	}
	if err := s.oracle.CheckWindows(); err != nil {
		rt.Fatalf("%v", err)
	}
}

func (t *trace) windows() []time.Duration {
	switch {
	case t.s.h.Windows != nil:
		return t.s.h.Windows
	case t.s.h.Live:
		return []time.Duration{5 * ms, 20 * ms, 50 * ms}
	}
	return []time.Duration{ms, 10 * ms, 300 * ms, 999 * ms, 1001 * ms, 10 * sec, time.Minute, 24 * time.Hour}
}

func (t *trace) limit(name string) *limit {
	sh := shape{algorithm: core.Algorithm(t.number("algorithm", 0, 2))}
	if !sh.exact() {
		sh.slots = pick(t, "slots", []int{1, 2, 3, 7, 10, 60})
	}
	l := t.s.rawLimit(name, sh, t.n(), pick(t, "window", t.windows()))
	if sh.algorithm == core.Hybrid {
		l.hot = t.number("hot", 0, l.n)
	}
	return l
}

func (t *trace) n() int64 {
	if t.odds("large", 10) {
		return pick(t, "N", []int64{1000, 1 << 33, core.MaxUnits})
	}
	return t.number("N", 1, 20)
}

func (t *trace) action() {
	switch a := t.number("action", 1, 100); {
	case a <= 35:
		t.ask(core.OpTake)
	case a <= 43:
		t.ask(core.OpPeek)
	case a <= 53:
		t.ask(core.OpReserve)
	case a <= 65 && len(t.held) > 0:
		t.end()
	case a <= 67:
		t.ask(core.OpReset)
	case a <= 69:
		l := pick(t, "limit", t.limits)
		l.n = t.n()
		l.hot = min(l.hot, l.n)
	case a <= 76 && t.s.h.Step != nil:
		t.s.step(t.stepBy())
	default:
		t.pass()
	}
}

// parts draws limits in any order, each on one of two keys; "several" of them
// share one key as often as not.
func (t *trace) parts() []*limit {
	keys := []keyfunc.Key{keyfunc.User("a"), keyfunc.Name("a")}
	limits := rapid.Permutation(t.limits).Draw(t.T, "order")
	limits = slices.Clone(limits[:t.number("parts", 1, int64(len(limits)))])
	common := pick(t, "key", keys)
	apart := t.odds("apart", 30)
	for i, l := range limits {
		limits[i] = l.of(common)
		if apart {
			limits[i] = l.of(pick(t, "key", keys))
		}
	}
	return limits
}

func (t *trace) ask(op core.Op) {
	c := &core.Call{Op: op}
	one := t.number("cost", 1, 4)
	same := t.odds("same cost", 60)
	for _, l := range t.parts() {
		x := l.part(one)
		if !same {
			x.Cost = t.cost(l)
		}
		x.Watched = t.odds("watched", 15)
		c.Parts = append(c.Parts, x)
	}
	if op == core.OpReserve {
		c.ID = newID()
		t.held = append(t.held, c)
	}
	t.s.do(c)
}

// cost draws a cost up to N+2, or one near what is left.
func (t *trace) cost(l *limit) int64 {
	most := min(l.n+2, core.MaxUnits)
	if t.odds("near", 40) {
		left := l.n - t.s.used(l)
		return min(max(1, left+t.number("beside", -1, 1)), most)
	}
	return t.number("cost", 1, most)
}

// end ends any reservation that was ever made, also again and late.
func (t *trace) end() {
	r := t.held[max(0, int64(len(t.held))-t.number("reservation", 1, 6))]
	op := pick(t, "end", []core.Op{core.OpCommit, core.OpCorrect, core.OpCancel})
	c := ending(op, r, 0)
	for i := range c.Parts {
		switch x := &c.Parts[i]; t.number("correction", 0, 3) {
		case 0:
			x.Cost = 0
		case 1:
			x.Cost = t.number("down", 0, x.Reserved)
		case 2:
			x.Cost = x.Reserved + t.number("up", 0, 5)
		default:
			most := min(core.MaxUnits, t.s.h.maxUsed()/int64(t.s.h.steps())) // each may come
			x.Cost = min(core.MaxUnits, x.Reserved+t.number("far up", 0, most))
		}
	}
	t.s.do(c)
}

// aim draws a duration that ends at a release instant or beside it.
func (t *trace) aim() time.Duration {
	l := pick(t, "limit", t.limits).of(pick(t, "key", []keyfunc.Key{keyfunc.User("a"), keyfunc.Name("a")}))
	waits := t.s.oracle.waits(l.Counter, l.key, t.s.h.Now())
	if len(waits) == 0 {
		return time.Duration(l.Window) * us
	}
	return pick(t, "release", waits)
}

func (t *trace) pass() {
	switch a := t.number("time", 1, 100); {
	case a <= 50:
		t.s.advance(t.aim() + time.Duration(t.number("beside", -1, 1))*us)
	case a <= 60:
		t.s.advance(time.Duration(t.number("microseconds", 1, 3)) * us)
	case a <= 90:
		t.s.advance(t.aim() * time.Duration(t.number("percent", 1, 100)) / 100)
	default:
		t.s.advance(t.aim() * time.Duration(t.number("times", 1, 8)))
	}
}

func (t *trace) stepBy() time.Duration {
	d := t.aim() + time.Duration(t.number("beside", -1, 1))*us
	switch t.number("step", 0, 4) {
	case 0:
		return d
	case 1:
		return -d
	case 2:
		return -d * time.Duration(t.number("percent", 1, 99)) / 100
	case 3:
		return -24 * time.Hour
	default:
		return -time.Duration(t.number("microseconds", 1, 3)) * us
	}
}

// exactWait brings a limit into a random state, and asks again at the instant
// that a refusal names, and just before it.
func exactWait(rt *rapid.T, s *stage, sh shape) {
	t := &trace{T: rt, s: s}
	l := s.rawLimit("limit", sh, t.number("N", 1, 20), pick(t, "window", t.windows()))
	if sh.algorithm == core.Hybrid {
		l.hot = t.number("hot", 0, l.n)
	}
	t.limits = []*limit{l}
	for range t.number("before", 1, 12) {
		switch t.number("action", 0, 5) {
		case 0:
			t.pass()
		case 1:
			s.advance(time.Duration(t.number("percent", 1, 100)*l.Window/400) * us)
		case 2:
			if s.h.Step != nil && t.odds("step", 30) {
				s.step(t.stepBy())
			}
		case 3:
			t.held = append(t.held, s.call(core.OpReserve, t.cost(l), l))
		default:
			s.take(t.cost(l), l)
		}
	}
	cost := t.number("cost", 1, l.n)
	refused := s.take(cost, l).Parts[0]
	if refused.Done {
		return
	}
	wait := refused.FitsAt.Sub(refused.At)
	if !s.h.Live && wait > us {
		s.advance(wait - us)
		if x := s.take(cost, l).Parts[0]; x.Done || x.FitsAt != refused.FitsAt {
			rt.Fatalf("1 µs before the wait is over: admitted is %v, FitsAt is %d, was %d", x.Done, x.FitsAt, refused.FitsAt)
		}
		wait = us
	}
	s.advance(wait)
	if x := s.take(cost, l).Parts[0]; !x.Done {
		rt.Fatalf("refused at the end of the wait (%s)", describe(&x))
	}
}
