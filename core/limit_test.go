package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

func TestLimitConstructors(t *testing.T) {
	for _, test := range []struct {
		limit     core.Limit
		name      string
		n         int64
		window    time.Duration
		algorithm core.Algorithm
		slots     int
		hot       float64
	}{
		{core.Per(7, 90*time.Second), "1m30s", 7, 90 * time.Second, core.Exact, 0, 0},
		{core.PerSecond(1), "1s", 1, time.Second, core.Exact, 0, 0},
		{core.PerMinute(2), "1m", 2, time.Minute, core.Exact, 0, 0},
		{core.PerHour(3), "1h", 3, time.Hour, core.Exact, 0, 0},
		{core.PerDay(4), "24h", 4, 24 * time.Hour, core.Exact, 0, 0},
		{core.PerDay(4).Slotted(48), "24h", 4, 24 * time.Hour, core.Slotted, 48, 0},
		{core.PerDay(4).Hybrid(24, 0.25), "24h", 4, 24 * time.Hour, core.Hybrid, 24, 0.25},
		{core.PerDay(4).Hybrid(24, 0), "24h", 4, 24 * time.Hour, core.Hybrid, 24, core.DefaultHot},
		{core.PerDay(4).Hybrid(24, 0.25).Slotted(3), "24h", 4, 24 * time.Hour, core.Slotted, 3, 0},
		{core.PerDay(4).Hybrid(24, 0.25).Exact(), "24h", 4, 24 * time.Hour, core.Exact, 0, 0},
		{core.PerDay(4).Named("day"), "day", 4, 24 * time.Hour, core.Exact, 0, 0},
		{core.Per(1, time.Hour+time.Minute), "1h1m", 1, time.Hour + time.Minute, core.Exact, 0, 0},
		{core.Per(1, time.Hour+time.Second), "1h0m1s", 1, time.Hour + time.Second, core.Exact, 0, 0},
		{core.Per(1, 10*time.Minute), "10m", 1, 10 * time.Minute, core.Exact, 0, 0},
		{core.Per(1, 1500*time.Microsecond), "1.5ms", 1, 1500 * time.Microsecond, core.Exact, 0, 0},
	} {
		l := test.limit
		if l.Name() != test.name || l.N() != test.n || l.Window() != test.window ||
			l.Algorithm() != test.algorithm || l.Slots() != test.slots || l.Hot() != test.hot {
			t.Errorf("%v: got %q, %d, %v, %v, %d, %v; want %+v", l,
				l.Name(), l.N(), l.Window(), l.Algorithm(), l.Slots(), l.Hot(), test)
		}
		if l.OwnKey() {
			t.Errorf("%v has a key of its own", l)
		}
	}
}

func TestLimitMethodsChangeACopy(t *testing.T) {
	plain := core.PerMinute(5)
	changed := plain.Named("login").Slotted(6).Key(keyfunc.ByIP())
	if plain.String() != "5/1m" || plain.OwnKey() {
		t.Errorf("the limit itself became %v", plain)
	}
	if changed.String() != "5/1m slotted=6 name=login" || !changed.OwnKey() {
		t.Errorf("the copy is %v", changed)
	}
	if back := changed.Key(nil); back.OwnKey() {
		t.Error("a limit without a key function has a key of its own")
	}
}

func TestAlgorithmNames(t *testing.T) {
	for a, want := range map[core.Algorithm]string{
		core.Exact: "exact", core.Slotted: "slotted", core.Hybrid: "hybrid", 3: "Algorithm(3)", 255: "Algorithm(255)",
	} {
		if got := a.String(); got != want {
			t.Errorf("Algorithm %d is called %q, want %q", uint8(a), got, want)
		}
	}
}

// A limit is judged when a limiter is made of it.
func TestBoundsOfLimits(t *testing.T) {
	const us = time.Microsecond
	valid := []core.Limit{
		core.Per(1, core.MinWindow),
		core.Per(core.MaxUnits, core.MaxWindow),
		core.Per(1, core.MinWindow+us),
		core.Per(1, core.MaxWindow-us),
		core.Per(1, time.Second).Slotted(1),
		core.Per(1, time.Second).Slotted(core.MaxSlots),
		core.Per(1, time.Millisecond).Slotted(1000),
		core.Per(1, time.Second).Hybrid(1, 0.0001),
		core.Per(1, time.Second).Hybrid(core.MaxSlots, 0.9999),
		core.PerSecond(1).Named("a"),
		core.PerSecond(1).Named(strings.Repeat("x", 64)),
		core.PerSecond(1).Named("AZaz09._/-"),
	}
	for _, l := range valid {
		if _, err := core.New(core.Config{Limits: []core.Limit{l}}); err != nil {
			t.Errorf("%v: %v", l, err)
		}
	}
	invalid := []struct {
		limit core.Limit
		field string // behind Limits[0]
		value string
	}{
		{core.Per(0, time.Second), "N", "0"},
		{core.Per(-1, time.Second), "N", "-1"},
		{core.Per(-1<<63, time.Second), "N", "-9223372036854775808"},
		{core.Per(core.MaxUnits+1, time.Second), "N", "1000000000000000"},
		{core.Per(1<<63-1, time.Second), "N", "9223372036854775807"},
		{core.Per(1, 0), "Window", "0s"},
		{core.Per(1, -time.Second), "Window", "-1s"},
		{core.Per(1, 999*us), "Window", "999µs"},
		{core.Per(1, core.MinWindow-1), "Window", "999.999µs"},
		{core.Per(1, core.MaxWindow+us), "Window", "8784h0m0.000001s"},
		{core.Per(1, 1<<63-1), "Window", "2562047h47m16.854775807s"},
		{core.Per(1, time.Second+1), "Window", "1.000000001s"},
		{core.PerSecond(1).Slotted(0), "Slots", "0"},
		{core.PerSecond(1).Slotted(-1), "Slots", "-1"},
		{core.PerSecond(1).Slotted(core.MaxSlots + 1), "Slots", "10001"},
		{core.Per(1, time.Millisecond).Slotted(1001), "Slots", "1001"},
		{core.Per(1, time.Millisecond).Hybrid(1001, 0), "Slots", "1001"},
		{core.PerSecond(1).Hybrid(0, 0.5), "Slots", "0"},
		{core.PerSecond(1).Hybrid(10, 1), "Hot", "1"},
		{core.PerSecond(1).Hybrid(10, -0.1), "Hot", "-0.1"},
		{core.PerSecond(1).Hybrid(10, nan()), "Hot", "NaN"},
		{core.PerSecond(1).Named("two words"), "Name", "two words"},
		{core.PerSecond(1).Named("{tag}"), "Name", "{tag}"},
		{core.PerSecond(1).Named("é"), "Name", "é"},
		{core.PerSecond(1).Named("a\x00"), "Name", "a\x00"},
		{core.PerSecond(1).Named(strings.Repeat("x", 65)), "Name", strings.Repeat("x", 65)},
	}
	for _, test := range invalid {
		l, err := core.New(core.Config{Limits: []core.Limit{test.limit}})
		if l != nil {
			t.Errorf("%v: a limiter was made", test.limit)
		}
		wantFault(t, err, "Limits[0]."+test.field, test.value)
	}
}

func nan() float64 {
	zero := 0.0
	return zero / zero
}

// A slot is rounded up to the microsecond, and the window is the current slot
// and the n before it: rounded down, or with one slot fewer, nearly twice the
// quota would pass in some window.
func TestCounterRelease(t *testing.T) {
	for _, test := range []struct {
		window time.Duration
		slots  int
		size   int64
		at     core.Instant
		want   core.Instant
	}{
		{time.Second, 10, 100_000, 0, 1_100_000},
		{time.Second, 10, 100_000, 99_999, 1_100_000},
		{time.Second, 10, 100_000, 100_000, 1_200_000},
		{time.Second, 1, 1_000_000, 999_999, 2_000_000},
		{time.Millisecond, 3, 334, 0, 4 * 334},
		{time.Millisecond, 1000, 1, 5, 1006},
	} {
		for _, a := range []core.Algorithm{core.Slotted, core.Hybrid} {
			c := core.NewCounter("api", "limit", test.window, a, test.slots)
			if c.SlotSize != test.size || c.Slots != test.slots || c.Window != test.window.Microseconds() {
				t.Errorf("%v in %d: slots of %d, %d of them, window %d", test.window, test.slots, c.SlotSize, c.Slots, c.Window)
			}
			if got := c.Release(test.at, false); got != test.want {
				t.Errorf("%v in %d: a unit of %d leaves at %d, want %d", test.window, test.slots, test.at, got, test.want)
			}
			if got, want := c.Release(test.at, true), test.at.Add(test.window); got != want {
				t.Errorf("counted exactly, a unit of %d leaves at %d, want %d", test.at, got, want)
			}
		}
	}
	exact := core.NewCounter("api", "limit", time.Second, core.Exact, 7)
	if exact.Slots != 0 || exact.SlotSize != 0 {
		t.Errorf("an exact counter has %d slots of %d", exact.Slots, exact.SlotSize)
	}
	if got := exact.Release(5, true); got != 1_000_005 {
		t.Errorf("an exact unit of 5 leaves at %d", got)
	}
}

func TestCountsExactly(t *testing.T) {
	for _, test := range []struct {
		algorithm core.Algorithm
		used      int64
		want      bool
	}{
		{core.Exact, 1, true}, {core.Exact, 1000, true},
		{core.Slotted, 1, false}, {core.Slotted, 1000, false},
		{core.Hybrid, 1, false}, {core.Hybrid, 8, false}, {core.Hybrid, 9, true},
	} {
		p := core.Part{Counter: core.NewCounter("l", "n", time.Second, test.algorithm, 10), N: 10, HotFrom: 8}
		if got := p.CountsExactly(test.used); got != test.want {
			t.Errorf("%v at %d used: exactly %v, want %v", test.algorithm, test.used, got, test.want)
		}
	}
}

// Whatever makes two limits count differently makes them different counters.
func TestCountersThatDifferNeverCollide(t *testing.T) {
	counters := []*core.Counter{
		core.NewCounter("a", "b", time.Second, core.Exact, 0),
		core.NewCounter("ab", "", time.Second, core.Exact, 0),
		core.NewCounter("", "ab", time.Second, core.Exact, 0),
		core.NewCounter("a/b", "c", time.Second, core.Exact, 0),
		core.NewCounter("a", "b/c", time.Second, core.Exact, 0),
		core.NewCounter(`a"/"b`, "c", time.Second, core.Exact, 0),
		core.NewCounter("a", `b"/"c`, time.Second, core.Exact, 0),
		core.NewCounter("a", "b", time.Minute, core.Exact, 0),
		core.NewCounter("a", "b", time.Second, core.Slotted, 10),
		core.NewCounter("a", "b", time.Second, core.Slotted, 20),
		core.NewCounter("a", "b", time.Second, core.Hybrid, 10),
		core.NewCounter("a", "B", time.Second, core.Exact, 0),
	}
	seen := map[string]int{}
	for i, c := range counters {
		if j, ok := seen[c.Identity()]; ok {
			t.Errorf("counters %d and %d are both %s", i, j, c.Identity())
		}
		seen[c.Identity()] = i
	}
	again := core.NewCounter("a", "b", time.Second, core.Exact, 5)
	if _, ok := seen[again.Identity()]; !ok {
		t.Errorf("the same counter has another identity: %s", again.Identity())
	}
}
