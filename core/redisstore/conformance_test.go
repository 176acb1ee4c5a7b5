package redisstore_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/storetest"
)

// harness is that of a miniredis whose time the test sets.
func (s *stage) harness(client func(testing.TB) redisstore.Client) *storetest.Harness {
	return &storetest.Harness{
		Open:    func(tb testing.TB) core.Store { return storeOn(tb, client(tb)) },
		Now:     s.Now,
		Advance: s.advance,
		Step:    s.move,
		Checks:  traces(), Calls: 320, Filled: 100, MaxUsed: 1 << 51,
	}
}

// onMiniredis leaves a suite out under the race detector, which makes miniredis five
// times as slow: the same goroutines meet in those on a real server and a real cluster.
func onMiniredis(t *testing.T) {
	t.Helper()
	t.Parallel()
	if underRaceDetector() {
		t.Skip("on a real server and a real cluster under the race detector")
	}
}

// traces is the number of random traces of each kind: more where somebody has time.
func traces() int {
	n, _ := strconv.Atoi(os.Getenv("SLIDEGATE_TRACES"))
	return max(n, 20)
}

// live is the harness of a real server.
func live(client func(testing.TB) redisstore.Client) *storetest.Harness {
	return &storetest.Harness{
		Open:    func(tb testing.TB) core.Store { return storeOn(tb, client(tb)) },
		Now:     func() core.Instant { return core.Instant(time.Now().UnixMicro()) },
		Advance: time.Sleep,
		Live:    true,
		Checks:  10, Calls: 640, Filled: 100, MaxUsed: 1 << 51,
	}
}

func TestStoreOnMiniredis(t *testing.T) {
	onMiniredis(t)
	storetest.Run(t, func(tb testing.TB) *storetest.Harness {
		s := newStage(tb)
		return s.harness(func(tb testing.TB) redisstore.Client { return s.client(tb) })
	})
}

// A ClusterClient makes the store ask apart what has different keys, and miniredis
// lets the clock stand still meanwhile.
func TestStoreOnMiniredisAsCluster(t *testing.T) {
	onMiniredis(t)
	storetest.Run(t, func(tb testing.TB) *storetest.Harness {
		s := newStage(tb)
		h := s.harness(func(tb testing.TB) redisstore.Client { return s.clusterClient(tb) })
		h.Checks, h.Calls, h.Filled = traces()/2, 160, 50 // several commands for a call
		return h
	})
}

func TestStoreOnRedis(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(testing.TB) *storetest.Harness {
		return live(func(tb testing.TB) redisstore.Client { return realClient(tb) }) // over RESP3
	})
}

// Batches are the default, and so what the other suites are about.
func TestStoreOnRedisWithoutBatches(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(testing.TB) *storetest.Harness {
		h := live(func(tb testing.TB) redisstore.Client { return realClient(tb) })
		h.Open = func(tb testing.TB) core.Store { return storeOn(tb, realClient(tb), redisstore.NoBatch()) }
		h.Checks = 5
		return h
	})
}

func TestStoreOnCluster(t *testing.T) {
	t.Parallel()
	redisCluster(t)
	storetest.Run(t, func(testing.TB) *storetest.Harness {
		h := live(func(tb testing.TB) redisstore.Client { return realClusterClient(tb) }) // over RESP2
		h.Checks, h.Windows = 3, []time.Duration{100 * time.Millisecond, 300 * time.Millisecond}
		return h
	})
}
