//go:build unix

package redistest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// client returns a client of go-redis that tries once and has a connection.
func client(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 1, ReadTimeout: patience})
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCommandRunsThoughItsReplyIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Need(t)
	p := redistest.NeedProxy(t, server.Addr())
	c := client(t, p.Addr())
	for n, spoil := range map[string]func(){"1": func() { p.DropReplies(1) }, "2": p.CutReply} {
		key := "key" + n
		spoil()
		if got, err := c.Incr(t.Context(), key).Result(); err == nil {
			t.Errorf("INCR of %s: %d, want an error", key, got)
		}
		if got := say(t, server, "GET", key); got != "1" {
			t.Errorf("%s is %q after one INCR", key, got)
		}
		if got, err := c.Incr(t.Context(), key).Result(); err != nil || got != 2 {
			t.Errorf("second INCR of %s: %d, %v", key, got, err)
		}
	}
}

func TestCommandThatTimedOutRunsAfterAStall(t *testing.T) {
	t.Parallel()
	server := redistest.Need(t)
	p := redistest.NeedProxy(t, server.Addr())
	c := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1, ReadTimeout: brief})
	defer c.Close()
	eventually(t, func() error { return c.Ping(t.Context()).Err() })
	p.Stall()
	var timeout net.Error
	if err := c.Incr(t.Context(), "key").Err(); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("INCR in a stall: %v, want a timeout", err)
	}
	if got := say(t, server, "GET", "key"); got != "" {
		t.Errorf("key is %q in the stall", got)
	}
	heal(t, p)
	eventually(t, func() error {
		if got := say(t, server, "GET", "key"); got != "1" {
			return errors.New("key is " + got)
		}
		return nil
	})
}

// running returns the stacks of goroutines that belong to proxies.
func running() []string {
	buffer := make([]byte, 1<<20)
	var found []string
	for _, stack := range strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		for _, method := range []string{"(*Proxy).accept", "(*link).", "(*flow)."} {
			if strings.Contains(stack, "redistest."+method) {
				found = append(found, stack)
				break
			}
		}
	}
	return found
}

// TestCloseEndsEveryGoroutine runs alone: parallel tests have proxies too.
func TestCloseEndsEveryGoroutine(t *testing.T) {
	for name, fault := range map[string]func(*redistest.Proxy){
		"none":        func(*redistest.Proxy) {},
		"Delay":       func(p *redistest.Proxy) { p.Delay(time.Hour) },
		"Stall":       (*redistest.Proxy).Stall,
		"BlackHole":   (*redistest.Proxy).BlackHole,
		"Refuse":      (*redistest.Proxy).Refuse,
		"Reset":       (*redistest.Proxy).Reset,
		"DropReplies": func(p *redistest.Proxy) { p.DropReplies(1) },
		"CutReply":    (*redistest.Proxy).CutReply,
	} {
		e := startEcho(t)
		p, err := redistest.StartProxy(e.addr)
		if err != nil {
			t.Fatal(err)
		}
		users := []*user{connect(t, p.Addr()), connect(t, p.Addr())}
		users[0].talks(t, "warm")
		users[1].talks(t, "warm")
		if len(running()) < 5 {
			t.Fatalf("%d goroutines of a proxy are found with 2 connections", len(running()))
		}
		fault(p)
		_, _ = io.WriteString(users[0], "request\n")
		if err := errors.Join(p.Close(), p.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		users[1].ends(t)
		eventually(t, func() error {
			if left := running(); len(left) > 0 {
				return errors.New("after Close with " + name + ": " + strings.Join(left, "\n\n"))
			}
			return nil
		})
		if p.Open() != 0 {
			t.Errorf("%s: %d connections are open after Close", name, p.Open())
		}
		if err := p.Heal(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: Heal after Close: %v", name, err)
		}
		if conn, err := net.Dial("tcp", p.Addr()); err == nil {
			t.Errorf("%s: connected to %v after Close", name, conn.RemoteAddr())
		}
	}
}

// deaf returns the address of a listener that accepts nothing and has no more room
// for connections, so that attempts to connect are not answered.
func deaf(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 300 {
		conn, err := net.DialTimeout("tcp", addr, brief)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Skip("this system always has room for connections")
	return ""
}

func TestCloseGivesUpConnecting(t *testing.T) {
	t.Parallel()
	p := redistest.NeedProxy(t, deaf(t))
	c := connect(t, p.Addr())
	counts(t, p, 1, 1)
	c.send(t, "request")
	c.hearsNothing(t)
	began := time.Now()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > patience {
		t.Errorf("Close took %v", took)
	}
	c.ends(t)
}

func TestFaultsMayChangeAtAnyTime(t *testing.T) {
	t.Parallel()
	server := redistest.Need(t)
	p := redistest.NeedProxy(t, server.Addr())
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c := redis.NewClient(&redis.Options{Addr: p.Addr(), ReadTimeout: time.Millisecond, DialTimeout: patience})
			defer c.Close()
			for ctx.Err() == nil {
				// What comes of it is the faults' matter.
				_ = c.Incr(ctx, "key").Err()
			}
		})
	}
	faults := []func(){
		p.Stall, p.BlackHole, p.Refuse, p.Reset, p.CutReply,
		func() { p.DropReplies(3) }, func() { p.Delay(time.Millisecond) },
		func() { heal(t, p) }, func() { heal(t, p) },
	}
	for range 2 {
		wg.Go(func() {
			for range 200 {
				faults[rand.IntN(len(faults))]()
				runtime.Gosched()
			}
		})
	}
	wg.Go(func() {
		defer cancel()
		for end := time.Now().Add(patience); p.Accepted() < 50 && time.Now().Before(end); {
			_ = p.Open()
			time.Sleep(time.Millisecond)
			heal(t, p)
		}
	})
	wg.Wait()
	heal(t, p)
	if err := client(t, p.Addr()).Incr(t.Context(), "key").Err(); err != nil {
		t.Errorf("after all faults are healed: %v", err)
	}
}
