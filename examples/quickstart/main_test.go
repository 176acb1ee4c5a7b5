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
)

func TestTheCurlLinesShowWhatTheyPromise(t *testing.T) {
	server := httptest.NewServer(handler())
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

func TestRunPrintsItsAddressServesAndStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", w) }()

	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, r)
	_, address, _ := strings.Cut(line, "http://")
	address, _, _ = strings.Cut(address, " ")
	response, err := http.Get("http://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 {
		t.Errorf("GET / answered %s", response.Status)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run ended with %v", err)
	}
}

func TestAnAddressInUseIsAnErrorWithARemedy(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	err = run(t.Context(), busy.Addr().String(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "-addr") {
		t.Errorf("run on an address in use: %v", err)
	}
}
