//go:build unix

package redistest_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// brief is how long a test looks for what must not come.
const brief = 30 * time.Millisecond

// echo is a target that sends every line back, and tells which it got. The line
// "bye" is its last.
type echo struct {
	addr  string
	lines chan string
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	e := &echo{addr: listener.Addr().String(), lines: make(chan string, 1000)}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go e.serve(conn)
		}
	}()
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		e.lines <- line
		if _, err := io.WriteString(conn, line); err != nil || line == "bye\n" {
			return
		}
	}
}

// got fails the test unless the next line to arrive is the one.
func (e *echo) got(t *testing.T, line string) {
	t.Helper()
	select {
	case got := <-e.lines:
		if got != line+"\n" {
			t.Errorf("target got %q, want %q", got, line)
		}
	case <-time.After(patience):
		t.Errorf("target did not get %q", line)
	}
}

// gotNothing fails the test if a line arrives.
func (e *echo) gotNothing(t *testing.T) {
	t.Helper()
	select {
	case got := <-e.lines:
		t.Errorf("target got %q", got)
	case <-time.After(brief):
	}
}

// user is a client's connection.
type user struct {
	*net.TCPConn
	in *bufio.Reader
}

func connect(t *testing.T, addr string) *user {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(4 * patience)); err != nil {
		t.Fatal(err)
	}
	return &user{conn.(*net.TCPConn), bufio.NewReader(conn)}
}

func (u *user) send(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(u, line+"\n"); err != nil {
		t.Errorf("send %q: %v", line, err)
	}
}

func (u *user) hears(t *testing.T, line string) {
	t.Helper()
	if got, err := u.in.ReadString('\n'); err != nil || got != line+"\n" {
		t.Errorf("client hears %q, %v, want %q", got, err, line)
	}
}

// talks fails the test unless a line comes back.
func (u *user) talks(t *testing.T, line string) {
	t.Helper()
	u.send(t, line)
	u.hears(t, line)
}

// hearsNothing fails the test if anything comes, or the connection ends.
func (u *user) hearsNothing(t *testing.T) {
	t.Helper()
	if err := u.SetReadDeadline(time.Now().Add(brief)); err != nil {
		t.Fatal(err)
	}
	if b, err := u.in.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("client hears %q, %v, want silence", b, err)
	}
	if err := u.SetReadDeadline(time.Now().Add(4 * patience)); err != nil {
		t.Fatal(err)
	}
}

// ends fails the test unless the connection does, with nothing before.
func (u *user) ends(t *testing.T) {
	t.Helper()
	if b, err := u.in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("client hears %q, %v, want the end", b, err)
	}
}

func counts(t *testing.T, p *redistest.Proxy, accepted int64, open int) {
	t.Helper()
	eventually(t, func() error {
		if p.Accepted() != accepted || p.Open() != open {
			return fmt.Errorf("accepted %d, open %d, want %d and %d", p.Accepted(), p.Open(), accepted, open)
		}
		return nil
	})
}

func heal(t *testing.T, p *redistest.Proxy) {
	t.Helper()
	if err := p.Heal(); err != nil {
		t.Error(err)
	}
}

func TestProxyPassesAllBytesOn(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := redistest.NeedProxy(t, e.addr)
	counts(t, p, 0, 0)
	a, b := connect(t, p.Addr()), connect(t, p.Addr())
	a.talks(t, "one")
	b.talks(t, "two")
	counts(t, p, 2, 2)
	big := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
	go func() { _, _ = a.Write(big) }()
	go func() {
		for range e.lines {
		}
	}()
	got := make([]byte, len(big))
	if _, err := io.ReadFull(a.in, got); err != nil || !bytes.Equal(got, big) {
		t.Errorf("1 MiB came back altered, %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	counts(t, p, 2, 1)
	b.talks(t, "three")
	close(e.lines)
}

func TestProxyPassesTheEndOfAConnectionOn(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := redistest.NeedProxy(t, e.addr)
	c := connect(t, p.Addr())
	c.talks(t, "bye")
	if _, err := c.in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("client sees %v when the target closes, want EOF", err)
	}
	counts(t, p, 1, 0)
	half := connect(t, p.Addr())
	half.send(t, "last words")
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	half.hears(t, "last words")
	half.ends(t)
}

func TestProxyResetsWhereTheTargetIsDown(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := redistest.NeedProxy(t, listener.Addr().String())
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	// The reset may come while the client still connects.
	conn, err := net.DialTimeout("tcp", p.Addr(), patience)
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("client sees %v, want a reset", err)
	}
	counts(t, p, 1, 0)
}

func TestProxyForNoAddressIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := redistest.StartProxy("localhost"); err == nil || !strings.Contains(err.Error(), "slidegate: target of the proxy: address localhost: missing port") {
		t.Errorf("target without a port: %v", err)
	}
	w := under(func(tb redistest.TB) { redistest.NeedProxy(tb, "localhost") })
	if !strings.Contains(w.failed, "missing port") {
		t.Errorf("NeedProxy fails with %q", w.failed)
	}
}
