package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/bench/internal/server"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

func open(t *testing.T) *server.Server {
	t.Helper()
	redistest.Need(t) // skips where there is none
	s, err := server.Open(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestServerWithKeysIsRefused(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	defer s.Close()
	addr := s.Options().Addr
	if err := s.Set(ctx, "precious", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Open(ctx, addr); err == nil || !strings.Contains(err.Error(), "holds 1 keys") {
		t.Fatalf("a server with a key: %v", err)
	}
	if n, err := s.DBSize(ctx).Result(); n != 1 || err != nil {
		t.Fatalf("%d keys are left, %v", n, err)
	}
}

func TestGivenServerIsFlushedAndLeftRunning(t *testing.T) {
	ctx := context.Background()
	own := open(t)
	defer own.Close()
	given, err := server.Open(ctx, own.Options().Addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := given.Set(ctx, "k", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := given.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := own.DBSize(ctx).Result(); n != 0 || err != nil {
		t.Errorf("%d keys are left, %v", n, err)
	}
}

func TestOwnServerStops(t *testing.T) {
	s := open(t)
	addr := s.Options().Addr
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Open(context.Background(), addr); err == nil {
		t.Error("the server still answers")
	}
}

func TestNothingInstalled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := server.Open(context.Background(), ""); !errors.Is(err, redistest.ErrNotInstalled) {
		t.Errorf("without a redis-server: %v", err)
	}
}
