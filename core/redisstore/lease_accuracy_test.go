package redisstore_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// admission is a unit that was admitted, at an instant as the answer says, and by the
// clock of the machine between two.
type admission struct {
	at            core.Instant
	before, after int64 // µs
}

// worstAnswered returns the most units in any window by their answers' instants.
func worstAnswered(trace []admission, window time.Duration) (worst int) {
	slices.SortFunc(trace, func(a, b admission) int { return int(a.at - b.at) })
	first := 0
	for i := range trace {
		for trace[first].at <= trace[i].at.Add(-window) {
			first++
		}
		worst = max(worst, i-first+1)
	}
	return worst
}

// worstWitnessed returns the most units that were for certain admitted within any window
// by the clock of the machine.
func worstWitnessed(trace []admission, window time.Duration) (worst int) {
	byAfter := slices.Clone(trace)
	slices.SortFunc(byAfter, func(a, b admission) int { return int(a.after - b.after) })
	slices.SortFunc(trace, func(a, b admission) int { return int(b.before - a.before) })
	rank := func(after int64) int {
		n, _ := slices.BinarySearchFunc(byAfter, after, func(a admission, t int64) int { return int(a.after - t) })
		return n
	}
	tree := make([]int, len(trace)+1) // of Fenwick, over the ranks
	for _, a := range trace {
		for i := rank(a.after) + 1; i < len(tree); i += i & -i {
			tree[i]++
		}
		sum := 0
		for i := rank(a.before + window.Microseconds()); i > 0; i -= i & -i {
			sum += tree[i]
		}
		worst = max(worst, sum)
	}
	return worst
}

// offer has callers of a store ask at a steady rate for a while, and returns what was
// admitted, and how far behind its time a caller was at most.
func offer(tb testing.TB, s core.Store, c *core.Counter, n int64, callers int, perSecond float64, d time.Duration) (trace []admission, late time.Duration) {
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			x := call(core.OpTake, c, n, 1)
			x.Budget = 5 * time.Second
			var own []admission
			done, behind := 0, time.Duration(0)
			for {
				elapsed := min(time.Since(began), d)
				for due := int(elapsed.Seconds() * perSecond / float64(callers)); done < due; done++ {
					before := time.Now().UnixMicro()
					if err := s.Do(context.Background(), x); err != nil {
						tb.Error(err)
						return
					}
					if x.Parts[0].Done {
						own = append(own, admission{x.Parts[0].At, before, time.Now().UnixMicro()})
					}
				}
				behind = max(behind, min(time.Since(began), d)-elapsed)
				if elapsed == d {
					break
				}
				time.Sleep(time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			trace, late = append(trace, own...), max(late, behind)
		})
	}
	all.Wait()
	return trace, late
}

// Four instances are offered twice what a limit admits: no window holds more than N, and
// little less is admitted than could be.
func TestLeasesUnderOverload(t *testing.T) {
	d, n := 3*time.Second, int64(20_000)
	if os.Getenv("SLIDEGATE_LEASES") != "" {
		d, n = 10*time.Second, 100_000
	}
	server := redistest.Need(t)
	c := counter("limit", core.Exact, time.Second, 0)
	var mu sync.Mutex
	var all sync.WaitGroup
	var trace []admission
	late := time.Duration(0)
	began := time.Now()
	for range 4 {
		client := redis.NewClient(&redis.Options{Addr: server.Addr()})
		t.Cleanup(func() { _ = client.Close() })
		s, err := redisstore.New(client, quiet, redisstore.Leases(50*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		all.Go(func() {
			own, behind := offer(t, s, c, n, 16, float64(n)/2, d)
			mu.Lock()
			defer mu.Unlock()
			trace, late = append(trace, own...), max(late, behind)
		})
	}
	all.Wait()
	inTime := 0
	for _, a := range trace {
		if a.after-began.UnixMicro() < d.Microseconds() {
			inTime++
		}
	}
	share := float64(inTime) / float64(n*int64(d/time.Second))
	answered, witnessed := worstAnswered(trace, time.Second), worstWitnessed(trace, time.Second)
	t.Logf("callers were late by %v at most, %.2f %% of what could be was admitted; the worst window held %d by the answers, %d by the clock, N is %d",
		late.Round(time.Millisecond), 100*share, answered, witnessed, n)
	if int64(answered) > n || int64(witnessed) > n {
		t.Errorf("a window holds %d units by the answers, %d by the clock, N is %d", answered, witnessed, n)
	}
	if late < 200*time.Millisecond && share < 0.98 { // else the machine was too slow to offer so much
		t.Errorf("%.2f %% of what could be was admitted, want 98 %%", 100*share)
	}
}
