package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core/redisstore"
)

// wrapping is a client in something that is no client of go-redis.
type wrapping struct{ redisstore.Client }

func TestKindOfAClientIsThatOfGoRedis(t *testing.T) {
	sentinel := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})
	failover := redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})
	defer sentinel.Close()
	defer failover.Close()
	type row struct {
		client redisstore.Client
		want   string
	}
	rows := []row{{sentinel, "single"}, {failover, "cluster"}}
	for i, want := range []string{"single", "cluster", "ring"} {
		c := clients[i].open("127.0.0.1:1")
		defer c.Close()
		rows = append(rows, row{c, want}, row{wrapping{c}, "wrapped"})
	}
	for _, x := range rows {
		if got := redisstore.Kind(x.client); got != x.want {
			t.Errorf("%T: got %s, want %s", x.client, got, x.want)
		}
	}
}

// If go-redis changed what it does without options, warnings would name figures
// that are not true.
func TestDefaultsOfRingsAreThoseOfTheirShards(t *testing.T) {
	for _, o := range []redis.RingOptions{
		{}, {ReadTimeout: -1}, {ReadTimeout: -2}, {ReadTimeout: 7 * time.Second}, {ReadTimeout: 7 * time.Second, WriteTimeout: 8 * time.Second},
		{WriteTimeout: -2}, {DialerRetries: -1}, {DialerRetries: 2, DialTimeout: 9 * time.Second},
	} {
		o.Addrs = map[string]string{"a": "127.0.0.1:1"}
		c := redis.NewRing(&o)
		defer c.Close()
		got := redisstore.TimesOf(c)
		_ = c.ForEachShard(context.Background(), func(_ context.Context, shard *redis.Client) error {
			if want := redisstore.TimesOf(shard); got != want {
				t.Errorf("%+v: got %v, its shard has %v", o, got, want)
			}
			return nil
		})
	}
}

func TestOptionsOfClustersAreThoseOfTheirNodes(t *testing.T) {
	for _, o := range []redis.ClusterOptions{
		{}, {ReadTimeout: -1}, {ReadTimeout: -2}, {ReadTimeout: 7 * time.Second, WriteTimeout: -1}, {DialerRetries: -1}, {DialTimeout: 9 * time.Second},
	} {
		fake := serve(t, always("+OK\r\n"))
		o.Addrs = []string{fake.addr}
		c := redis.NewClusterClient(&o)
		defer c.Close()
		got, nodes := redisstore.TimesOf(c), 0
		err := c.ForEachMaster(context.Background(), func(_ context.Context, node *redis.Client) error {
			nodes++
			if want := redisstore.TimesOf(node); got != want {
				t.Errorf("%+v: got %v, its node has %v", o, got, want)
			}
			return nil
		})
		if err != nil || nodes != 1 {
			t.Errorf("%d nodes, %v", nodes, err)
		}
	}
}
