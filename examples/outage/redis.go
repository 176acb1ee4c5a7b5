package main

import (
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// breakable is a Redis, with a proxy between it and the service, and the ways to
// break it.
type breakable struct {
	about  string
	addr   string
	faults []fault
	stop   func() error
}

// fault is one way to break Redis.
type fault struct {
	title          string
	broken, healed string // what is done, in words
	counts         string // what Redis then knows
	inflict, heal  func() error
}

// The titles of faults.
const (
	killed = "Redis is killed, and comes back empty"
	hangs  = "Redis hangs"
	full   = "Redis has no memory left"
)

// What Redis knows after an outage.
const (
	lost      = "Its counts are gone, and those of the outage are not replayed."
	untouched = "It counts on from before the outage."
	maybeMore = "It may have counted requests that were given up."
)

// openRedis starts a redis-server, or a stand-in in this process if there is none
// to start or standIn asks for it.
func openRedis(standIn bool) (*breakable, error) {
	if standIn {
		return standInRedis("a stand-in inside this program, as -stand-in asks")
	}
	server, err := redistest.Start()
	switch {
	case errors.Is(err, redistest.ErrNotInstalled), errors.Is(err, errors.ErrUnsupported):
		return standInRedis("a stand-in inside this program, since there is no redis-server to start")
	case err != nil:
		return nil, err
	}
	return realRedis(server)
}

func realRedis(s *redistest.Server) (*breakable, error) {
	p, err := redistest.StartProxy(s.Addr())
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	maxMemory := func(bytes string) func() error {
		return func() error {
			_, err := s.Do("CONFIG", "SET", "maxmemory", bytes)
			return err
		}
	}
	return &breakable{
		about: fmt.Sprintf("a redis-server of its own (%s, process %d)", s.Addr(), s.PID()),
		addr:  p.Addr(),
		faults: []fault{
			{killed, "SIGKILL: the process is gone", "the process is started again, without its data", lost, s.Kill, s.Restart},
			{hangs, "SIGSTOP: connections stay open, nothing answers", "SIGCONT: the process goes on", maybeMore, s.Pause, s.Resume},
			slow(p),
			{full, "CONFIG SET maxmemory 1: nothing can be written", "CONFIG SET maxmemory 0: no bound", untouched, maxMemory("1"), maxMemory("0")},
		},
		stop: func() error { return errors.Join(p.Close(), s.Stop()) },
	}, nil
}

func standInRedis(about string) (*breakable, error) {
	m, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("start a stand-in for Redis: %w", err)
	}
	p, err := redistest.StartProxy(m.Addr())
	if err != nil {
		m.Close()
		return nil, err
	}
	always := func(f func()) func() error { return func() error { f(); return nil } }
	return &breakable{
		about: about,
		addr:  p.Addr(),
		faults: []fault{
			{
				killed, "connections are closed, and refused", "connections are accepted, the data is gone", lost,
				always(p.Refuse), func() error { m.FlushAll(); return p.Heal() },
			},
			{hangs, "connections stay open, nothing answers", "everything goes on", maybeMore, always(p.Stall), p.Heal},
			slow(p),
			{
				full, "every command is answered with OOM", "commands are executed again", untouched,
				always(func() { m.SetError("OOM command not allowed when used memory > 'maxmemory'.") }), always(func() { m.SetError("") }),
			},
		},
		stop: func() error { defer m.Close(); return p.Close() },
	}, nil
}

// slow is the fault of a Redis that answers, but later than limiters wait.
func slow(p *redistest.Proxy) fault {
	const each = core.DefaultBudget * 8 / 10 // in each direction
	return fault{
		"Redis is slower than the budget", fmt.Sprintf("the network adds %v to each answer, and the budget is %v", 2*each, core.DefaultBudget),
		"the network is as fast as before", maybeMore, func() error { p.Delay(each); return nil }, p.Heal,
	}
}
