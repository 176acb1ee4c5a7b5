package redistest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// checkSlots fails unless every node sees all slots served, and each key is taken
// by one master and sent there by the others.
func checkSlots(t *testing.T, c *redistest.Cluster, masters int) {
	t.Helper()
	for i, n := range c.Nodes() {
		info := say(t, n, "CLUSTER", "INFO")
		for _, want := range []string{"cluster_state:ok", "cluster_slots_ok:16384", fmt.Sprintf("cluster_size:%d", masters), fmt.Sprintf("cluster_known_nodes:%d", len(c.Nodes()))} {
			if !strings.Contains(info, want+"\r\n") {
				t.Errorf("node %d lacks %s: %s", i, want, info)
			}
		}
	}
	takers := map[string]bool{}
	for k := range 50 {
		key := fmt.Sprint("key", k)
		var taken, sent []string
		for _, n := range c.Nodes()[:masters] {
			_, err := redistest.Ask(n, patience, "SET", key, "value")
			if err == nil {
				taken = append(taken, n.Addr())
			} else if w := strings.Fields(err.Error()); w[0] == "MOVED" {
				sent = append(sent, w[2])
			} else {
				t.Fatal(err)
			}
		}
		if len(taken) != 1 || len(sent) != masters-1 || len(slices.Compact(append(sent, taken...))) != 1 {
			t.Errorf("%s is taken by %v and sent to %v", key, taken, sent)
		}
		takers[strings.Join(taken, " ")] = true
	}
	if len(takers) != masters {
		t.Errorf("keys went to %v, want %d masters", takers, masters)
	}
}

func TestClusterIsReadyWithItsReplicas(t *testing.T) {
	t.Parallel()
	// The node timeout is shorter, so that the replica takes over sooner.
	c := redistest.NeedCluster(t, 3, 1, "--cluster-node-timeout", "1000")
	nodes := c.Nodes()
	for i, n := range nodes {
		if n.Addr() != c.Addrs()[i] {
			t.Errorf("node %d is %s in Nodes and %s in Addrs", i, n.Addr(), c.Addrs()[i])
		}
	}
	checkSlots(t, c, 3)
	for i := range 3 {
		becomes(t, nodes[i+3], say(t, nodes[i], "DBSIZE"), "DBSIZE")
	}
	takeOver(t, nodes[0], nodes[3])
}

// takeOver kills a master: the replica becomes one, and the master its replica.
func takeOver(t *testing.T, master, replica *redistest.Server) {
	t.Helper()
	if err := master.Kill(); err != nil {
		t.Fatal(err)
	}
	role(t, replica, "role:master")
	if err := master.Restart(); err != nil {
		t.Fatal(err)
	}
	role(t, master, "role:slave")
}

func role(t *testing.T, s *redistest.Server, want string) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		info := say(t, s, "INFO", "replication")
		if strings.Contains(info, want+"\r\n") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not come to be %s: %s", s.Addr(), want, info)
		}
	}
}

func TestImpossibleClustersAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		masters, replicas int
		want              string
	}{
		{0, 0, "masters is 0: give 1 to 16384"},
		{-1, 1, "masters is -1: give 1 to 16384"},
		{16385, 0, "masters is 16385: give 1 to 16384"},
		{3, -1, "replicas is -1: give"},
	} {
		if _, err := redistest.StartCluster(c.masters, c.replicas); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d masters and %d replicas: %v, want %q", c.masters, c.replicas, err, c.want)
		}
	}
}

func TestClusterThatDoesNotComeUpLeavesNothing(t *testing.T) {
	redistest.Need(t)
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	_, err := redistest.StartCluster(3, 1, "--no-such-option", "1")
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("error is %v, want the log in it", err)
	}
	empty(t, parent)
}

func TestClusterServesEverySlotUntilStopped(t *testing.T) {
	t.Parallel()
	c := redistest.NeedCluster(t, 3, 0)
	if len(c.Addrs()) != 3 || len(c.Nodes()) != 3 {
		t.Fatalf("cluster has the nodes %v", c.Addrs())
	}
	checkSlots(t, c, 3)
	if err := errors.Join(c.Stop(), c.Stop()); err != nil {
		t.Error(err)
	}
	for _, n := range c.Nodes() {
		if err := ping(n.Addr(), patience); err == nil || n.PID() != 0 {
			t.Errorf("stopped node %s answers", n.Addr())
		}
	}
}
