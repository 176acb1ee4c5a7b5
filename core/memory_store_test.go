package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/storetest"
)

func openStore(tb testing.TB, cfg core.MemoryConfig) *core.Memory {
	tb.Helper()
	m, err := core.NewMemory(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = m.Close() })
	return m
}

// TestMemoryIsAStore runs the conformance suite on a clock that it moves.
func TestMemoryIsAStore(t *testing.T) {
	for name, maxKeys := range map[string]int{"default": 0, "few shards": 50_000} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(tb testing.TB) *storetest.Harness {
				clock := storetest.NewClock(core.InstantOf(time.Now()))
				m := openStore(tb, core.MemoryConfig{MaxKeys: maxKeys, Clock: func() time.Time { return clock.Now().Time() }})
				return &storetest.Harness{
					Open:    func(testing.TB) core.Store { return m },
					Now:     clock.Now,
					Advance: clock.Advance,
					Step:    clock.Step,
				}
			})
		})
	}
}

// TestMemoryIsAStoreOnTheProcessClock runs the suite on the monotonic clock and
// with the timer, in virtual time.
func TestMemoryIsAStoreOnTheProcessClock(t *testing.T) {
	storetest.RunIn(t, synctest.Test, func(tb testing.TB) *storetest.Harness {
		m := openStore(tb, core.MemoryConfig{})
		return &storetest.Harness{
			Open:    func(testing.TB) core.Store { return m },
			Now:     func() core.Instant { return core.InstantOf(time.Now()) },
			Advance: time.Sleep,
			Live:    true,
		}
	})
}
