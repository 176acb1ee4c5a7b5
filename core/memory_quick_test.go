package core

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate/keyfunc"
	"pgregory.net/rapid"
)

// byPlaces does what c asks for as if no call were simple.
func (m *Memory) byPlaces(c *Call) {
	places := make([]place, len(c.Parts))
	m.locate(c, places)
	m.lock(places)
	now := m.now()
	m.carryOut(c, places, now)
	m.unlock(places)
	m.tidy(now)
}

// TestQuickAnswersAreThoseOfPlaces puts the same calls to two stores, one of which
// decides none of them quickly.
func TestQuickAnswersAreThoseOfPlaces(t *testing.T) {
	counters := []*Counter{
		NewCounter("l", "exact", 100*time.Millisecond, Exact, 0),
		NewCounter("l", "slotted", 100*time.Millisecond, Slotted, 3),
		NewCounter("l", "slow", 300*time.Millisecond, Slotted, 7),
		NewCounter("l", "hybrid", 100*time.Millisecond, Hybrid, 3),
	}
	rapid.Check(t, func(t *rapid.T) {
		clock := Instant(1_700_000_000_000_000)
		open := func() *Memory {
			m, err := NewMemory(MemoryConfig{MaxKeys: 5, Clock: func() time.Time { return clock.Time() }})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		a, b := open(), open()
		b.seeds = a.seeds // the same keys share the same cells
		parts := rapid.Custom(func(t *rapid.T) Part {
			return Part{
				Counter: counters[rapid.IntRange(0, 3).Draw(t, "counter")], HotFrom: 4, N: rapid.Int64Range(1, 12).Draw(t, "n"),
				Cost: rapid.Int64Range(1, 4).Draw(t, "cost"), Watched: rapid.Bool().Draw(t, "watched"),
			}
		})
		t.Repeat(map[string]func(*rapid.T){
			"wait":               func(t *rapid.T) { clock += Instant(rapid.Int64Range(0, 120_000).Draw(t, "micros")) },
			"set the clock back": func(t *rapid.T) { clock -= Instant(rapid.Int64Range(1, 50_000).Draw(t, "micros")) },
			"call": func(t *rapid.T) {
				c := Call{
					Op:    rapid.SampledFrom([]Op{OpTake, OpTake, OpTake, OpPeek, OpReserve, OpReset}).Draw(t, "op"),
					ID:    ReservationID{1},
					Parts: rapid.SliceOfN(parts, 1, 5).Draw(t, "parts"),
				}
				one := keyfunc.User(rapid.StringN(1, 1, 1).Draw(t, "key"))
				for i := range c.Parts {
					c.Parts[i].Key = one
				}
				d := Call{Op: c.Op, ID: c.ID, Parts: slices.Clone(c.Parts)}
				if err := a.Do(t.Context(), &c); err != nil {
					t.Fatal(err)
				}
				b.byPlaces(&d)
				if !slices.Equal(c.Parts, d.Parts) {
					t.Fatalf("%v at %d:\n got %+v\nwant %+v", c.Op, clock, c.Parts, d.Parts)
				}
			},
			"": func(t *rapid.T) {
				checkMemory(t, a)
				checkMemory(t, b)
			},
		})
	})
}

func TestCallsThatAreNotSimple(t *testing.T) {
	m := openMemory(t, MemoryConfig{})
	hour := NewCounter("l", "1h", time.Hour, Exact, 0)
	part := Part{Counter: hour, Key: keyfunc.User("a"), N: 10, Cost: 1}
	other := part
	other.Key = keyfunc.User("b")
	for _, c := range []Call{
		{}, {Op: OpReserve, Parts: []Part{part}}, {Parts: []Part{part, other}}, {Parts: make([]Part, inlineParts+1)},
	} {
		if m.quickly(&c) {
			t.Errorf("%+v was decided quickly", c)
		}
	}
	if err := m.Do(t.Context(), &Call{}); err != nil {
		t.Errorf("a call that asks for nothing: %v", err)
	}
	c := Call{Parts: []Part{part}}
	if m.quickly(&c) {
		t.Error("a call on an unknown key was decided quickly")
	}
	if err := m.Do(t.Context(), &c); err != nil || !c.Parts[0].Done {
		t.Fatal(c, err)
	}
	if !m.quickly(&c) || !c.Parts[0].Done || c.Parts[0].Used != 2 {
		t.Errorf("a call on a known key: %+v", c.Parts[0])
	}
	m.Close()
	if m.quickly(&c) {
		t.Error("a closed store has decided")
	}
	if err := m.Do(t.Context(), &c); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed store: %v", err)
	}
}
