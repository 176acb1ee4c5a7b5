package core_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// BenchmarkFloor is what a decision cannot go below: reading the clock, a mutex
// and a map lookup.
func BenchmarkFloor(b *testing.B) {
	var mu sync.Mutex
	base := time.Now()
	known := map[[2]uint64]uint32{{1, 2}: 3}
	id := [2]uint64{1, 2}
	var now time.Duration
	var at uint32
	for b.Loop() {
		mu.Lock()
		now = time.Since(base)
		at = known[id]
		mu.Unlock()
	}
	if now <= 0 || at != 3 {
		b.Fatal(now, at)
	}
}

// BenchmarkMemoryHotKey is a decision of the store alone on one key.
func BenchmarkMemoryHotKey(b *testing.B) {
	exact := func(name string) *core.Counter {
		return core.NewCounter("bench", name, time.Hour, core.Exact, 0)
	}
	short := core.NewCounter("bench", "short", time.Millisecond, core.Exact, 0)
	for _, bench := range []struct {
		name     string
		counters []*core.Counter
		n        int64
	}{
		{"refused/N=10", []*core.Counter{exact("1h")}, 10},
		{"refused/N=1000", []*core.Counter{exact("1h")}, 1000},
		{"refused/N=1000000", []*core.Counter{exact("1h")}, 1_000_000},
		{"admitted", []*core.Counter{short}, core.MaxUnits},
		{"admitted-slotted", []*core.Counter{core.NewCounter("bench", "1s", time.Second, core.Slotted, 10)}, core.MaxUnits},
		{"two-refused", []*core.Counter{exact("1h"), exact("2h")}, 10},
		{"four-refused", []*core.Counter{exact("1h"), exact("2h"), exact("3h"), exact("4h")}, 10},
	} {
		b.Run(bench.name, func(b *testing.B) {
			m, err := core.NewMemory(core.MemoryConfig{})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			c := &core.Call{}
			for _, counter := range bench.counters {
				c.Parts = append(c.Parts, core.Part{Counter: counter, Key: keyfunc.User("someone-with-20-byte"), N: bench.n, Cost: 1})
			}
			ctx := context.Background()
			if bench.n < core.MaxUnits {
				for range bench.n {
					m.Do(ctx, c)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				m.Do(ctx, c)
			}
		})
	}
}

// BenchmarkMemoryKeys is a decision on one of many keys, in random order, that
// have one unit each.
func BenchmarkMemoryKeys(b *testing.B) {
	for _, keys := range []int{1, 1000, 100_000, 1_000_000} {
		for _, refused := range []bool{true, false} {
			b.Run(fmt.Sprintf("keys=%d/refused=%t", keys, refused), func(b *testing.B) {
				benchmarkKeys(b, keys, refused)
			})
		}
	}
}

func benchmarkKeys(b *testing.B, keys int, refused bool) {
	m, err := core.NewMemory(core.MemoryConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	counter, n := core.NewCounter("bench", "1h", time.Hour, core.Exact, 0), int64(1)
	if !refused {
		counter, n = core.NewCounter("bench", "1h", time.Hour, core.Slotted, 10), core.MaxUnits
	}
	names := make([]keyfunc.Key, keys)
	c := &core.Call{Parts: []core.Part{{Counter: counter, N: n, Cost: 1}}}
	ctx := context.Background()
	for i := range names {
		names[i] = keyfunc.User(strconv.FormatInt(1e15+int64(i), 10))
		c.Parts[0].Key = names[i]
		m.Do(ctx, c)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i = (i + 611_953) % keys
		c.Parts[0].Key = names[i]
		m.Do(ctx, c)
	}
}
