// Package server gives the programs of this module a Redis server that is theirs
// alone: one of their own on a free port of the loopback interface, or an empty one
// whose address they were given.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// Server is a running server with a client.
type Server struct {
	*redis.Client
	own *redistest.Server // nil if the address was given
}

// Open connects to the server at addr, or starts one if addr is empty, with args
// added to its command line; the error is redistest.ErrNotInstalled if there is no
// redis-server. The programs flush the server, so one that holds keys is refused.
func Open(ctx context.Context, addr string, args ...string) (*Server, error) {
	if addr == "" {
		own, err := redistest.Start(args...)
		if err != nil {
			return nil, err
		}
		return &Server{Dial(own.Addr()), own}, nil
	}
	s := &Server{Client: Dial(addr)}
	size, err := s.DBSize(ctx).Result()
	if err == nil && size > 0 {
		err = fmt.Errorf("bench: the server at %s holds %d keys and would be flushed: give -redis an empty one", addr, size)
	}
	if err != nil {
		return nil, errors.Join(err, s.Client.Close())
	}
	return s, nil
}

// Dial returns a client for measurements: it repeats nothing and is patient.
func Dial(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, Protocol: 2, MaxRetries: -1, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// Close stops the server if Open started it, and flushes it otherwise.
func (s *Server) Close() error {
	if s.own == nil {
		return errors.Join(s.FlushDB(context.Background()).Err(), s.Client.Close())
	}
	return errors.Join(s.Client.Close(), s.own.Stop())
}

// Info returns a field of INFO, or an error if there is none.
func (s *Server) Info(ctx context.Context, section, field string) (string, error) {
	text, err := s.Client.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("bench: INFO %s has no field %s", section, field)
}

// Describe says what the figures were measured on.
func (s *Server) Describe(ctx context.Context) (string, error) {
	version, err := s.Info(ctx, "server", "redis_version")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Redis %s, %s/%s, %d CPUs, %s", version, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()), nil
}

// Quiet is for the Logger option of stores: New would warn each time.
var Quiet = slog.New(slog.DiscardHandler)
