package core_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

var (
	tenSeconds = core.NewCounter("test", "10s", 10*time.Second, core.Exact, 0)
	oneHour    = core.NewCounter("test", "1h", time.Hour, core.Exact, 0)
)

// memoryBench is a Memory on a clock that the test moves.
type memoryBench struct {
	*core.Memory
	t   testing.TB
	now atomic.Int64 // microseconds since zero
}

// benchZero is where the clock of a memoryBench starts.
const benchZero = core.Instant(1_700_000_000_000_000)

func newMemoryBench(t testing.TB, maxKeys int) *memoryBench {
	t.Helper()
	b := &memoryBench{t: t}
	m, err := core.NewMemory(core.MemoryConfig{
		MaxKeys: maxKeys,
		Clock:   func() time.Time { return (benchZero + core.Instant(b.now.Load())).Time() },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	b.Memory = m
	return b
}

// at sets the clock to d after zero.
func (b *memoryBench) at(d time.Duration) { b.now.Store(d.Microseconds()) }

// ask has the store do op for cost units of n on one counter of one key.
func (b *memoryBench) ask(op core.Op, counter *core.Counter, key string, n, cost int64) core.Part {
	b.t.Helper()
	c := core.Call{Op: op, Parts: []core.Part{{Counter: counter, Key: keyfunc.User(key), N: n, Cost: cost}}}
	if err := b.Do(context.Background(), &c); err != nil {
		b.t.Fatal(err)
	}
	return c.Parts[0]
}

// take counts one unit of n within ten seconds and reports whether it fitted.
func (b *memoryBench) take(key string, n int64) bool {
	b.t.Helper()
	return b.ask(core.OpTake, tenSeconds, key, n, 1).Done
}

// flood takes one unit for each of many keys that nobody has seen before.
func (b *memoryBench) flood(name string, keys int) {
	b.t.Helper()
	for i := range keys {
		b.take(name+strconv.Itoa(i), 5)
	}
}

func TestMemoryConfigIsChecked(t *testing.T) {
	for _, bad := range []int{-1, math.MinInt, 1<<30 + 1} {
		m, err := core.NewMemory(core.MemoryConfig{MaxKeys: bad})
		var f *core.FieldError
		if m != nil || !errors.As(err, &f) || f.Field != "MemoryConfig.MaxKeys" || f.Value != strconv.Itoa(bad) || f.Remedy == "" {
			t.Errorf("MaxKeys %d: %v, %v", bad, m, err)
		}
	}
	for _, good := range []int{0, 1, core.DefaultMaxKeys} {
		m, err := core.NewMemory(core.MemoryConfig{MaxKeys: good})
		if err != nil {
			t.Fatalf("MaxKeys %d: %v", good, err)
		}
		m.Close()
	}
}

func TestClockSetBackKeepsEachKeysOwnTime(t *testing.T) {
	b := newMemoryBench(t, 0)
	for i := range 3 {
		b.at(time.Duration(100+i) * time.Second)
		if !b.take("a", 3) {
			t.Fatal("refused")
		}
	}
	for _, step := range []struct {
		clock, wait time.Duration
		admitted    bool
	}{
		{50 * time.Second, 8 * time.Second, false}, // the key's time goes on from 102 s
		{57_999 * time.Millisecond, time.Millisecond, false},
		{58 * time.Second, 0, true},
		{58 * time.Second, time.Second, false},
		{20 * time.Second, time.Second, false}, // and again
		{21 * time.Second, 0, true},
	} {
		b.at(step.clock)
		p := b.ask(core.OpTake, tenSeconds, "a", 3, 1)
		if p.Done != step.admitted || p.FitsAt.Sub(p.At) != step.wait {
			t.Errorf("clock at %v: admitted %t, wait %v; want %t, %v", step.clock, p.Done, p.FitsAt.Sub(p.At), step.admitted, step.wait)
		}
		if p := b.ask(core.OpPeek, tenSeconds, "b", 3, 1); p.At != benchZero.Add(step.clock) {
			t.Errorf("clock at %v: a key that has seen nothing is at %d", step.clock, p.At-benchZero)
		}
	}
}

func TestClockStepForwardAndBackBlocksNobodyForLong(t *testing.T) {
	b := newMemoryBench(t, 0)
	b.take("before", 1)
	b.at(time.Hour)
	for range 2 {
		b.take("during", 2)
	}
	b.at(time.Second)
	if p := b.ask(core.OpTake, tenSeconds, "during", 2, 1); p.Done || p.FitsAt.Sub(p.At) != 10*time.Second {
		t.Errorf("admitted %t, wait %v: live units were dropped, or block for an hour", p.Done, p.FitsAt.Sub(p.At))
	}
	b.at(11*time.Second - time.Microsecond)
	if b.take("during", 2) {
		t.Error("admitted while both units are live on the key's own time")
	}
	b.at(11 * time.Second)
	if !b.take("during", 2) {
		t.Error("refused a window after the step was undone")
	}
	// It is forgotten as its own time says.
	b.at(21*time.Second - time.Microsecond)
	b.flood("others ", 300)
	if got := b.ask(core.OpPeek, tenSeconds, "during", 2, 1).Used; got != 1 {
		t.Errorf("%d units used, want the one that is live", got)
	}
}

func TestClockThatStartsBeforeInstantsDoIsAFault(t *testing.T) {
	for _, start := range []time.Time{{}, time.Unix(-5, 0), time.Unix(0, 0)} {
		m, err := core.NewMemory(core.MemoryConfig{Clock: func() time.Time { return start }})
		if f, ok := errors.AsType[*core.FieldError](err); m != nil || !ok || f.Field != "MemoryConfig.Clock" || f.Remedy == "" {
			t.Errorf("a clock that reads %v: %v", start, err)
		}
	}
}

// Zero and less would mean that there is no such moment.
func TestClockSetBackBeyond1970IsStillAnInstant(t *testing.T) {
	now := time.Unix(5, 0)
	m, err := core.NewMemory(core.MemoryConfig{Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	now = time.Unix(-5, 0)
	c := core.Call{Parts: []core.Part{{Counter: tenSeconds, Key: keyfunc.User("a"), N: 1, Cost: 1}}}
	if err := m.Do(t.Context(), &c); err != nil || c.Parts[0].At < 1 {
		t.Errorf("at %d, %v", c.Parts[0].At, err)
	}
}

func TestUnknownOperationCountsNothing(t *testing.T) {
	m, err := core.NewMemory(core.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	c := core.Call{Op: core.OpReset + 1, Parts: []core.Part{{Counter: tenSeconds, Key: keyfunc.User("a"), N: 1, Cost: 1}}}
	if err := m.Do(t.Context(), &c); !errors.Is(err, errors.ErrUnsupported) || m.Len() != 0 {
		t.Errorf("%v, and %d keys", err, m.Len())
	}
}

func TestClosedMemoryDecidesNothing(t *testing.T) {
	b := newMemoryBench(t, 0)
	b.flood("a ", 100)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if b.Len() != 0 {
		t.Errorf("%d keys after Close", b.Len())
	}
	for op := core.OpTake; op <= core.OpReset; op++ {
		for _, parts := range []int{1, 2, 5} {
			c := core.Call{Op: op, Parts: make([]core.Part, parts)}
			for i := range c.Parts {
				c.Parts[i] = core.Part{Counter: tenSeconds, Key: keyfunc.User(strconv.Itoa(i)), N: 1, Cost: 1}
			}
			if err := b.Do(t.Context(), &c); !errors.Is(err, core.ErrClosed) {
				t.Errorf("%v of %d parts: %v, want ErrClosed", op, parts, err)
			}
		}
	}
	if b.Len() != 0 || b.Overflow() != 0 {
		t.Errorf("%d keys, %d cells came after Close", b.Len(), b.Overflow())
	}
}

func TestOneFullLimitOfSeveralKeepsAllOthersFree(t *testing.T) {
	b := newMemoryBench(t, 0)
	call := func(watched bool, n ...int64) core.Call {
		c := core.Call{}
		for i, n := range n {
			c.Parts = append(c.Parts, core.Part{
				Counter: core.NewCounter("test", strconv.Itoa(i), time.Hour, core.Exact, 0),
				Key:     keyfunc.User(strconv.Itoa(i % 3)), N: n, Cost: 2, Watched: watched && i == 1,
			})
		}
		if err := b.Do(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	call(false, 9, 3, 9, 9, 9)
	for _, test := range []struct {
		watched bool
		used    [5]int64
	}{{false, [5]int64{2, 2, 2, 2, 2}}, {true, [5]int64{4, 2, 4, 4, 4}}} {
		c := call(test.watched, 9, 3, 9, 9, 9)
		for i, p := range c.Parts {
			if p.Used != test.used[i] || p.Done != (i != 1) || i != 1 && p.FitsAt != p.At {
				t.Errorf("watched %t: limit %d has %d used, done %t", test.watched, i, p.Used, p.Done)
			}
		}
		if c.Parts[1].FitsAt != benchZero.Add(time.Hour) {
			t.Errorf("the full limit fits at %d", c.Parts[1].FitsAt)
		}
	}
}

func TestEachLimitOfACallCountsItsOwnKey(t *testing.T) {
	b := newMemoryBench(t, 0)
	second := core.NewCounter("test", "second", 10*time.Second, core.Exact, 0)
	for _, user := range []string{"a", "b", "b"} {
		c := core.Call{Parts: []core.Part{
			{Counter: tenSeconds, Key: keyfunc.Name("everyone"), N: 9, Cost: 1},
			{Counter: second, Key: keyfunc.User(user), N: 9, Cost: 1},
		}}
		if err := b.Do(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
	}
	for user, want := range map[string]int64{"a": 1, "b": 2, "c": 0} {
		if p := b.ask(core.OpPeek, second, user, 9, 1); p.Used != want {
			t.Errorf("%s has %d units, want %d", user, p.Used, want)
		}
	}
	c := core.Call{Op: core.OpPeek, Parts: []core.Part{{Counter: tenSeconds, Key: keyfunc.Name("everyone"), N: 9, Cost: 1}}}
	if err := b.Do(t.Context(), &c); err != nil || c.Parts[0].Used != 3 {
		t.Errorf("all together have %d units, want 3 (%v)", c.Parts[0].Used, err)
	}
}

func TestKnownKeysTakeNoMemory(t *testing.T) {
	counters := func(n int) (list []*core.Counter) {
		for i := range n {
			algorithm := core.Algorithm(i % 3)
			list = append(list, core.NewCounter("test", strconv.Itoa(i), 10*time.Millisecond, algorithm, 5))
		}
		return list
	}
	for _, test := range []struct {
		name  string
		parts int
		keys  int
		n     int64
		step  time.Duration
	}{
		{"one limit, admitted and trimmed", 1, 1, core.MaxUnits, time.Millisecond},
		{"one limit, refused", 1, 1, 5, 0},
		{"one limit, both", 1, 1, 5, time.Millisecond},
		{"four limits, admitted and trimmed", 4, 1, core.MaxUnits, time.Millisecond},
		{"four limits of four keys, admitted and trimmed", 4, 4, core.MaxUnits, time.Millisecond},
		{"four limits of four keys, both", 4, 4, 5, time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newMemoryBench(t, 0)
			var c core.Call
			for i, counter := range counters(test.parts) {
				c.Parts = append(c.Parts, core.Part{
					Counter: counter, Key: keyfunc.User(strconv.Itoa(i % test.keys)), N: test.n, HotFrom: test.n * 4 / 5, Cost: 1,
				})
			}
			do := func() {
				b.now.Add(test.step.Microseconds())
				if err := b.Do(context.Background(), &c); err != nil {
					t.Fatal(err)
				}
			}
			for range 100 {
				do()
			}
			if got := testing.AllocsPerRun(1000, do); got != 0 {
				t.Errorf("%v allocations per decision", got)
			}
		})
	}
}

func TestCallOfOneCounterTwiceIsNoCallOfTwoEntries(t *testing.T) {
	// A limiter never does this. A store must not lose track of its keys even so.
	b := newMemoryBench(t, 0)
	part := core.Part{Counter: tenSeconds, Key: keyfunc.User("a"), N: 5, Cost: 1}
	c := core.Call{Parts: []core.Part{part, part}}
	if err := b.Do(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	if p := b.ask(core.OpPeek, tenSeconds, "a", 5, 1); p.Used != 2 || b.Len() != 1 {
		t.Errorf("%d units in %d keys, want 2 in one", p.Used, b.Len())
	}
	if b.ask(core.OpReset, tenSeconds, "a", 5, 1); b.Len() != 0 {
		t.Errorf("%d keys after a reset", b.Len())
	}

	full := newMemoryBench(t, 1)
	full.take("first", 5)
	if err := full.Do(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	if p := full.ask(core.OpPeek, tenSeconds, "a", 5, 1); p.Used != 2 || full.Overflow() != 1 {
		t.Errorf("%d units in %d cells, want 2 in one", p.Used, full.Overflow())
	}
}
