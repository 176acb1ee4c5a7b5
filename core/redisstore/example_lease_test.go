package redisstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/keyfunc"
)

func ExampleLeases() {
	m := standIn()
	defer m.Close()

	store, err := redisstore.Open("redis://"+m.Addr(), redisstore.Leases(20*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	// So many requests of one tenant that Redis need not hear of each.
	lim := core.Must(core.New(core.Config{Name: "tenant", Store: store, Limits: []core.Limit{core.PerMinute(1_000_000)}}))
	const requests = 20_000
	for range requests {
		if d, err := lim.Allow(context.Background(), keyfunc.Name("acme")); err != nil || !d.Allowed {
			log.Fatal(d.Reason, err)
		}
	}
	fmt.Println("commands for each request are few:", m.CommandCount() < requests)

	// Once a lease has ended, what was spent is counted, and the rest is free again.
	time.Sleep(100 * time.Millisecond)
	d, err := lim.Peek(context.Background(), keyfunc.Name("acme"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Shown().Used)
	// Output:
	// commands for each request are few: true
	// 20000
}
