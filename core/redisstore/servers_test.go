package redisstore_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

var quiet = redisstore.Logger(slog.New(slog.DiscardHandler))

// lazy is something that is started by the first test that wants it, for all tests
// that do not disturb one another.
type lazy[S interface{ Stop() error }] struct {
	once    sync.Once
	started S
	err     error
	running bool
}

func (l *lazy[S]) get(tb testing.TB, start func() (S, error)) S {
	tb.Helper()
	l.once.Do(func() {
		l.started, l.err = start()
		l.running = l.err == nil
	})
	if errors.Is(l.err, redistest.ErrNotInstalled) {
		redistest.Need(tb) // says what is left out
	}
	if l.err != nil {
		tb.Fatal(l.err)
	}
	return l.started
}

func (l *lazy[S]) stop() {
	if !l.running {
		return
	}
	if err := l.started.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

var (
	oneServer  lazy[*redistest.Server]
	oneCluster lazy[*redistest.Cluster]
)

func TestMain(m *testing.M) {
	code := m.Run()
	oneServer.stop()
	oneCluster.stop()
	os.Exit(code)
}

// redisServer returns the real server. Without one the test is skipped.
func redisServer(tb testing.TB) *redistest.Server {
	tb.Helper()
	return oneServer.get(tb, func() (*redistest.Server, error) { return redistest.Start() })
}

// redisCluster returns the real cluster, of three masters.
func redisCluster(tb testing.TB) *redistest.Cluster {
	tb.Helper()
	return oneCluster.get(tb, func() (*redistest.Cluster, error) { return redistest.StartCluster(3, 0) })
}

func realClient(tb testing.TB) *redis.Client {
	tb.Helper()
	c := redis.NewClient(&redis.Options{Addr: redisServer(tb).Addr(), Protocol: 3})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func realClusterClient(tb testing.TB) *redis.ClusterClient {
	tb.Helper()
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: redisCluster(tb).Addrs(), Protocol: 2})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}
