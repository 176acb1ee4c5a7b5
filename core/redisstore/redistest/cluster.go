package redistest

import (
	"errors"
	"fmt"
	"sync"
)

// Cluster is a Redis Cluster of servers on this machine.
type Cluster struct {
	nodes []*Server
}

// StartCluster starts a Redis Cluster (redis-server 7.0 or later) with as many
// masters, and as many replicas of each. It returns when every node says that
// the cluster is ok, knows every other one, and every replica is linked to its
// master. That takes a little over 2 s: a master waits 2 s before it takes
// commands (CLUSTER_WRITABLE_DELAY in Redis's cluster.c).
//
// The slots are shared out evenly, in the order of the masters. The node timeout
// is 1.5 s: so long does a cluster take to notice that a node is down. At least
// 3 masters are needed for a replica to take over. The args are further options
// of each node.
//
// Errors are those of Start, and an error with the last state seen when the
// cluster does not form within 20 s.
func StartCluster(masters, replicas int, args ...string) (*Cluster, error) {
	if masters < 1 || masters > slots {
		return nil, fmt.Errorf("slidegate: masters is %d: give 1 to %d, 3 or more if a replica is to take over", masters, slots)
	}
	if replicas < 0 {
		return nil, fmt.Errorf("slidegate: replicas is %d: give the number of replicas of each master, 0 for none", replicas)
	}
	c := &Cluster{nodes: make([]*Server, masters*(1+replicas))}
	err := c.each(func(i int) (err error) {
		c.nodes[i], err = plan{options: append(clusterOptions(), args...), bus: true}.start()
		return err
	})
	if err == nil {
		err = (&formation{nodes: c.nodes, masters: masters}).form()
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func clusterOptions() []string {
	return []string{
		"--cluster-enabled", "yes",
		"--cluster-config-file", "nodes.conf",
		"--cluster-node-timeout", "1500",
		"--cluster-announce-ip", "127.0.0.1",
		// A master waits 5 s for further replicas by default.
		"--repl-diskless-sync-delay", "0",
	}
}

// Addrs returns the TCP addresses of all nodes, the first masters first.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.Addr()
	}
	return addrs
}

// Nodes returns all nodes: the masters, the replicas of the first master, those
// of the second, and so on. A replica that has taken over keeps its place.
func (c *Cluster) Nodes() []*Server { return append([]*Server(nil), c.nodes...) }

// Stop ends all nodes and removes their directories. Further calls do nothing.
func (c *Cluster) Stop() error {
	return c.each(func(i int) error {
		if c.nodes[i] == nil {
			return nil
		}
		return c.nodes[i].Stop()
	})
}

// each calls f for the index of each node, at the same time.
func (c *Cluster) each(f func(i int) error) error {
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i := range c.nodes {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
