package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// servers is where instances that share their counts keep them.
type servers struct {
	Addrs   []string
	Cluster bool
	// Prefix keeps the counts of one run from those of the next.
	Prefix string
}

func newServers(cluster bool, addrs ...string) servers {
	return servers{Addrs: addrs, Cluster: cluster, Prefix: fmt.Sprintf("accuracy-%016x", rand.Uint64())}
}

// named returns the same servers for other counts.
func (s servers) named(name string) servers {
	s.Prefix += "." + name
	return s
}

func (s servers) String() string {
	if s.Cluster {
		return "the cluster at " + strings.Join(s.Addrs, ", ")
	}
	return "Redis at " + strings.Join(s.Addrs, ", ")
}

// open returns a store with a client of its own.
func (s servers) open() (core.Store, error) {
	scheme := "redis://"
	if s.Cluster {
		scheme = "redis-cluster://"
	}
	// A connection for each caller, and time to get it: what is judged is the count,
	// not how a pool fares under a load that no service would run at.
	const options = "?pool_size=64&pool_timeout=10s&read_timeout=10s"
	store, err := redisstore.Open(scheme+strings.Join(s.Addrs, ",")+options, redisstore.Prefix(s.Prefix))
	if err != nil {
		return nil, err
	}
	return store, nil
}

// runOnServers judges limiters on the servers at addrs, or on some of its own.
func runOnServers(ctx context.Context, out io.Writer, store, addrs string, seed uint64, markdown bool) (err error) {
	if store != "redis" && store != "cluster" {
		return fmt.Errorf("-store %s: the counts do not lie on servers there (use -store redis or -store cluster)", store)
	}
	list, stop := strings.Split(addrs, ","), func() error { return nil }
	if addrs == "" {
		if list, stop, err = startServers(store == "cluster"); err != nil {
			return fmt.Errorf("%w (name servers of your own with -redis host:port)", err)
		}
	}
	defer func() { err = errors.Join(err, stop()) }()
	return defaultPlan(seed).judge(ctx, out, newServers(store == "cluster", list...), markdown)
}

// startServers starts one server, or a cluster of three.
func startServers(cluster bool) (addrs []string, stop func() error, err error) {
	if cluster {
		c, err := redistest.StartCluster(3, 0)
		if err != nil {
			return nil, nil, err
		}
		return c.Addrs(), c.Stop, nil
	}
	s, err := redistest.Start()
	if err != nil {
		return nil, nil, err
	}
	return []string{s.Addr()}, s.Stop, nil
}
