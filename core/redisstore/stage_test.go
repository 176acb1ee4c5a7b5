package redisstore_test

import (
	"context"
	"crypto/rand"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/storetest"
	"github.com/slidegate/slidegate/keyfunc"
)

// stage is a miniredis with a clock that the test moves, and a store over it.
type stage struct {
	*storetest.Clock
	mini *miniredis.Miniredis
	mu   sync.Mutex
}

var start = core.Instant(time.Date(2026, 11, 30, 0, 0, 0, 42*1000, time.UTC).UnixMicro())

func newStage(tb testing.TB) *stage {
	s := &stage{Clock: storetest.NewClock(start), mini: miniredis.RunT(tb)}
	s.mini.SetTime(start.Time())
	return s
}

// advance lets time pass: keys expire.
func (s *stage) advance(d time.Duration) { s.move(d) }

// move sets the clock forward or back. What Redis holds of a TTL is the instant at
// which it ends, so a step changes what is left of it; miniredis holds what is left.
func (s *stage) move(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Clock.Advance(d)
	s.mini.SetTime(s.Now().Time())
	if d >= 0 {
		s.mini.FastForward(d)
		return
	}
	for _, k := range s.mini.Keys() {
		if ttl := s.mini.TTL(k); ttl > 0 {
			s.mini.SetTTL(k, ttl-d)
		}
	}
}

// client returns a client with go-redis's default options.
func (s *stage) client(tb testing.TB) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.mini.Addr()})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// clusterClient takes the miniredis for a cluster of one node.
func (s *stage) clusterClient(tb testing.TB) *redis.ClusterClient {
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.mini.Addr()}})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *stage) store(tb testing.TB, opts ...redisstore.Option) *redisstore.Store {
	return storeOn(tb, s.client(tb), opts...)
}

func storeOn(tb testing.TB, c redisstore.Client, opts ...redisstore.Option) *redisstore.Store {
	tb.Helper()
	s, err := redisstore.New(c, append([]redisstore.Option{quiet, redisstore.NoFallback(), redisstore.NoRefusalCache()}, opts...)...)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// counters of each algorithm.
func counter(name string, a core.Algorithm, window time.Duration, slots int) *core.Counter {
	return core.NewCounter("test", name, window, a, slots)
}

var algorithms = map[string]core.Algorithm{"exact": core.Exact, "slotted": core.Slotted, "hybrid": core.Hybrid}

func eachAlgorithm(t *testing.T, test func(t *testing.T, c *core.Counter)) {
	for name, a := range algorithms {
		t.Run(name, func(t *testing.T) { test(t, counter("limit", a, time.Minute, 10)) })
	}
}

// call makes a call on one limit. Of hybrid ones the first 2 units are cold.
func call(op core.Op, c *core.Counter, n, cost int64) *core.Call {
	return &core.Call{Op: op, Parts: []core.Part{part(c, n, cost)}}
}

func part(c *core.Counter, n, cost int64) core.Part {
	return core.Part{Counter: c, Key: someone, N: n, HotFrom: 2, Cost: cost}
}

var someone = keyfunc.User("someone")

// do has the store answer and returns the first part of the answer.
func do(tb testing.TB, s core.Store, c *core.Call) core.Part {
	tb.Helper()
	if err := s.Do(context.Background(), c); err != nil {
		tb.Fatalf("%s: %v", c.Op, err)
	}
	return c.Parts[0]
}

func take(tb testing.TB, s core.Store, c *core.Counter, n, cost int64) core.Part {
	tb.Helper()
	return do(tb, s, call(core.OpTake, c, n, cost))
}

func used(tb testing.TB, s core.Store, c *core.Counter) int64 {
	tb.Helper()
	return do(tb, s, call(core.OpPeek, c, core.MaxUnits, 1)).Used
}

// reserve reserves units and returns the call that ends the reservation.
func reserve(tb testing.TB, s core.Store, c *core.Counter, n, cost int64) *core.Call {
	tb.Helper()
	r := call(core.OpReserve, c, n, cost)
	_, _ = rand.Read(r.ID[:])
	if x := do(tb, s, r); !x.Done {
		tb.Fatalf("a reservation of %d was refused: %+v", cost, x)
	}
	r.Op, r.Parts[0].Reserved, r.Parts[0].ReservedAt = core.OpCommit, cost, r.Parts[0].At
	return r
}

// checked is a store whose every answer is compared with a plain list's.
type checked struct {
	core.Store
	tb     testing.TB
	oracle *storetest.Oracle
	now    func() core.Instant
}

func (s checked) Do(ctx context.Context, c *core.Call) error {
	s.tb.Helper()
	before := s.now()
	if err := s.Store.Do(ctx, c); err != nil {
		return err
	}
	if err := s.oracle.Check(c, before, s.now()); err != nil {
		s.tb.Fatal(err)
	}
	return nil
}

func (s *stage) checked(tb testing.TB) checked {
	return checked{Store: s.store(tb), tb: tb, oracle: new(storetest.Oracle), now: s.Now}
}

// wantError fails unless the call fails with the text in its error.
func wantError(tb testing.TB, s core.Store, c *core.Call, text string) {
	tb.Helper()
	if err := s.Do(context.Background(), c); err == nil || !strings.Contains(err.Error(), text) {
		tb.Errorf("%s: error %v, want one with %q", c.Op, err, text)
	}
}

// underRaceDetector reports whether the race detector is on, which allocates.
func underRaceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
