package fallback_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/fallback"
	"github.com/slidegate/slidegate/keyfunc"
)

// shaky is the way of one instance to the primary store: it can be cut, and lose replies
// after the store has counted.
type shaky struct {
	core.Store
	cut, loses bool
}

func (s *shaky) Do(ctx context.Context, c *core.Call) error {
	if s.cut {
		return outage(core.FailureRefused)
	}
	if err := s.Store.Do(ctx, c); err != nil || !s.loses {
		return err
	}
	return outage(core.FailureTimeout)
}

func (*shaky) Close() error { return nil }

// admission is a request that passed.
type admission struct {
	at    core.Instant
	units int64
}

// fullest returns the most units in any half-open window.
func fullest(all []admission, window int64) (most int64) {
	from, sum := 0, int64(0)
	for _, a := range all {
		for sum += a.units; all[from].at <= a.at-core.Instant(window); from++ {
			sum -= all[from].units
		}
		most = max(most, sum)
	}
	return most
}

// Whatever fails, however often and for whom: no window holds more than N and the shares
// of the instances, once more N for each time that the primary store lost its counts
// within it, and never more than N if the policy is to refuse.
func TestTheBoundHoldsThroughOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ testing.TB }{t}, boundHolds) // without T.Deadline, which a bubble lacks
	})
}

func boundHolds(rt *rapid.T) {
	now := time.Now // virtual: the breaker lets calls through as time goes by
	{
		memory, err := core.NewMemory(core.MemoryConfig{Clock: now})
		if err != nil {
			rt.Fatal(err)
		}
		instances := rapid.SampledFrom([]int{1, 4}).Draw(rt, "instances")
		n := rapid.Int64Range(1, 12).Draw(rt, "n")
		policy := rapid.SampledFrom([]core.Policy{core.Local, core.Closed}).Draw(rt, "policy")
		replicas := rapid.SampledFrom([]int{0, 1, 3, 4}).Draw(rt, "replicas")
		algorithm := rapid.SampledFrom([]core.Algorithm{core.Exact, core.Slotted, core.Hybrid}).Draw(rt, "algorithm")
		c := core.NewCounter("api", "limit", time.Minute, algorithm, 6)
		maxCost := int64(1)
		bound, own := n, max(n/int64(max(replicas, 1)), 1)
		ways, stores := make([]*shaky, instances), make([]*fallback.Store, instances)
		for i := range instances {
			ways[i] = &shaky{Store: memory}
			stores[i], err = fallback.New(ways[i], fallback.Config{
				Replicas: replicas, Clock: now, Failures: rapid.IntRange(1, 6).Draw(rt, "failures"),
				Cold: rapid.Bool().Draw(rt, "cold"), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
				Lanes: func(*core.Call) uint64 { return 1 },
			})
			if err != nil {
				rt.Fatal(err)
			}
			defer func() { _ = stores[i].Close() }()
		}
		var all []admission
		lost := 0
		rt.Repeat(map[string]func(*rapid.T){
			"request": func(rt *rapid.T) {
				cost := rapid.Int64Range(1, min(n, 3)).Draw(rt, "cost")
				maxCost = max(maxCost, cost)
				x := &core.Call{Op: core.OpTake, Policy: policy, Parts: []core.Part{{
					Counter: c, Key: keyfunc.User("ada"), N: n, HotFrom: n / 2, Cost: cost,
				}}}
				if stores[rapid.IntRange(0, instances-1).Draw(rt, "instance")].Do(rt.Context(), x) == nil && x.Parts[0].Done {
					all = append(all, admission{core.InstantOf(now()), cost})
				}
			},
			"time": func(rt *rapid.T) {
				time.Sleep(time.Duration(rapid.Int64Range(1, 20_000_000).Draw(rt, "passes")) * time.Microsecond)
			},
			"break": func(rt *rapid.T) {
				w := ways[rapid.IntRange(0, instances-1).Draw(rt, "instance")]
				w.cut, w.loses = rapid.Bool().Draw(rt, "cut"), rapid.Bool().Draw(rt, "loses")
			},
			"all mended": func(*rapid.T) {
				for _, w := range ways {
					w.cut, w.loses = false, false
				}
			},
			"restart empty": func(rt *rapid.T) {
				if lost++; lost > 1 {
					rt.Skip("counts are lost once")
				}
				x := &core.Call{Op: core.OpReset, Parts: []core.Part{{Counter: c, Key: keyfunc.User("ada"), N: n, Cost: 1}}}
				if err := memory.Do(rt.Context(), x); err != nil {
					rt.Fatal(err)
				}
			},
		})
		if policy == core.Local {
			bound += int64(instances) * max(own, maxCost)
		}
		if lost > 0 {
			bound += n
		}
		if most := fullest(all, c.Window); most > bound {
			rt.Fatalf("%d units in a window, more than %d", most, bound)
		}
	}
}

// The bound is reached, so that it says no more than it must: N by the primary, then a
// fresh instance's share, and once more N after the counts were lost.
func TestTheBoundIsReached(t *testing.T) {
	h := newHouse(t, fallback.Config{Cold: true, Failures: 1000})
	if got := h.admits(20, 10); got != 10 {
		t.Fatal(got)
	}
	h.primary.fail(outage(core.FailureRefused))
	if got := h.admits(20, 10); got != 10 {
		t.Errorf("%d by a cold window", got)
	}
	h.primary.mend()
	if got := h.admits(20, 10); got != 0 {
		t.Errorf("%d by the primary, which has counted 10", got)
	}
}
