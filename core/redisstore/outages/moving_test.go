package outages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// migrate moves the slot of a hash tag from the master that has it to another one, as
// redis-cli --cluster reshard does: while it is under way the old one answers ASK for
// keys that it has handed over, and MOVED at its end.
func migrate(ctx context.Context, c *redistest.Cluster, tag string) error {
	nodes := make([]*redis.Client, len(c.Addrs()))
	ids := make([]string, len(nodes))
	for i, addr := range c.Addrs() {
		nodes[i] = redis.NewClient(&redis.Options{Addr: addr})
		defer func() { _ = nodes[i].Close() }()
		var err error
		if ids[i], err = nodes[i].Do(ctx, "CLUSTER", "MYID").Text(); err != nil {
			return err
		}
	}
	slot, err := nodes[0].ClusterKeySlot(ctx, "{"+tag+"}").Result()
	if err != nil {
		return err
	}
	from, err := ownerOf(ctx, nodes, tag)
	if err != nil {
		return err
	}
	to := (from + 1) % len(nodes)
	if err := nodes[to].Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[from]).Err(); err != nil {
		return err
	}
	if err := nodes[from].Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to]).Err(); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(c.Addrs()[to])
	if err != nil {
		return err
	}
	for {
		keys, err := nodes[from].ClusterGetKeysInSlot(ctx, int(slot), 100).Result()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		for _, k := range keys {
			if err := nodes[from].Do(ctx, "MIGRATE", host, port, k, 0, 1000).Err(); err != nil {
				return err
			}
			time.Sleep(2 * time.Millisecond) // so that requests come in between
		}
	}
	for i := range nodes {
		if err := nodes[(to+i)%len(nodes)].Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", ids[to]).Err(); err != nil {
			return err
		}
	}
	return nil
}

// ownerOf returns which node has the slot of a tag: the one that sends nobody elsewhere.
func ownerOf(ctx context.Context, nodes []*redis.Client, tag string) (int, error) {
	for i, c := range nodes {
		if err := c.Get(ctx, "{"+tag+"}").Err(); err == nil || errors.Is(err, redis.Nil) {
			return i, nil
		} else if !redis.HasErrorPrefix(err, "MOVED") {
			return 0, err
		}
	}
	return 0, fmt.Errorf("nobody has the slot of %s", tag)
}

// door is a TCP address that leads now to one server and now to another, as a virtual
// address does that a failover moves.
type door struct {
	listener net.Listener
	mu       sync.Mutex
	target   string
	open     map[net.Conn]bool
	all      sync.WaitGroup
}

func newDoor(t *testing.T, target string) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{listener: l, target: target, open: map[net.Conn]bool{}}
	d.all.Go(d.accept)
	t.Cleanup(func() {
		_ = l.Close()
		d.lead("")
		d.all.Wait()
	})
	return d
}

func (d *door) addr() string {
	return "127.0.0.1:" + strconv.Itoa(d.listener.Addr().(*net.TCPAddr).Port)
}

// lead leads to another target, and closes what led to the old one.
func (d *door) lead(target string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.target = target
	for c := range d.open {
		_ = c.Close()
	}
}

func (d *door) accept() {
	for {
		in, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.all.Go(func() { d.serve(in) })
	}
}

func (d *door) serve(in net.Conn) {
	d.mu.Lock()
	target := d.target
	d.open[in] = true
	d.mu.Unlock()
	defer d.forget(in)
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	d.all.Go(func() {
		_, _ = io.Copy(out, in)
		_ = out.Close()
	})
	_, _ = io.Copy(in, out)
}

func (d *door) forget(in net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, in)
	_ = in.Close()
}
