package redisstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/keyfunc"
)

// standIn starts a stand-in for Redis.
func standIn() *miniredis.Miniredis {
	m, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	return m
}

func ExampleOpen_shared() {
	m := standIn()
	defer m.Close()

	store, err := redisstore.Open("redis://" + m.Addr())
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	// Two instances of a service, which would be two processes.
	cfg := core.Config{Name: "api", Store: store, Limits: []core.Limit{core.PerMinute(3)}}
	one, two := core.Must(core.New(cfg)), core.Must(core.New(cfg))
	for _, lim := range []*core.Limiter{one, two, one, two} {
		d, err := lim.Allow(context.Background(), keyfunc.User("42"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Allowed, d.Shown().Remaining())
	}
	// Output:
	// true 2
	// true 1
	// true 0
	// false 0
}

func ExampleNew() {
	m := standIn()
	defer m.Close()

	client := redis.NewClient(&redis.Options{
		Addr: m.Addr(),
		// Without these two New warns, for calls that have given up would keep
		// connections busy while the server hangs.
		ContextTimeoutEnabled: true,
		DialerRetries:         1,
		DialTimeout:           1e9,
	})
	defer func() { _ = client.Close() }()

	store, err := redisstore.New(client, redisstore.Prefix("shop"))
	if err != nil {
		log.Fatal(err)
	}
	lim := core.Must(core.New(core.Config{Name: "api", Store: store, Limits: []core.Limit{core.PerMinute(3)}}))
	if _, err := lim.Allow(context.Background(), keyfunc.User("42")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Keys())
	// Output:
	// [shop:{api:user:42}:1m:60000000:ev1]
}
