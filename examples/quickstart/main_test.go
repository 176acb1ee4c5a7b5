package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
)

func inRedis(t *testing.T, addr string) core.Store {
	t.Helper()
	store, err := redisstore.Open("redis://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func TestTheCurlLinesShowWhatTheyPromise(t *testing.T) {
	t.Run("memory", func(t *testing.T) { curl(t, nil) })
	t.Run("redis", func(t *testing.T) { curl(t, inRedis(t, miniredis.RunT(t).Addr())) })
}

// curl sends what the curl lines of the guide send.
func curl(t *testing.T, store core.Store) {
	server := httptest.NewServer(handler(store))
	defer server.Close()

	response, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 || response.Header.Get("X-RateLimit-Limit") != "100" ||
		response.Header.Get("X-RateLimit-Remaining") != "99" || response.Header.Get("X-RateLimit-Reset") == "" {
		t.Fatalf("GET /: %s, %v", response.Status, response.Header)
	}

	for i, want := range []struct {
		status                int
		remaining, retryAfter string
	}{{200, "2", ""}, {200, "1", ""}, {200, "0", ""}, {429, "0", "10"}, {429, "0", "10"}} {
		response, err := http.Post(server.URL+"/login", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		h := response.Header
		if response.StatusCode != want.status || h.Get("X-RateLimit-Limit") != "3" ||
			h.Get("X-RateLimit-Remaining") != want.remaining || h.Get("Retry-After") != want.retryAfter {
			t.Errorf("POST /login, request %d: %s, %v; want %+v", i+1, response.Status, h, want)
		}
	}
}

func TestTwoInstancesShareTheLimits(t *testing.T) {
	m := miniredis.RunT(t)
	first, second := httptest.NewServer(handler(inRedis(t, m.Addr()))), httptest.NewServer(handler(inRedis(t, m.Addr())))
	defer first.Close()
	defer second.Close()
	for i, server := range []*httptest.Server{first, second, first, second, first} {
		want := http.StatusOK
		if i >= 3 {
			want = http.StatusTooManyRequests
		}
		response, err := http.Post(server.URL+"/login", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("POST /login, request %d: %s, want %d", i+1, response.Status, want)
		}
	}
}

// start runs the program and returns its base URL, what it prints until the
// reader is closed, and what stops it.
func start(t *testing.T, shared string) (url string, printed func() string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", shared, w) }()

	buffered := bufio.NewReader(r)
	line, err := buffered.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	rest := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(buffered)
		rest <- string(all)
	}()
	_, address, _ := strings.Cut(line, "http://")
	address, _, _ = strings.Cut(address, " ")
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run ended with %v", err)
		}
		w.Close()
	}
	return "http://" + address, func() string { return <-rest }, stop
}

func TestRunPrintsItsAddressServesAndStops(t *testing.T) {
	for _, shared := range []string{"", miniredis.RunT(t).Addr()} {
		url, printed, stop := start(t, shared)
		response, err := http.Get(url + "/")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 200 {
			t.Errorf("-redis %q: GET / answered %s", shared, response.Status)
		}
		stop()
		if says := strings.Contains(printed(), "counted in Redis"); says != (shared != "") {
			t.Errorf("-redis %q: the guide speaks of Redis: %v", shared, says)
		}
	}
}

func TestItServesWithoutRedisAndSaysHow(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := free.Addr().String()
	free.Close()

	url, printed, stop := start(t, nobody)
	began := time.Now()
	response, err := http.Get(url + "/")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if took := time.Since(began); response.StatusCode != http.StatusOK || response.Header.Get("X-RateLimit-Remaining") != "99" || took > 5*time.Second {
		t.Errorf("GET / answered %s after %v, %v; want the local window's 200 soon", response.Status, took, response.Header)
	}
	stop()
	if !strings.Contains(printed(), "a window in this instance's memory decides") {
		t.Error("the guide does not say how a request fares without Redis")
	}
}

func TestAnAddressInUseIsAnErrorWithARemedy(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	err = run(t.Context(), busy.Addr().String(), "", io.Discard)
	if err == nil || !strings.Contains(err.Error(), "-addr") {
		t.Errorf("run on an address in use: %v", err)
	}
}
