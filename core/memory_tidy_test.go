package core

import (
	"strconv"
	"testing"
	"time"

	"github.com/slidegate/slidegate/keyfunc"
)

func TestIdleKeysGoAsNewOnesComeWhenTheClockIsTheCallers(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	m := openMemory(t, MemoryConfig{Clock: func() time.Time { return now }})
	second := NewCounter("l", "1s", time.Second, Exact, 0)
	takeKeys(t, m, second, 0, 1000)
	if m.awake.Load() || m.janitor.timer != nil {
		t.Error("a store with a clock of its own has a timer, which knows another time")
	}
	now = now.Add(time.Minute)
	takeKeys(t, m, second, 1000, 2000)
	if got := m.Len(); got > 1100 {
		t.Errorf("%d keys after 1000 have replaced 1000", got)
	}
	checkMemory(t, m)
}

func TestCallsTidyAStoreThatIsHalfFullWhenTheClockIsTheCallers(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	const most = 40_000
	m := openMemory(t, MemoryConfig{MaxKeys: most, Clock: func() time.Time { return now }})
	second := NewCounter("l", "1s", time.Second, Exact, 0)
	takeKeys(t, m, second, 0, most)
	c := Call{Op: OpPeek, Parts: []Part{{Counter: second, Key: keyfunc.User("user 0"), N: 1, Cost: 1}}}
	look := func() {
		if err := m.Do(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Second - time.Microsecond)
	if look(); m.Len() != most {
		t.Fatalf("%d keys while all are live, want %d", m.Len(), most)
	}
	now = now.Add(time.Microsecond)
	for calls, last := 0, m.Len(); last > most/2; last = m.Len() {
		look()
		// A call makes room if its key is unknown, and looks at as many as the timer
		// does under one lock, of the shard at hand and the rest of another.
		if gone := last - m.Len(); gone > 2*sweepPerLock+sweepPerKey {
			t.Fatalf("one call has forgotten %d keys", gone)
		}
		if calls++; calls > most {
			t.Fatalf("%d keys after %d calls", m.Len(), calls)
		}
	}
	checkMemory(t, m)
	half := m.Len()
	for range 100 {
		look()
	}
	if m.Len() != half {
		t.Errorf("calls have forgotten %d keys of a store that is not half full", half-m.Len())
	}
}

// A clock that jumps ahead and back again, as tests have it, must not free what
// other keys have in use: at the instants that it shows then, that is live.
func TestJumpOfTheClockThatIsUndoneForgetsNoOtherKey(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	m := openMemory(t, MemoryConfig{Clock: func() time.Time { return now }})
	second := NewCounter("l", "1s", time.Second, Exact, 0)
	takeKeys(t, m, second, 0, 100)
	now = now.Add(time.Hour)
	for range 1000 {
		takeKeys(t, m, second, 0, 1)
	}
	now = now.Add(-time.Hour)
	for i := 1; i < 100; i++ {
		c := Call{Op: OpPeek, Parts: []Part{{Counter: second, Key: keyfunc.User("user " + strconv.Itoa(i)), N: 1, Cost: 1}}}
		if err := m.Do(t.Context(), &c); err != nil || c.Parts[0].Done {
			t.Fatalf("key %d: %+v, %v; its unit is live", i, c.Parts[0], err)
		}
	}
}
