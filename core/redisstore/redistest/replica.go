package redistest

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// linkTimeout bounds the first copy of a master's data.
const linkTimeout = 10 * time.Second

// Do sends one command to the server, over its Unix socket and a connection of its
// own, and returns the reply, for which it waits 2 s. A simple string, an integer
// and a bulk string are returned as text, nothing (null) as "".
//
// Errors: ErrDown; what the server replies, such as "READONLY ..."; an array, which
// is not read; no reply in time, as of a paused server.
func (s *Server) Do(words ...string) (string, error) {
	if len(words) == 0 {
		return "", errors.New("slidegate: Do: no command")
	}
	if s.PID() == 0 {
		return "", ErrDown
	}
	reply, err := ask(s.socket, answerTimeout, words...)
	if err != nil {
		return "", fmt.Errorf("slidegate: %s: %w", words[0], err)
	}
	return reply, nil
}

// StartReplica starts a server as Start does, which copies all data of the server
// of, and returns when it has, as Demote does. It takes about 0.2 s.
func StartReplica(of *Server, args ...string) (*Server, error) {
	s, err := Start(args...)
	if err != nil {
		return nil, err
	}
	if err := s.Demote(of); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// NeedReplica does for StartReplica what Need does for Start.
func NeedReplica(tb TB, of *Server, args ...string) *Server {
	tb.Helper()
	s, err := StartReplica(of, args...)
	need(tb, err)
	atEnd(tb, s.Stop)
	return s
}

// Promote makes a replica a master (REPLICAOF NO ONE): it takes writes, keeps its
// data, and copies no more. A master stays one. Restart keeps the new role. It
// returns ErrDown when the server is down.
func (s *Server) Promote() error {
	if err := s.follow("NO", "ONE"); err != nil {
		return fmt.Errorf("slidegate: promote redis-server: %w", err)
	}
	return nil
}

// Demote makes the server a replica of another: it throws its data away, copies all
// data of the other and what is written there from then on, and refuses writes. It
// returns when the replica is linked to its master and has the data, at most after
// 10 s. Restart keeps the new role, but waits for no link. Only servers without a
// password can be linked.
//
// The other server is told not to wait for more replicas before it sends its data
// (repl-diskless-sync-delay 0), which it does for 5 s by default.
//
// Errors: ErrDown when the server is down; the other one is down; no link in time.
func (s *Server) Demote(of *Server) error {
	if err := s.demote(of); err != nil {
		return fmt.Errorf("slidegate: make redis-server a replica: %w", err)
	}
	return nil
}

func (s *Server) demote(of *Server) error {
	if s == of {
		return errors.New("a server cannot be its own master")
	}
	if _, err := of.Do("CONFIG", "SET", "repl-diskless-sync-delay", "0"); err != nil {
		return fmt.Errorf("its master: %w", err)
	}
	host, port, err := net.SplitHostPort(of.Addr())
	if err != nil {
		return err
	}
	if err := s.follow(host, port); err != nil {
		return err
	}
	return retry(time.Now().Add(linkTimeout), s.linked)
}

// follow sets the role, for now and for Restart.
func (s *Server) follow(host, port string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return ErrDown
	}
	if _, err := ask(s.socket, answerTimeout, "REPLICAOF", host, port); err != nil {
		return err
	}
	const option = "--replicaof"
	options := s.plan.options
	if n := len(options) - 3; n >= 0 && options[n] == option {
		options = options[:n]
	}
	s.plan.options = options[:len(options):len(options)]
	if host != "NO" {
		s.plan.options = append(s.plan.options, option, host, port)
	}
	return nil
}

// linked returns what a replica still lacks.
func (s *Server) linked() error {
	info, err := s.Do("INFO", "replication")
	if err == nil && !strings.Contains(info, "master_link_status:up\r\n") {
		err = errors.New("replica is not linked to its master: " + strings.Join(strings.Fields(info), " "))
	}
	return err
}
