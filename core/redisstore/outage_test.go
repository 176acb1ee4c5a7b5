package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// guarded asks a store with its fallback for one unit of 10, and fails if nobody decides.
type guarded struct {
	testing.TB
	*redisstore.Store
	counter *core.Counter
}

// patient is the budget where it matters that Redis answers, even on a busy machine.
const patient = 2 * time.Second

func (g guarded) ask() *core.Call { g.Helper(); return g.within(100 * time.Millisecond) }

func (g guarded) within(budget time.Duration) *core.Call {
	g.Helper()
	x := call(core.OpTake, g.counter, 10, 1)
	x.Budget = budget
	if err := g.Do(context.Background(), x); err != nil {
		g.Fatal(err)
	}
	return x
}

// back waits until Redis decides, and returns how long that took.
func (g guarded) back() time.Duration {
	g.Helper()
	began := time.Now()
	for g.ask().Failure != core.NoFailure {
		if time.Since(began) > 5*time.Second {
			g.Fatal("Redis is not asked again")
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(began)
}

// stores over each kind of client that the store can be made of.
var guardedKinds = []struct {
	name string
	open func(tb testing.TB, addr string) (*redisstore.Store, error)
}{
	{"Open", func(_ testing.TB, addr string) (*redisstore.Store, error) {
		return redisstore.Open("redis://"+addr, quiet)
	}},
	{"Open, cold", func(_ testing.TB, addr string) (*redisstore.Store, error) {
		return redisstore.Open("redis://"+addr, quiet, redisstore.Cold())
	}},
	{"a Client", func(tb testing.TB, addr string) (*redisstore.Store, error) {
		return redisstore.New(closing(tb, redis.NewClient(&redis.Options{Addr: addr})), quiet)
	}},
	{"a Ring", func(tb testing.TB, addr string) (*redisstore.Store, error) {
		return redisstore.New(closing(tb, redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": addr}})), quiet)
	}},
	{"a client in another", func(tb testing.TB, addr string) (*redisstore.Store, error) {
		return redisstore.New(struct{ redisstore.Client }{closing(tb, redis.NewClient(&redis.Options{Addr: addr, DialerRetries: 1}))}, quiet)
	}},
}

type closable interface {
	redisstore.Client
	Close() error
}

func closing[C closable](tb testing.TB, c C) C {
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// While Redis is down the local window decides, with what it has seen; soon after Redis
// answers, it decides again.
func TestTheLocalWindowStepsIn(t *testing.T) {
	for _, kind := range guardedKinds {
		t.Run(kind.name, func(t *testing.T) {
			server := redistest.Need(t)
			s, err := kind.open(t, server.Addr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			g := guarded{t, s, counter("limit", core.Exact, time.Minute, 0)}
			for range 4 {
				if x := g.within(patient); !x.Parts[0].Done || x.Failure != core.NoFailure {
					t.Fatalf("%+v", x)
				}
			}
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			left := 6
			if strings.Contains(kind.name, "cold") {
				left = 10
			}
			for i := range 12 {
				if x := g.ask(); x.Parts[0].Done != (i < left) || !x.Failure.Outage() {
					t.Fatalf("call %d: %+v", i, x)
				}
			}
			if st := s.Status(); st.Healthy || !st.Failure.Outage() || time.Since(st.Since) > time.Minute {
				t.Errorf("%+v", st)
			}
			if err := server.Restart(); err != nil {
				t.Fatal(err)
			}
			took := g.back()
			if took > 2*time.Second {
				t.Errorf("asked again after %v", took)
			}
			// Nothing is replayed: Redis counts what it has admitted since, one unit.
			if x := call(core.OpPeek, g.counter, 10, 1); s.Do(t.Context(), x) != nil || x.Parts[0].Used != 1 {
				t.Errorf("%d units in Redis, which has admitted 1: %+v", x.Parts[0].Used, x)
			}
		})
	}
}

// A service starts without Redis, waits no longer than its budget, and goes over to it.
func TestStartingWithoutRedis(t *testing.T) {
	for name, addr := range map[string]string{"nothing listens": "127.0.0.1:1", "a listener that never answers": hung(t)} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			s, err := redisstore.Open("redis://"+addr, quiet)
			if err != nil || time.Since(began) > time.Second {
				t.Fatalf("%v after %v", err, time.Since(began))
			}
			t.Cleanup(func() { _ = s.Close() })
			g := guarded{t, s, counter("limit", core.Exact, time.Minute, 0)}
			for i := range 12 {
				began = time.Now()
				x := g.ask()
				if took := time.Since(began); took > 400*time.Millisecond || i > 8 && took > 50*time.Millisecond {
					t.Errorf("call %d took %v", i, took)
				}
				if x.Parts[0].Done != (i < 10) || !x.Failure.Outage() {
					t.Errorf("call %d: %+v", i, x)
				}
			}
		})
	}
}

// asking counts what reaches a client.
type asking struct {
	redisstore.Client
	asked atomic.Int64
}

func (c *asking) Process(ctx context.Context, cmd redis.Cmder) error {
	c.asked.Add(1)
	return c.Client.Process(ctx, cmd)
}

// With 50 callers at once on a server that hangs, those under way wait for their budget,
// and no one after them; the client is asked by a probe now and then.
func TestOnlyTheFirstCallersWait(t *testing.T) {
	c := &asking{Client: closing(t, redis.NewClient(&redis.Options{Addr: hung(t), ContextTimeoutEnabled: true}))}
	s, err := redisstore.New(c, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	g := guarded{t, s, counter("limit", core.Exact, time.Minute, 0)}
	var callers sync.WaitGroup
	var slow atomic.Int64
	began := time.Now()
	for range 50 {
		callers.Go(func() {
			for range 4 {
				start := time.Now()
				g.ask()
				if time.Since(start) > 50*time.Millisecond {
					slow.Add(1)
				}
			}
		})
	}
	callers.Wait()
	probes := int64(time.Since(began)/(10*time.Millisecond)) + 2
	if n := slow.Load(); n > 60 {
		t.Errorf("%d of 200 calls waited", n)
	}
	if n := c.asked.Load(); n > 50+5+probes {
		t.Errorf("the client was asked %d times", n)
	}
}

// A Store that is closed during an outage leaves nothing behind and answers no more.
func TestClosingDuringAnOutage(t *testing.T) {
	s, err := redisstore.Open("redis://127.0.0.1:1", quiet)
	if err != nil {
		t.Fatal(err)
	}
	g := guarded{t, s, counter("limit", core.Exact, time.Minute, 0)}
	for range 8 {
		g.ask()
	}
	time.Sleep(50 * time.Millisecond) // probes are under way
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Do(t.Context(), call(core.OpTake, g.counter, 10, 1)); !errors.Is(err, core.ErrClosed) {
		t.Error(err)
	}
}

func TestOptionsOfTheFallback(t *testing.T) {
	for _, test := range []struct {
		opts []redisstore.Option
		want int // of 20 asked for, of 10
	}{
		{nil, 10}, {[]redisstore.Option{redisstore.Replicas(5)}, 2},
		{[]redisstore.Option{redisstore.Share(func() float64 { return 0.3 })}, 3},
	} {
		s, err := redisstore.Open("redis://127.0.0.1:1", append(test.opts, quiet)...)
		if err != nil {
			t.Fatal(err)
		}
		g, admitted := guarded{t, s, counter("limit", core.Exact, time.Minute, 0)}, 0
		for range 20 {
			if g.ask().Parts[0].Done {
				admitted++
			}
		}
		if admitted != test.want || !s.LogsOutages() {
			t.Errorf("%d admitted, want %d", admitted, test.want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := redisstore.Open("redis://127.0.0.1:1", redisstore.Replicas(-1))
	if fault, ok := errors.AsType[*redisstore.FieldError](err); !ok || !strings.Contains(fault.Field, "Replicas") {
		t.Errorf("%v", err)
	}
	bare, err := redisstore.Open("redis://127.0.0.1:1", quiet, redisstore.NoFallback())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bare.Close() })
	x := call(core.OpTake, counter("limit", core.Exact, time.Minute, 0), 10, 1)
	if err := bare.Do(t.Context(), x); core.FailureOf(err) != core.FailureRefused || bare.LogsOutages() || !bare.Status().Healthy {
		t.Errorf("without a fallback: %v, %+v", err, bare.Status())
	}
}
