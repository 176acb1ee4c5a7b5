package storetest_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/storetest"
)

// A store that tells the time by a clock of its configuration gets a virtual
// one; the function goes where a test would call storetest.Run.
func ExampleRun() {
	testStore := func(t *testing.T) {
		storetest.Run(t, func(tb testing.TB) *storetest.Harness {
			clock := storetest.NewClock(core.InstantOf(time.Now()))
			store := newReference(clock.Now, "")
			tb.Cleanup(func() { store.Close() })
			return &storetest.Harness{
				Open:    func(testing.TB) core.Store { return store },
				Now:     clock.Now,
				Advance: clock.Advance,
				Step:    clock.Step,
			}
		})
	}
	_ = testStore // named TestStore, in a file of the store's tests
}
