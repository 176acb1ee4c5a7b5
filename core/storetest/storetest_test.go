package storetest_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/storetest"
)

// TestMain keeps the failures that the tests provoke quick, and their inputs to
// themselves.
func TestMain(m *testing.M) {
	flag.Parse()
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "0s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestStoreThatIsRightPasses(t *testing.T) { storetest.Run(t, harness("")) }

// harness returns how the suite reaches a reference store with that fault.
func harness(fault string) func(testing.TB) *storetest.Harness {
	return func(testing.TB) *storetest.Harness {
		clock := storetest.NewClock(core.InstantOf(time.Date(2030, 1, 2, 3, 4, 5, 678_901_000, time.UTC)))
		store := newReference(clock.Now, fault)
		return &storetest.Harness{
			Open: func(testing.TB) core.Store {
				if fault == "instances count apart" {
					return newReference(clock.Now, "")
				}
				return store
			},
			Now: clock.Now, Advance: clock.Advance, Step: clock.Step,
			Filled: 300, MaxUsed: 1 << 57, Calls: 640, // this store has no running totals, and is slow
		}
	}
}
