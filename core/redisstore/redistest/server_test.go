package redistest_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

const patience = 5 * time.Second

// say sends a command to the server's Unix socket and returns the reply.
func say(t *testing.T, s *redistest.Server, words ...string) string {
	t.Helper()
	reply, err := redistest.Ask(s, patience, words...)
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return reply
}

// ping sends a command over TCP.
func ping(addr string, wait time.Duration) error {
	conn, err := net.DialTimeout("tcp", addr, wait)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && line != "+PONG\r\n" {
		err = errors.New(line)
	}
	return err
}

func TestServerAnswersOnBothItsAddresses(t *testing.T) {
	t.Parallel()
	s := redistest.Need(t)
	if err := ping(s.Addr(), patience); err != nil {
		t.Error(err)
	}
	if got := say(t, s, "PING"); got != "PONG" {
		t.Errorf("PING over the socket: %q", got)
	}
	if host, _, err := net.SplitHostPort(s.Addr()); err != nil || host != "127.0.0.1" {
		t.Errorf("address %q, want one of 127.0.0.1", s.Addr())
	}
	if filepath.Dir(s.Socket()) != s.Dir() {
		t.Errorf("socket %q is not in the directory %q", s.Socket(), s.Dir())
	}
	if info := say(t, s, "INFO", "persistence"); !strings.Contains(info, "aof_enabled:0") {
		t.Errorf("server writes to disk: %s", info)
	}
}

func TestOptionsReachTheServerButCannotMoveIt(t *testing.T) {
	t.Parallel()
	s := redistest.Need(t, "--maxmemory", "10mb", "--port", "1", "--dir", "/", "--daemonize", "yes")
	if info := say(t, s, "INFO", "memory"); !strings.Contains(info, "maxmemory:10485760\r\n") {
		t.Errorf("maxmemory is not set: %s", info)
	}
	if err := ping(s.Addr(), patience); err != nil {
		t.Error(err)
	}
}

func TestServerWithAPasswordIsReady(t *testing.T) {
	t.Parallel()
	s := redistest.Need(t, "--requirepass", "secret")
	if got, err := redistest.Ask(s, patience, "PING"); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH ") {
		t.Errorf("PING without the password: %q, %v", got, err)
	}
}

func TestKilledServerStaysDownUntilRestart(t *testing.T) {
	t.Parallel()
	s := redistest.Need(t)
	addr, dir, pid := s.Addr(), s.Dir(), s.PID()
	say(t, s, "SET", "key", "value")
	for range 2 {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if err := ping(addr, patience); err == nil || s.PID() != 0 {
		t.Errorf("killed server answers: %v, process %d", err, s.PID())
	}
	if err := s.Pause(); !errors.Is(err, redistest.ErrDown) {
		t.Errorf("Pause of a killed server: %v", err)
	}
	if err := s.Resume(); !errors.Is(err, redistest.ErrDown) {
		t.Errorf("Resume of a killed server: %v", err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := ping(addr, patience); err != nil {
		t.Error(err)
	}
	if s.Addr() != addr || s.Dir() != dir || s.PID() == pid || s.PID() == 0 {
		t.Errorf("restarted at %s in %s as %d, was at %s in %s as %d", s.Addr(), s.Dir(), s.PID(), addr, dir, pid)
	}
	if got := say(t, s, "DBSIZE"); got != "0" {
		t.Errorf("%s keys outlived the restart", got)
	}
}

func TestRestartKeepsDataThatOptionsKeep(t *testing.T) {
	t.Parallel()
	s := redistest.Need(t, "--appendonly", "yes", "--appendfsync", "always")
	say(t, s, "SET", "key", "value")
	// Running, and paused.
	for _, before := range []func() error{func() error { return nil }, s.Pause} {
		if err := errors.Join(before(), s.Restart()); err != nil {
			t.Fatal(err)
		}
		if got := say(t, s, "GET", "key"); got != "value" {
			t.Errorf("GET after the restart: %q", got)
		}
	}
}

func TestPausedServerAnswersNobodyUntilResumed(t *testing.T) {
	t.Parallel()
	s := redistest.Need(t)
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if err := ping(s.Addr(), 50*time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("PING of a paused server: %v, want a timeout", err)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := ping(s.Addr(), patience); err != nil {
		t.Error(err)
	}
}

func TestServersOfOneProgramAreApart(t *testing.T) {
	t.Parallel()
	a, b := redistest.Need(t), redistest.Need(t)
	if a.Addr() == b.Addr() || a.Dir() == b.Dir() || a.PID() == b.PID() {
		t.Fatalf("%s %s and %s %s are not two servers", a.Addr(), a.Dir(), b.Addr(), b.Dir())
	}
	say(t, a, "SET", "key", "value")
	if got := say(t, b, "DBSIZE"); got != "0" {
		t.Errorf("second server has %s keys of the first", got)
	}
	// It would hang if the second watchdog held the pipe of the first.
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := ping(b.Addr(), patience); err != nil {
		t.Errorf("second server after the first was stopped: %v", err)
	}
}

func TestRestartOfAStoppedServerIsRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Need(t)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(); !errors.Is(err, redistest.ErrStopped) {
		t.Errorf("Restart: %v", err)
	}
	if err := errors.Join(s.Kill(), s.Stop()); err != nil {
		t.Errorf("Kill and Stop of a stopped server: %v", err)
	}
}

func TestRestartOnATakenPortFailsAndCanBeRepeated(t *testing.T) {
	t.Parallel()
	s := redistest.Need(t)
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(); err == nil || !strings.Contains(err.Error(), "Address already in use") || s.PID() != 0 {
		t.Errorf("Restart: %v, process %d", err, s.PID())
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(); err != nil {
		t.Error(err)
	}
}

func TestLogIsQuotedWhenTheServerDoesNotComeUp(t *testing.T) {
	redistest.Need(t)
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	_, err := redistest.Start("--no-such-option", "1")
	if err == nil || !strings.Contains(err.Error(), "no-such-option") || !strings.Contains(err.Error(), "Bad directive") {
		t.Errorf("error is %v, want the log in it", err)
	}
	empty(t, parent)
}

func TestArgsThatAreNoOptionsAreRefused(t *testing.T) {
	redistest.Need(t)
	if _, err := redistest.Start("/etc/redis/redis.conf"); err == nil || !strings.Contains(err.Error(), `args begins with "/etc/redis/redis.conf"`) {
		t.Errorf("a configuration file: %v", err)
	}
}

// install puts an executable shell script on an otherwise empty PATH.
func install(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
}

func TestStartOfAServerThatHangsIsBounded(t *testing.T) {
	redistest.Need(t)
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	install(t, "redis-server", "echo so far and no further\nexec /bin/sleep 60\n")
	began := time.Now()
	_, err := redistest.StartWithin(100 * time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "does not answer after 100ms; its log: so far and no further") {
		t.Errorf("error is %v, want the bound and the log in it", err)
	}
	if took := time.Since(began); took > patience {
		t.Errorf("start took %v", took)
	}
	empty(t, parent)
}

func TestDirectoryForTemporaryFilesMayBeLongOrRelative(t *testing.T) {
	redistest.Need(t)
	t.Chdir(t.TempDir())
	long := strings.Repeat("long", 30)
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{long, "."} {
		t.Setenv("TMPDIR", dir)
		s := redistest.Need(t)
		if !filepath.IsAbs(s.Dir()) {
			t.Errorf("directory %q depends on where the program stands", s.Dir())
		}
		say(t, s, "PING")
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// empty fails the test if anything is left in dir.
func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind in %s: %v, %v", dir, left, err)
	}
}

func TestReplies(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ reply, problem string }{
		"+PONG\r\n":          {reply: "PONG"},
		":42\r\n":            {reply: "42"},
		"$3\r\na\nb\r\n":     {reply: "a\nb"},
		"$0\r\n\r\n":         {},
		"$-1\r\n":            {},
		"-ERR no\r\n":        {problem: "ERR no"},
		"":                   {problem: "EOF"},
		"\r\n":               {problem: "empty reply"},
		"$3\r\na":            {problem: "unexpected EOF"},
		"$x\r\n":             {problem: "invalid syntax"},
		"$1000000000000\r\n": {problem: "is longer than"},
		"*1\r\n:1\r\n":       {problem: "is of a kind that is not read here"},
	} {
		reply, err := redistest.ReadReply(text)
		if want.problem == "" && (err != nil || reply != want.reply) {
			t.Errorf("%q is read as %q, %v, want %q", text, reply, err, want.reply)
		}
		if want.problem != "" && (err == nil || !strings.Contains(err.Error(), want.problem)) {
			t.Errorf("%q is read as %q, %v, want error %q", text, reply, err, want.problem)
		}
	}
}
