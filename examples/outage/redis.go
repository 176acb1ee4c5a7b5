package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// broken is a Redis, and the ways to break it. Between it and the service is a proxy.
type broken struct {
	what  string
	proxy *redistest.Proxy
	// Each breaks it and returns what mends it.
	kill, hang, fill func() (mend func() error, err error)
	stop             func()
}

func (b *broken) addr() string { return b.proxy.Addr() }

// slow makes it slower than the budget of 100 ms.
func (b *broken) slow() (mend func() error, err error) {
	b.proxy.Delay(80 * time.Millisecond) // in each direction
	return b.proxy.Heal, nil
}

// realRedis breaks a redis-server.
func realRedis(s *redistest.Server) (*broken, error) {
	p, err := redistest.StartProxy(s.Addr())
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	setMemory := func(bytes string) error {
		_, err := s.Do("CONFIG", "SET", "maxmemory", bytes)
		return err
	}
	return &broken{
		what: fmt.Sprintf("a redis-server that was started for this (process %d)", s.PID()), proxy: p,
		kill: func() (func() error, error) { return s.Restart, s.Kill() },
		hang: func() (func() error, error) { return s.Resume, s.Pause() },
		fill: func() (func() error, error) { return func() error { return setMemory("0") }, setMemory("1") },
		stop: func() { _, _ = p.Close(), s.Stop() },
	}, nil
}

// standInRedis breaks a miniredis in this process.
func standInRedis() (*broken, error) {
	m, err := miniredis.Run()
	if err != nil {
		return nil, err
	}
	p, err := redistest.StartProxy(m.Addr())
	if err != nil {
		m.Close()
		return nil, err
	}
	return &broken{
		what: "a stand-in for Redis, since redis-server is not on the PATH or not wanted", proxy: p,
		kill: func() (func() error, error) {
			p.Refuse()
			return func() error { m.FlushAll(); return p.Heal() }, nil
		},
		hang: func() (func() error, error) { p.Stall(); return p.Heal, nil },
		fill: func() (func() error, error) {
			m.SetError("OOM command not allowed when used memory > 'maxmemory'.")
			return func() error { m.SetError(""); return nil }, nil
		},
		stop: func() { _ = p.Close(); m.Close() },
	}, nil
}
