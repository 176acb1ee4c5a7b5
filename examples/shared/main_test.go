package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// TestMain lets the tests start instances of this program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serveArg {
		main()
		return
	}
	os.Exit(m.Run())
}

func standInFor(t *testing.T) string { return miniredis.RunT(t).Addr() }

// serveHere runs an instance in this process and returns its URL.
func serveHere(t *testing.T, addr string, spoil func(core.Store) core.Store) string {
	t.Helper()
	inRedis, err := redisstore.Open("redis://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inRedis.Close() })
	var store core.Store = inRedis
	if spoil != nil {
		store = spoil(store)
	}
	handler, err := service(store)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func TestTwoProcessesTogetherAdmitWhatTheLimitAllows(t *testing.T) {
	t.Run("stand-in", func(t *testing.T) { runOn(t, standInFor(t)) })
	t.Run("redis", func(t *testing.T) { runOn(t, redistest.Need(t).Addr()) })
}

func runOn(t *testing.T, addr string) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-redis", addr, "-for", "2500ms"}, &out); err != nil {
		t.Fatalf("error %v\n%s", err, out.String())
	}
	for _, want := range []string{
		"instance 1: process", "instance 2: process", "Fullest window of 1s: 100 requests", "HTTP/1.1 429 Too Many Requests\n",
		"\nRetry-After: 1\n", "\nX-Ratelimit-Limit: 100\n", "\nX-Ratelimit-Remaining: 0\n", "Try again in 1 s.", "Kept: ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output does not say %q:\n%s", want, out.String())
		}
	}
}

// stingy is a store that knows only half of each limit.
type stingy struct{ core.Store }

func (s stingy) Do(ctx context.Context, c *core.Call) error {
	for i := range c.Parts {
		c.Parts[i].N /= 2
	}
	return s.Store.Do(ctx, c)
}

func TestABrokenPromiseIsToldAndIsAnError(t *testing.T) {
	one := standInFor(t)
	halve := func(s core.Store) core.Store { return stingy{s} }
	for _, tt := range []struct {
		name string
		urls []string
	}{
		{"instances that count apart", []string{serveHere(t, one, nil), serveHere(t, standInFor(t), nil)}},
		{"instances that admit half", []string{serveHere(t, standInFor(t), halve)}},
	} {
		var out bytes.Buffer
		err := drive(t.Context(), &out, 1500*time.Millisecond, tt.urls...)
		if !errors.Is(err, errBroken) || !strings.Contains(out.String(), "BROKEN: ") {
			t.Errorf("%s: error %v\n%s", tt.name, err, out.String())
		}
	}
}

func TestTheFullestWindowIsHalfOpen(t *testing.T) {
	const w = 1_000_000
	at := func(list ...core.Instant) sight { return sight{admitted: list} }
	for _, tt := range []struct {
		seen []sight
		most int
	}{
		{nil, 0},
		{[]sight{at(7)}, 1},
		{[]sight{at(7, 7), at(7)}, 3},
		{[]sight{at(7), at(7 + w - 1)}, 2},
		{[]sight{at(7), at(7 + w)}, 1},
		{[]sight{at(7+w, 7+w+1), at(8, 9, 10)}, 4},
	} {
		most, from := fullest(tt.seen)
		total := 0
		for _, n := range from {
			total += n
		}
		if most != tt.most || total != most {
			t.Errorf("%v: %d %v, want %d", tt.seen, most, from, tt.most)
		}
	}
}

func TestAnInterruptEndsTheRunAndItsProcesses(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(700*time.Millisecond, stop)
	var out bytes.Buffer
	began := time.Now()
	if err := run(ctx, []string{"-redis", standInFor(t), "-for", "1m"}, &out); err != nil {
		t.Fatalf("error %v\n%s", err, out.String())
	}
	if took := time.Since(began); took > 20*time.Second || strings.Contains(out.String(), "Kept") {
		t.Errorf("it took %v and said\n%s", took, out.String())
	}
}

func TestAnInstanceEndsWithItsInput(t *testing.T) {
	in, end := io.Pipe()
	out := new(bytes.Buffer)
	ended := make(chan error, 1)
	go func() { ended <- serve(t.Context(), standInFor(t), in, out) }()
	end.Close()
	if err := <-ended; err != nil || !strings.HasPrefix(out.String(), "127.0.0.1:") {
		t.Errorf("error %v, printed %q", err, out)
	}
}

func TestAFailedRequestIsCountedAsSuch(t *testing.T) {
	store, err := redisstore.Open("redis://" + standInFor(t))
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	handler, err := service(store)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	unavailable := askAll(ctx, []string{server.URL})[0]
	server.Close()
	ctx, stop = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	gone := askAll(ctx, []string{server.URL})[0]
	for _, s := range []sight{unavailable, gone} {
		if s.failed == 0 || s.refused > 0 || len(s.admitted) > 0 {
			t.Errorf("%d failed, %d refused, %d admitted", s.failed, s.refused, len(s.admitted))
		}
	}
}

func TestWithoutAnAddressItBringsItsOwnRedis(t *testing.T) {
	for _, path := range []string{os.Getenv("PATH"), t.TempDir()} {
		t.Setenv("PATH", path)
		r, err := openRedis("")
		if err != nil {
			t.Fatal(err)
		}
		client := redis.NewClient(&redis.Options{Addr: r.addr})
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Errorf("%s%s: %v", r.addr, r.about, err)
		}
		client.Close()
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestWrongArgumentsAreErrors(t *testing.T) {
	for _, args := range [][]string{{"extra"}, {"-for", "x"}, {"-redis"}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
