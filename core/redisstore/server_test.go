package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
	"github.com/slidegate/slidegate/keyfunc"
)

// A server that has forgotten the scripts is sent them again, and nothing counts twice.
func TestScriptsAreForgotten(t *testing.T) {
	server := redistest.Need(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	s := storeOn(t, client)
	eachAlgorithm(t, func(t *testing.T, c *core.Counter) {
		admitted := 0
		for i := range 10 {
			if i == 5 {
				if err := client.ScriptFlush(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if take(t, s, c, 7, 1).Done {
				admitted++
			}
		}
		if got := used(t, s, c); admitted != 7 || got != 7 {
			t.Errorf("%d admitted, %d used, want 7", admitted, got)
		}
		held := reserve(t, s, c, 20, 5)
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if x := do(t, s, held); !x.Done || x.Used != 12 {
			t.Errorf("commit: %+v", x)
		}
	})
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	c := counter("limit", core.Exact, time.Minute, 0)
	if x := take(t, s, c, 7, 1); !x.Done || x.Used != 1 {
		t.Errorf("after a restart: %+v, want an empty store that answers", x)
	}
}

// A replica that becomes master has never seen the scripts.
func TestFailoverOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.NeedCluster(t, 3, 1)
	s, err := redisstore.Open("redis-cluster://"+strings.Join(cluster.Addrs()[:3], ","), quiet, redisstore.NoFallback(), redisstore.NoRefusalCache())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	// One key on each master and some more.
	ask := func() (failed int) {
		for i := range 12 {
			x := call(core.OpTake, counter("limit", core.Exact, time.Hour, 0), 1_000_000, 1)
			x.Parts[0].Key = keyfunc.User(fmt.Sprint(i))
			x.Budget = time.Second
			if err := s.Do(t.Context(), x); err != nil {
				failed++
			}
		}
		return failed
	}
	if failed := ask(); failed != 0 {
		t.Fatalf("%d of 12 keys fail on a whole cluster", failed)
	}
	if err := cluster.Nodes()[0].Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ask() != 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the store has not found the new master within 30 s")
		}
	}
}

// Two instances with clients of their own are one limiter, and each decision is one
// command, or shares one with others.
func TestTwoInstancesAreOneLimiter(t *testing.T) {
	t.Run("batched", func(t *testing.T) { twoInstances(t, 1, 199) })
	t.Run("each call alone", func(t *testing.T) { twoInstances(t, 200, 200, redisstore.NoBatch()) })
}

// twoInstances has 200 calls decided by between least and most scripts.
func twoInstances(t *testing.T, least, most int, opts ...redisstore.Option) {
	server := redistest.Need(t)
	var instances []*redisstore.Store
	for range 2 {
		s, err := redisstore.Open("redis://"+server.Addr()+"?pool_timeout=20s", append(opts, quiet, redisstore.NoRefusalCache())...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		instances = append(instances, s)
	}
	eachAlgorithm(t, func(t *testing.T, c *core.Counter) {
		take(t, instances[0], c, 1000, 1) // from here on the server knows the script
		do(t, instances[0], call(core.OpReset, c, 1, 1))
		if _, err := redisDo(server, "CONFIG", "RESETSTAT"); err != nil {
			t.Fatal(err)
		}
		var admitted atomic.Int64
		var all sync.WaitGroup
		for g := range 200 {
			all.Go(func() {
				x := call(core.OpTake, c, 50, 1)
				if err := instances[g%2].Do(context.Background(), x); err != nil {
					t.Error(err)
				} else if x.Parts[0].Done {
					admitted.Add(1)
				}
			})
		}
		all.Wait()
		if got := admitted.Load(); got != 50 {
			t.Errorf("%d admitted, want 50", got)
		}
		stats, err := redisDo(server, "INFO", "commandstats")
		_, after, _ := strings.Cut(stats, "cmdstat_evalsha:calls=")
		calls, _, _ := strings.Cut(after, ",")
		if n, _ := strconv.Atoi(calls); err != nil || n < least || n > most {
			t.Errorf("%q EVALSHA for 200 decisions, want %d to %d (%v):\n%s", calls, least, most, err, stats)
		}
		if strings.Contains(stats, "cmdstat_eval:") && least == most {
			t.Errorf("the script was sent again:\n%s", stats)
		}
	})
}

// redisDo sends a command on a connection of its own.
func redisDo(s *redistest.Server, words ...any) (string, error) {
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = c.Close() }()
	return c.Do(context.Background(), words...).Text()
}

// Clients that die in the middle leave no key without a TTL, and in the end none.
func TestDyingClientsLeaveNoKeyBehind(t *testing.T) {
	server := redistest.Need(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = admin.Close() })
	deadline := time.Now().Add(time.Second)
	var all sync.WaitGroup
	for g := range uint64(8) {
		all.Go(func() {
			random := rand.New(rand.NewPCG(g, 5))
			for time.Now().Before(deadline) {
				client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
				s := storeOn(t, client)
				for range 1 + random.IntN(20) {
					a := []core.Algorithm{core.Exact, core.Slotted, core.Hybrid}[random.IntN(3)]
					x := call([]core.Op{core.OpTake, core.OpReserve}[random.IntN(2)], counter("soak", a, 50*time.Millisecond, 5), 5, 1)
					x.Parts[0].Key = keyfunc.User(fmt.Sprint(random.IntN(500)))
					_, _ = fmt.Sscan(fmt.Sprint(random.IntN(256)), &x.ID[0])
					x.ID[1] = byte(g + 1)
					x.Budget = time.Duration(1+random.IntN(3000)) * time.Microsecond
					_ = s.Do(context.Background(), x)
				}
				_ = client.Close() // with calls under way
			}
		})
	}
	for time.Now().Before(deadline) {
		for _, k := range admin.Keys(t.Context(), "*").Val() {
			if admin.PTTL(t.Context(), k).Val() == -1 {
				t.Fatalf("%s has no TTL", k)
			}
		}
	}
	all.Wait()
	time.Sleep(300 * time.Millisecond)
	for end := time.Now().Add(5 * time.Second); admin.DBSize(t.Context()).Val() != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("left behind: %v", admin.Keys(t.Context(), "*").Val())
		}
	}
}

// The rights that the page on Redis names are enough, and without one of them calls
// are errors that say so.
func TestRightsThatTheDocsName(t *testing.T) {
	page, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, line, found := strings.Cut(string(page), "\nACL SETUSER ")
	line, _, _ = strings.Cut(line, "\n")
	if !found {
		t.Fatal("the page names no rights")
	}
	server := redistest.Need(t)
	words := []any{"ACL", "SETUSER"}
	for _, w := range strings.Fields(line) {
		words = append(words, w)
	}
	if _, err := redisDo(server, words...); err != nil {
		t.Fatal(err)
	}
	s, err := redisstore.Open("redis://limiter:secret@"+server.Addr(), quiet, redisstore.NoFallback())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	eachAlgorithm(t, func(t *testing.T, c *core.Counter) {
		c = counter("rights", c.Algorithm, 40*time.Millisecond, 4)
		for range 30 {
			take(t, s, c, 10, 1)
			take(t, s, c, 10, 4)
			held := reserve(t, s, c, 1000, 1)
			held.Op = []core.Op{core.OpCommit, core.OpCorrect, core.OpCancel}[rand.IntN(3)]
			do(t, s, held)
			time.Sleep(2 * time.Millisecond)
		}
		do(t, s, call(core.OpReset, c, 1, 1))
	})
	if _, err := redisDo(server, "ACL", "SETUSER", "limiter", "-zadd"); err != nil {
		t.Fatal(err)
	}
	wantError(t, s, call(core.OpTake, counter("rights", core.Exact, time.Minute, 0), 10, 1), "run this command")
}
