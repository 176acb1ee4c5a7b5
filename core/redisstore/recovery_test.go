package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// What takes the place of the client after an outage has its options.
func TestTheNewClientIsLikeTheOldOne(t *testing.T) {
	server := redistest.Need(t)
	s, err := redisstore.Open("redis://"+server.Addr()+"?pool_size=37&max_retries=2", quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	g := guarded{t, s, counter("limit", core.Exact, time.Minute, 0)}
	old := redisstore.ClientIn(s).(*redis.Client)
	for range 2 {
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		for range 8 {
			g.ask()
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		g.back()
	}
	now := redisstore.ClientIn(s).(*redis.Client)
	if now == old {
		t.Fatal("the client was not replaced")
	}
	a, b := old.Options(), now.Options()
	if a.PoolSize != b.PoolSize || b.PoolSize != 37 || a.MaxRetries != b.MaxRetries || a.ReadTimeout != b.ReadTimeout || a.ContextTimeoutEnabled != b.ContextTimeoutEnabled {
		t.Errorf("pool %d and %d, retries %d and %d", a.PoolSize, b.PoolSize, a.MaxRetries, b.MaxRetries)
	}
}

// A client by Sentinel is replaced by one that asks Sentinel by itself, as often as that
// happens.
func TestSentinelThroughTwoOutages(t *testing.T) {
	t.Parallel()
	sentinel := redistest.NeedSentinel(t)
	master, err := sentinel.Master()
	if err != nil {
		t.Fatal(err)
	}
	s, err := redisstore.Open("redis-sentinel://"+strings.Join(sentinel.Addrs(), ",")+"/"+sentinel.MasterName(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	g := guarded{t, s, counter("limit", core.Exact, time.Minute, 0)}
	g.back()
	for range 2 {
		if err := master.Pause(); err != nil {
			t.Fatal(err)
		}
		for range 8 {
			g.ask()
		}
		if err := master.Resume(); err != nil {
			t.Fatal(err)
		}
		g.back()
		time.Sleep(2500 * time.Millisecond) // the client that was replaced is closed by now
		g.back()
	}
}

// A Redis that is 80 ms away, and three times that to greet a new connection (HELLO, AUTH
// and SELECT each take a way back and forth; TLS is no quicker), is asked again after an
// outage with a budget that it can keep; with one that a greeting alone exceeds as well.
func TestADistantRedisIsAskedAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Need(t)
	for _, budget := range []time.Duration{100 * time.Millisecond, 800 * time.Millisecond} {
		t.Run(budget.String(), func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NeedProxy(t, server.Addr())
			proxy.Delay(40 * time.Millisecond) // there and back
			s, err := redisstore.Open("redis://"+proxy.Addr()+"/1", quiet)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			g := guarded{t, s, counter("far "+budget.String(), core.Exact, time.Minute, 0)}
			back := func() {
				t.Helper()
				for end := time.Now().Add(10 * time.Second); g.within(budget).Failure != core.NoFailure; time.Sleep(5 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatal("Redis is not asked again")
					}
				}
			}
			back()
			proxy.BlackHole()
			for range 6 {
				if g.within(budget).Failure == core.NoFailure {
					t.Error("decided by a Redis that is cut off")
				}
			}
			if err := proxy.Heal(); err != nil {
				t.Fatal(err)
			}
			back()
		})
	}
}
