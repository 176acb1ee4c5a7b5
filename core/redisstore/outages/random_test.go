package outages

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// instance is one instance of a service, with a way of its own to Redis.
type instance struct {
	proxy *redistest.Proxy
	store *redisstore.Store
	load  *load
}

// TestTheBoundHoldsInRandomOutages breaks the way to Redis of one and of four instances,
// and Redis itself, at random: no window may hold more than the documentation says. The
// requests of all instances are judged together. SLIDEGATE_RANDOM says how many outages
// each policy goes through, with one and with four instances; else 1, or 5 where
// SLIDEGATE_OUTAGES=all.
func TestTheBoundHoldsInRandomOutages(t *testing.T) {
	redistest.Need(t)
	redis.SetLogger(new(lines))
	rounds := 1
	if os.Getenv("SLIDEGATE_OUTAGES") == "all" {
		rounds = 5
	}
	if text := os.Getenv("SLIDEGATE_RANDOM"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for round := range rounds {
		for _, n := range []int{1, 4} {
			seed := rand.Uint64()
			t.Run(fmt.Sprintf("%d of %d instances, seed %d", round, n, seed), func(t *testing.T) {
				randomOutage(t, n, rand.New(rand.NewPCG(seed, 0)))
			})
		}
	}
}

func randomOutage(t *testing.T, n int, random *rand.Rand) {
	server := redistest.Need(t)
	began := time.Now()
	all := make([]*instance, n)
	for i := range all {
		all[i] = newInstance(t, server, n, began)
	}
	lost := 0
	for range 6 {
		time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
		in := all[random.IntN(n)]
		switch random.IntN(8) {
		case 0:
			in.proxy.Refuse()
		case 1:
			in.proxy.BlackHole()
		case 2:
			in.proxy.Reset()
		case 3:
			in.proxy.DropReplies(1 + random.IntN(10))
		case 4:
			in.proxy.Stall()
		case 5:
			in.proxy.Delay(time.Duration(random.IntN(80)) * time.Millisecond)
		case 6:
			if lost > 0 {
				continue // the bound is for counts that are lost once in a window
			}
			lost++
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
			if err := server.Restart(); err != nil {
				t.Fatal(err)
			}
		case 7:
			for _, in := range all {
				if err := in.proxy.Heal(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, in := range all {
		if err := in.proxy.Heal(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(700 * time.Millisecond)
	judgeTogether(t, all, n, lost)
}

func newInstance(t *testing.T, server *redistest.Server, replicas int, began time.Time) *instance {
	t.Helper()
	in := &instance{proxy: redistest.NeedProxy(t, server.Addr())}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	if in.store, err = redisstore.Open("redis://"+in.proxy.Addr(), redisstore.Logger(quiet), redisstore.Replicas(replicas)); err != nil {
		t.Fatal(err)
	}
	in.load = startLoad(newLimiters(t, in.store, quiet), max(workers/replicas, 1))
	in.load.shift = time.Since(began) - time.Since(in.load.began)
	t.Cleanup(func() {
		in.load.end()
		if err := in.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return in
}

// judgeTogether judges the requests of all instances on one time.
func judgeTogether(t *testing.T, all []*instance, n, lost int) {
	t.Helper()
	var together []sample
	for _, in := range all {
		for _, s := range in.load.end() {
			s.began, s.ended = s.began+in.load.shift, s.ended+in.load.shift
			together = append(together, s)
			if !rightStatus(&s) {
				t.Errorf("%v: status %d, failure %v", s.policy, s.status, s.failure)
			}
		}
	}
	byBeginning(together)
	bounds := map[core.Policy]int{core.Local: quota + n*max(quota/n, 1), core.Closed: quota}
	for p, bound := range bounds {
		bound += lost * quota
		if got := fullest(together, p); got > bound {
			t.Errorf("%v: %d requests in a window, more than %d", p, got, bound)
		} else {
			t.Logf("%v: %d ≤ %d of %d requests, counts lost %d times", p, got, bound, len(together), lost)
		}
	}
}
