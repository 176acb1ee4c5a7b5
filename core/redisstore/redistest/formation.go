package redistest

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	// slots is the number of hash slots of a Redis Cluster:
	// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/.
	slots = 16384

	formTimeout   = 20 * time.Second
	answerTimeout = 2 * time.Second
)

// formation makes a cluster of nodes that do not know each other.
type formation struct {
	nodes   []*Server
	masters int
	ids     []string
}

// master returns the index of the master of node i, which may be itself.
func (f *formation) master(i int) int {
	if i < f.masters {
		return i
	}
	return (i - f.masters) / ((len(f.nodes) - f.masters) / f.masters)
}

func (f *formation) form() error {
	f.ids = make([]string, len(f.nodes))
	for i := range f.nodes {
		if err := f.introduce(i); err != nil {
			return fmt.Errorf("slidegate: form the cluster, node %d: %w", i, err)
		}
	}
	end := time.Now().Add(formTimeout)
	for i := f.masters; i < len(f.nodes); i++ {
		if err := retry(end, func() error { return f.do(i, "CLUSTER", "REPLICATE", f.ids[f.master(i)]) }); err != nil {
			return fmt.Errorf("slidegate: form the cluster, replica %d: %w", i, err)
		}
	}
	for i := range f.nodes {
		if err := retry(end, func() error { return f.ready(i) }); err != nil {
			return fmt.Errorf("slidegate: form the cluster, node %d is not ready: %w", i, err)
		}
	}
	return nil
}

// introduce gives node i an epoch of its own and its slots, and lets it meet
// the nodes before it: meeting all saves the time that gossip takes.
func (f *formation) introduce(i int) (err error) {
	if f.ids[i], err = f.ask(i, "CLUSTER", "MYID"); err != nil {
		return err
	}
	if err := f.do(i, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
		return err
	}
	if i < f.masters {
		from, to := i*slots/f.masters, (i+1)*slots/f.masters-1
		if err := f.do(i, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(from), strconv.Itoa(to)); err != nil {
			return err
		}
	}
	for j := range i {
		host, port, err := net.SplitHostPort(f.nodes[j].Addr())
		if err != nil {
			return err
		}
		if err := f.do(i, "CLUSTER", "MEET", host, port); err != nil {
			return err
		}
	}
	return nil
}

// ready returns what node i still lacks.
func (f *formation) ready(i int) error {
	info, err := f.ask(i, "CLUSTER", "INFO")
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") {
		return errors.New(strings.Join(strings.Fields(info), " "))
	}
	view, err := f.ask(i, "CLUSTER", "NODES")
	if err != nil {
		return err
	}
	if err := f.complete(view); err != nil {
		return fmt.Errorf("%w, as it sees the nodes: %s", err, view)
	}
	if i < f.masters {
		return nil
	}
	link, err := f.ask(i, "INFO", "replication")
	if err == nil && !strings.Contains(link, "master_link_status:up") {
		err = errors.New("replica is not linked to its master")
	}
	return err
}

// complete tells if a reply to CLUSTER NODES names every node in its part:
// id, address, flags, master, two times, epoch, state of the link, slots.
func (f *formation) complete(view string) error {
	seen := map[string][]string{}
	for line := range strings.Lines(view) {
		if w := strings.Fields(line); len(w) >= 8 {
			seen[w[0]] = w
		}
	}
	if len(seen) != len(f.nodes) {
		return fmt.Errorf("%d nodes of %d are known", len(seen), len(f.nodes))
	}
	for i, id := range f.ids {
		w := seen[id]
		if w == nil {
			return fmt.Errorf("node %d is unknown", i)
		}
		flags, master := "master", "-"
		if m := f.master(i); m != i {
			flags, master = "slave", f.ids[m]
		}
		if strings.TrimPrefix(w[2], "myself,") != flags || w[3] != master || w[7] != "connected" {
			return fmt.Errorf("node %d is not a connected %s", i, flags)
		}
	}
	return nil
}

func (f *formation) ask(i int, words ...string) (string, error) {
	return ask(f.nodes[i].socket, answerTimeout, words...)
}

func (f *formation) do(i int, words ...string) error {
	if _, err := f.ask(i, words...); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(words[:2], " "), err)
	}
	return nil
}

// retry calls f until it succeeds, and returns its last error at the end.
func retry(end time.Time, f func() error) error {
	for {
		err := f()
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}
