package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	masterName = "slidegate"
	sentinels  = 3
	quorum     = 2

	// Sentinels tell of each other every 2 s, and meet by that.
	meetTimeout = 15 * time.Second

	// Sentinels keep what they know in their configuration file, and do not start
	// without one. Its name comes before the options of redis-server.
	sentinelShell = `file=$0; binary=$1; shift; exec "$binary" "$file" "$@"`
)

// Sentinel is a master, its replica, and three Redis Sentinels, which make the
// replica the master when the master is down.
type Sentinel struct {
	data      []*Server // the first master, and its replica
	sentinels []*Server
}

// StartSentinel starts a master, a replica and three sentinels with a quorum of 2.
// It returns when the replica is linked to its master, and each sentinel knows both
// and the other sentinels. That takes about 2 s: so often do sentinels tell of each
// other.
//
// A server counts as down after 0.4 s without an answer; its replica is the master
// 1 to 4 s later. A killed master that is restarted comes back empty and as a
// master; the sentinels make it a replica after about 10 s. The args are further
// options of the master and the replica, of which none may set a password.
//
// Errors are those of Start and StartReplica, and an error with the last state seen
// when the sentinels do not meet within 15 s.
func StartSentinel(args ...string) (*Sentinel, error) {
	s := &Sentinel{sentinels: make([]*Server, sentinels)}
	if err := s.start(args); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// NeedSentinel does for StartSentinel what Need does for Start.
func NeedSentinel(tb TB, args ...string) *Sentinel {
	tb.Helper()
	s, err := StartSentinel(args...)
	need(tb, err)
	atEnd(tb, s.Stop)
	return s
}

func (s *Sentinel) start(args []string) error {
	master, err := Start(args...)
	if err != nil {
		return err
	}
	s.data = []*Server{master}
	replica, err := StartReplica(master, args...)
	if err != nil {
		return err
	}
	s.data = append(s.data, replica)
	p := plan{options: []string{"--sentinel"}, prefix: func(directory string) ([]string, error) {
		return sentinelPrefix(directory, master.Addr())
	}}
	err = together(s.sentinels, func(i int) (err error) {
		s.sentinels[i], err = p.start()
		return err
	})
	if err != nil {
		return err
	}
	end := time.Now().Add(meetTimeout)
	for i := range s.sentinels {
		if err := retry(end, func() error { return s.ready(i) }); err != nil {
			return fmt.Errorf("slidegate: sentinel %d is not ready: %w", i, err)
		}
	}
	return nil
}

// sentinelPrefix writes the configuration file of a sentinel, and returns what runs
// redis-server with it.
func sentinelPrefix(directory, master string) ([]string, error) {
	host, port, err := net.SplitHostPort(master)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "sentinel monitor %s %s %s %d\n", masterName, host, port, quorum)
	fmt.Fprintf(&b, "sentinel down-after-milliseconds %s 400\n", masterName)
	// A failover that came to nothing is tried again after twice as long.
	fmt.Fprintf(&b, "sentinel failover-timeout %s 2000\n", masterName)
	file := filepath.Join(directory, "sentinel.conf")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return nil, fmt.Errorf("slidegate: configuration of a sentinel: %w", err)
	}
	return []string{"/bin/sh", "-c", sentinelShell, file}, nil
}

// Addrs returns the TCP addresses of the sentinels.
func (s *Sentinel) Addrs() []string {
	addrs := make([]string, len(s.sentinels))
	for i, server := range s.sentinels {
		addrs[i] = server.Addr()
	}
	return addrs
}

// MasterName returns the name by which clients ask the sentinels for the master.
func (s *Sentinel) MasterName() string { return masterName }

// Servers returns the first master and its replica. They keep their places when the
// replica has taken over.
func (s *Sentinel) Servers() []*Server { return append([]*Server(nil), s.data...) }

// Sentinels returns the sentinels, in the order of Addrs.
func (s *Sentinel) Sentinels() []*Server { return append([]*Server(nil), s.sentinels...) }

// Master asks the sentinels, one after another, and returns the server that the
// first answer names. That is the old master while the replica has not taken over,
// and other sentinels may learn of a new one a moment later.
func (s *Sentinel) Master() (*Server, error) {
	var errs []error
	for i := range s.sentinels {
		fields, err := s.view(i)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, server := range s.data {
			if server.Addr() == fields["address"] {
				return server, nil
			}
		}
		errs = append(errs, fmt.Errorf("sentinel %d names %q, which is none of the servers", i, fields["address"]))
	}
	return nil, fmt.Errorf("slidegate: ask for the master: %w", errors.Join(errs...))
}

// Stop ends all servers and sentinels and removes their directories. Further calls
// do nothing.
func (s *Sentinel) Stop() error {
	// First the sentinels: they shall see no server go.
	stop := func(servers []*Server) error {
		return together(servers, func(i int) error {
			if servers[i] == nil {
				return nil
			}
			return servers[i].Stop()
		})
	}
	return errors.Join(stop(s.sentinels), stop(s.data))
}

// view returns what sentinel i knows of the master: name, status, address, slaves
// and sentinels, itself among them.
func (s *Sentinel) view(i int) (map[string]string, error) {
	info, err := s.sentinels[i].Do("INFO", "sentinel")
	if err != nil {
		return nil, fmt.Errorf("sentinel %d: %w", i, err)
	}
	_, line, _ := strings.Cut(info, "\nmaster0:")
	line, _, _ = strings.Cut(line, "\r\n")
	fields := map[string]string{}
	for field := range strings.SplitSeq(line, ",") {
		name, value, _ := strings.Cut(field, "=")
		fields[name] = value
	}
	return fields, nil
}

// ready returns what sentinel i still lacks.
func (s *Sentinel) ready(i int) error {
	fields, err := s.view(i)
	if err != nil {
		return err
	}
	if fields["status"] != "ok" || fields["slaves"] != fmt.Sprint(len(s.data)-1) || fields["sentinels"] != fmt.Sprint(sentinels) {
		return fmt.Errorf("it sees %v", fields)
	}
	return nil
}

// together calls f for the index of each server, at the same time.
func together(servers []*Server, f func(i int) error) error {
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
