//go:build unix

package redistest_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

func TestDelayHoldsEachDirectionAndNotTheNext(t *testing.T) {
	t.Parallel()
	const delay, requests = 50 * time.Millisecond, 40
	e := startEcho(t)
	p := redistest.NeedProxy(t, e.addr)
	c := connect(t, p.Addr())
	c.talks(t, "warm")
	p.Delay(delay)
	began := time.Now()
	for i := range requests {
		c.send(t, fmt.Sprint(i))
		// Else all would be one write.
		time.Sleep(time.Millisecond)
	}
	for i := range requests {
		c.hears(t, fmt.Sprint(i))
		if took := time.Since(began); i == 0 && took < 2*delay {
			t.Errorf("first reply after %v, want at least %v", took, 2*delay)
		}
	}
	if took := time.Since(began); took > requests*delay {
		t.Errorf("%d replies took %v: requests wait for each other", requests, took)
	}
	began = time.Now()
	connect(t, p.Addr()).talks(t, "new")
	if took := time.Since(began); took < 2*delay {
		t.Errorf("reply on a new connection after %v", took)
	}
	p.Delay(time.Hour)
	c.send(t, "late")
	c.hearsNothing(t)
	heal(t, p)
	c.hears(t, "late")
}

func TestStallHoldsBytesUntilHeal(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := redistest.NeedProxy(t, e.addr)
	old := connect(t, p.Addr())
	old.talks(t, "warm")
	e.got(t, "warm")
	p.Stall()
	young := connect(t, p.Addr())
	old.send(t, "old")
	young.send(t, "young")
	e.gotNothing(t)
	heal(t, p)
	old.hears(t, "old")
	young.hears(t, "young")
}

func TestStalledRequestOfAClientThatLeftArrivesLate(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := redistest.NeedProxy(t, e.addr)
	c := connect(t, p.Addr())
	c.talks(t, "warm")
	e.got(t, "warm")
	p.Stall()
	c.send(t, "impatient")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	counts(t, p, 1, 0)
	e.gotNothing(t)
	heal(t, p)
	e.got(t, "impatient")
}

func TestStallHoldsBackTheEndOfTheTarget(t *testing.T) {
	t.Parallel()
	server := redistest.Need(t)
	p := redistest.NeedProxy(t, server.Addr())
	c := connect(t, p.Addr())
	c.send(t, "PING")
	c.hears(t, "+PONG\r")
	p.Stall()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	c.hearsNothing(t)
	heal(t, p)
	c.ends(t)
}

func TestBlackHoleIsSilentForGood(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	target := redistest.NeedProxy(t, e.addr)
	p := redistest.NeedProxy(t, target.Addr())
	old := connect(t, p.Addr())
	old.talks(t, "warm")
	e.got(t, "warm")
	p.Stall()
	old.send(t, "held")
	p.BlackHole()
	young := connect(t, p.Addr())
	for range 2 {
		old.send(t, "old")
		young.send(t, "young")
		e.gotNothing(t)
		old.hearsNothing(t)
		young.hearsNothing(t)
		heal(t, p)
	}
	counts(t, p, 2, 2)
	counts(t, target, 1, 1)
	connect(t, p.Addr()).talks(t, "newest")
	if err := errors.Join(old.Close(), young.Close()); err != nil {
		t.Error(err)
	}
	counts(t, p, 3, 1)
}

func TestBlackHoleHidesTheEndOfTheTarget(t *testing.T) {
	t.Parallel()
	server := redistest.Need(t)
	p := redistest.NeedProxy(t, server.Addr())
	c := connect(t, p.Addr())
	c.send(t, "PING")
	c.hears(t, "+PONG\r")
	p.BlackHole()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	c.hearsNothing(t)
	counts(t, p, 1, 1)
}

// TestBlackHoleForgetsAClientThatHasLeft has a target that keeps its connection when
// the client has left.
func TestBlackHoleForgetsAClientThatHasLeft(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	p := redistest.NeedProxy(t, listener.Addr().String())
	c := connect(t, p.Addr())
	kept, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	counts(t, p, 1, 0)
	if _, err := kept.Write([]byte("a")); err != nil {
		t.Errorf("the target's connection ends with the client: %v", err)
	}
	p.BlackHole()
	eventually(t, func() error {
		if _, err := kept.Write([]byte("b")); err == nil {
			return errors.New("the target's connection is kept")
		}
		return nil
	})
}

func TestRefuseClosesAndHealListensAgain(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := redistest.NeedProxy(t, e.addr)
	addr := p.Addr()
	old := connect(t, addr)
	old.talks(t, "warm")
	for range 2 {
		p.Refuse()
		old.ends(t)
		if conn, err := net.DialTimeout("tcp", addr, patience); err == nil {
			t.Errorf("connection to %v is accepted", conn.RemoteAddr())
		} else if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial fails with %v, want it refused", err)
		}
		counts(t, p, 1, 0)
	}
	for range 2 {
		heal(t, p)
	}
	connect(t, addr).talks(t, "again")
	counts(t, p, 2, 1)
}

func TestHealWaitsForItsPort(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := redistest.NeedProxy(t, e.addr)
	p.Refuse()
	other, err := net.Listen("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Heal(); err == nil || !strings.Contains(err.Error(), "slidegate: heal the proxy: listen tcp "+p.Addr()) {
		t.Errorf("Heal on a taken port: %v", err)
	}
	time.AfterFunc(brief, func() { _ = other.Close() })
	heal(t, p)
	connect(t, p.Addr()).talks(t, "again")
}

func TestResetEndsOldConnectionsOnly(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := redistest.NeedProxy(t, e.addr)
	old := connect(t, p.Addr())
	old.talks(t, "warm")
	p.Reset()
	if _, err := old.in.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("old connection ends with %v, want a reset", err)
	}
	counts(t, p, 1, 0)
	connect(t, p.Addr()).talks(t, "new")
}

func TestDropRepliesLosesSoManyAfterTheRequests(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := redistest.NeedProxy(t, e.addr)
	users := []*user{connect(t, p.Addr()), connect(t, p.Addr()), connect(t, p.Addr())}
	for _, u := range users {
		u.talks(t, "warm")
		e.got(t, "warm")
	}
	p.DropReplies(2)
	for _, u := range users[:2] {
		u.send(t, "lost")
		e.got(t, "lost")
		u.ends(t)
	}
	users[2].talks(t, "heard")
	counts(t, p, 3, 1)
	for name, undo := range map[string]func(){
		"Heal":           func() { heal(t, p) },
		"DropReplies(0)": func() { p.DropReplies(0) },
	} {
		p.DropReplies(1)
		undo()
		users[2].talks(t, "after "+name)
	}
}

func TestCutReplyResetsWithinAReply(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := redistest.NeedProxy(t, e.addr)
	a, b := connect(t, p.Addr()), connect(t, p.Addr())
	a.talks(t, "warm")
	b.talks(t, "warm")
	p.CutReply()
	a.send(t, "reply")
	if first, err := a.in.ReadByte(); err != nil || first != 'r' {
		t.Errorf("client hears %q, %v, want the first byte", first, err)
	}
	if _, err := a.in.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("connection ends with %v, want a reset", err)
	}
	b.talks(t, "heard")
}
