package redistest_test

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

func ExampleStart() {
	server, err := redistest.Start("--maxmemory", "10mb")
	if errors.Is(err, redistest.ErrNotInstalled) {
		fmt.Println("install redis-server first")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			log.Print(err)
		}
	}()
	fmt.Println("redis-cli -h 127.0.0.1, or", server.Addr(), "or", server.Socket())
}

func ExampleStartCluster() {
	// Three masters with a replica each.
	cluster, err := redistest.StartCluster(3, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			log.Print(err)
		}
	}()
	fmt.Println("addresses for a cluster client:", cluster.Addrs())
	// The first master fails; its replica, the fourth node, takes over.
	if err := cluster.Nodes()[0].Kill(); err != nil {
		log.Print(err)
	}
}

func ExampleStartWithClock() {
	server, clock, err := redistest.StartWithClock()
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			log.Print(err)
		}
	}()
	clock.Step(-time.Minute)
	fmt.Println("Redis now lags by", -clock.Offset())
}

func ExampleServer_Pause() {
	server, err := redistest.Start()
	if err != nil {
		log.Fatal(err)
	}
	// A server that hangs, goes on, dies, and comes back at its address.
	err = errors.Join(server.Pause(), server.Resume(), server.Kill(), server.Restart(), server.Stop())
	fmt.Println(err)
}

func ExampleNeed() {
	// In a test file: func TestWithRedis(t *testing.T).
	_ = func(t *testing.T) {
		server := redistest.Need(t)
		handler := http.NotFoundHandler() // Yours, with a store at server.Addr().
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
	}
}
