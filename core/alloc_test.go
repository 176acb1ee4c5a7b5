package core_test

import (
	"context"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// underRaceDetector reports whether the race detector is on: it makes sync.Pool
// forget at random, so that counting allocations means nothing.
func underRaceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func TestADecisionTakesNoMemory(t *testing.T) {
	if underRaceDetector() {
		t.Skip("the race detector makes sync.Pool allocate")
	}
	ctx := context.Background()
	const n = 1_000_000
	own := core.ForLimit("address", keyfunc.Name("a"))
	for name, limits := range map[string][]core.Limit{
		"1 exact":   {core.PerHour(n)},
		"1 slotted": {core.PerHour(n).Slotted(60)},
		"1 hybrid":  {core.PerHour(n).Hybrid(60, 0.5)},
		"4":         {core.PerHour(n), core.PerMinute(n).Slotted(6), core.PerDay(n).Hybrid(24, 0), core.PerSecond(n)},
		"4, one with its own key": {
			core.PerHour(n), core.PerMinute(n).Slotted(6), core.PerDay(n).Hybrid(24, 0), core.PerSecond(n).Named("address").Key(keyfunc.ByIP()),
		},
	} {
		for _, secret := range [][]byte{nil, make([]byte, core.MinSecret)} {
			t.Run(name, func(t *testing.T) {
				c := newHandClock()
				l := limiterWith(t, core.Config{Name: "test", Limits: limits, Store: memoryOn(t, c), Secret: secret})
				var keys []core.LimitKey
				if limits[len(limits)-1].OwnKey() {
					keys = []core.LimitKey{own}
				}
				measure := func(what string, allowed bool, call func() (core.Decision, error)) {
					t.Helper()
					var d core.Decision
					var err error
					if got := testing.AllocsPerRun(500, func() { d, err = call() }); got != 0 {
						t.Errorf("%s: %v allocations", what, got)
					}
					if err != nil || d.Allowed != allowed {
						t.Errorf("%s: %+v, %v", what, d, err)
					}
				}
				admitted := map[string]func() (core.Decision, error){
					"allow":   func() (core.Decision, error) { return l.Allow(ctx, someone, keys...) },
					"allow n": func() (core.Decision, error) { return l.AllowN(ctx, someone, 7, keys...) },
					"peek":    func() (core.Decision, error) { return l.Peek(ctx, someone, keys...) },
					"peek n":  func() (core.Decision, error) { return l.PeekN(ctx, someone, 7, keys...) },
					"later": func() (core.Decision, error) {
						c.advance(time.Millisecond)
						return l.Allow(ctx, someone, keys...)
					},
				}
				allowKey(t, l, someone, 1, keys...) // the first unit of a key makes its entry
				for what, call := range admitted {
					measure(what+", admitted", true, call)
				}
				for d := peek(t, l, 1, keys...); ; d = peek(t, l, 1, keys...) {
					if d.Shown().Remaining() == 0 {
						break
					}
					allow(t, l, d.Shown().Remaining(), keys...)
				}
				delete(admitted, "later")
				for what, call := range admitted {
					measure(what+", refused", false, call)
				}
			})
		}
	}
}

func TestAllocationsAreSeen(t *testing.T) {
	if underRaceDetector() {
		t.Skip("the race detector makes sync.Pool allocate")
	}
	// More limits than a decision holds in itself cost one allocation, or two
	// with the store's: this also shows that the test above would notice.
	l := limiterOn(t, newHandClock(), manyLimits(5)...)
	ctx := context.Background()
	if got := testing.AllocsPerRun(100, func() { _, _ = l.Peek(ctx, someone) }); got < 1 || got > 2 {
		t.Errorf("%v allocations with five limits", got)
	}
}
