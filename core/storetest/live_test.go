package storetest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/storetest"
)

// distant is a reference store that takes time to reach, and to answer.
type distant struct {
	core.Store
	there, back time.Duration
}

func (d distant) Do(ctx context.Context, c *core.Call) error {
	time.Sleep(d.there)
	err := d.Store.Do(ctx, c)
	time.Sleep(d.back)
	return err
}

// live is a harness whose time passes by itself, inside a synctest bubble.
func live(fault string) func(testing.TB) *storetest.Harness {
	return func(testing.TB) *storetest.Harness {
		now := func() core.Instant { return core.InstantOf(time.Now()) }
		store := newReference(now, fault)
		return &storetest.Harness{
			Open: func(testing.TB) core.Store {
				return distant{store, 130 * time.Microsecond, 270 * time.Microsecond}
			},
			Now: now, Advance: time.Sleep, Live: true,
			Checks: 30, Steps: 30, Calls: 640,
		}
	}
}

func TestStoreOnALiveClockPasses(t *testing.T) {
	storetest.RunIn(t, synctest.Test, live(""))
}

// Without a clock that stands still the instants in the answers must do.
func TestFaultsAreFoundOnALiveClock(t *testing.T) {
	for _, fault := range []string{
		"one slot too few", "a refusal counts", "the cost is ignored",
		"the limits before the refusing one are charged", "the wait is 1 µs too long", "a late commit counts",
		"a cancel subtracts twice", "a commit counts from the reservation", "pending units do not count",
	} {
		t.Run(fault, func(t *testing.T) {
			for _, c := range storetest.Checks() {
				found := false
				synctest.Test(t, func(t *testing.T) {
					v := &verdict{TB: t}
					done := make(chan struct{})
					go func() {
						defer close(done)
						c.Run(v, live(fault))
					}()
					<-done
					found = v.failed
				})
				if found {
					return
				}
			}
			t.Fatal("the suite passes a store with this fault")
		})
	}
}
