package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// What follows a step of a real server's clock, as somebody sees it who waits.
func TestAStepOfTheServersClock(t *testing.T) {
	t.Parallel()
	const window = 600 * time.Millisecond
	for _, steps := range [][]time.Duration{{-5 * time.Second}, {-time.Hour}, {time.Hour, -time.Hour}} {
		eachAlgorithm(t, func(t *testing.T, c *core.Counter) {
			server, clock := redistest.NeedWithClock(t)
			client := redis.NewClient(&redis.Options{Addr: server.Addr()})
			t.Cleanup(func() { _ = client.Close() })
			s := storeOn(t, client)
			c = counter("limit", c.Algorithm, window, 10)
			longest := window + 2*time.Duration(c.SlotSize)*time.Microsecond
			var last core.Instant
			for _, d := range steps {
				take(t, s, c, 3, 1) // alive at the step, if Redis lets it
				for take(t, s, c, 3, 1).Done {
				}
				clock.Step(d)
				x := take(t, s, c, 3, 1)
				if x.Done && d < 0 {
					t.Errorf("step of %v: admitted at %d beyond the limit", d, x.At)
				}
				if x.At < last && d > 0 {
					t.Errorf("step of %v: the key's time went back", d)
				}
				last = x.At
				if x.Done {
					continue // Redis expired the key on the way forward
				}
				wait := x.FitsAt.Sub(x.At)
				if wait <= 0 || wait > longest {
					t.Errorf("step of %v: a wait of %v, want at most %v", d, wait, longest)
				}
				time.Sleep(wait)
				if x = take(t, s, c, 3, 1); !x.Done {
					t.Errorf("step of %v: refused after the wait of %v: %+v", d, wait, x)
				}
			}
			time.Sleep(10 * time.Millisecond)
			ttl, err := client.Keys(t.Context(), "*").Result()
			if err != nil || len(ttl) == 0 {
				t.Fatalf("no keys: %v", err)
			}
			for _, k := range ttl {
				if left, err := client.PTTL(t.Context(), k).Result(); err != nil || left <= 0 || left > 3*longest {
					t.Errorf("%s has a TTL of %v (%v) after the clock was stepped back", k, left, err)
				}
			}
		})
	}
}
