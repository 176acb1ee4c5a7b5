//go:build unix

package redistest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// isMaster fails the test unless the sentinels name the server.
func isMaster(t *testing.T, s *redistest.Sentinel, want *redistest.Server) {
	t.Helper()
	if got, err := s.Master(); err != nil || got != want {
		t.Fatalf("master is %v, %v, want %s", got, err, want.Addr())
	}
}

func TestSentinelsPromoteTheReplicaOfADeadMaster(t *testing.T) {
	t.Parallel()
	s := redistest.NeedSentinel(t, "--maxmemory", "10mb")
	old, replica := s.Servers()[0], s.Servers()[1]
	isMaster(t, s, old)
	c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.MasterName(), SentinelAddrs: s.Addrs(), DialTimeout: time.Second})
	defer c.Close()
	if err := c.Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	is(t, old, "value", "GET", "key")
	becomes(t, replica, "value", "GET", "key")
	began := time.Now()
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	for {
		err := c.Incr(t.Context(), "counter").Err()
		if err == nil {
			break
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("no master after %v: %v", time.Since(began), err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("the client has a new master after %v", time.Since(began).Round(time.Millisecond))
	is(t, replica, "value", "GET", "key")
	is(t, replica, "1", "GET", "counter")
	eventually(t, func() error {
		if got, err := s.Master(); err != nil || got != replica {
			return fmt.Errorf("master is %v, %v, want %s", got, err, replica.Addr())
		}
		return nil
	})
}

// whole is how a sentinel that sees all describes the first master.
func whole(s *redistest.Sentinel) string {
	return "name=" + s.MasterName() + ",status=ok,address=" + s.Servers()[0].Addr() + ",slaves=1,sentinels=3\r\n"
}

func TestSentinelIsWholeUntilStopped(t *testing.T) {
	t.Parallel()
	s := redistest.NeedSentinel(t, "--maxmemory", "10mb")
	all := slices.Concat(s.Servers(), s.Sentinels())
	if len(s.Servers()) != 2 || len(s.Sentinels()) != 3 || len(s.Addrs()) != 3 {
		t.Fatalf("%d servers, %d sentinels at %v", len(s.Servers()), len(s.Sentinels()), s.Addrs())
	}
	for i, server := range s.Sentinels() {
		if s.Addrs()[i] != server.Addr() {
			t.Errorf("sentinel %d is %s in Sentinels and %s in Addrs", i, server.Addr(), s.Addrs()[i])
		}
		if info := do(server, "INFO", "sentinel"); !strings.Contains(info, whole(s)) {
			t.Errorf("sentinel %d does not see %s: %s", i, whole(s), info)
		}
		if info := do(server, "INFO", "server"); !strings.Contains(info, "redis_mode:sentinel\r\n") {
			t.Errorf("sentinel %d is none: %s", i, info)
		}
		if err := ping(server.Addr(), patience); err != nil {
			t.Errorf("sentinel %d: %v", i, err)
		}
	}
	for _, server := range s.Servers() {
		if info := do(server, "INFO", "memory"); !strings.Contains(info, "maxmemory:10485760\r\n") {
			t.Errorf("options do not reach %s: %s", server.Addr(), info)
		}
	}
	is(t, s.Servers()[1], readOnly, "SET", "key", "value")
	// A sentinel that starts again has not forgotten, and others answer for it.
	first := s.Sentinels()[0]
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	isMaster(t, s, s.Servers()[0])
	if err := first.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if info := do(first, "INFO", "sentinel"); !strings.Contains(info, whole(s)) {
			return errors.New(info)
		}
		return nil
	})
	if err := errors.Join(s.Stop(), s.Stop()); err != nil {
		t.Error(err)
	}
	for _, server := range all {
		if server.PID() != 0 || ping(server.Addr(), patience) == nil {
			t.Errorf("stopped server %s answers", server.Addr())
		}
	}
	if got, err := s.Master(); got != nil || !errors.Is(err, redistest.ErrDown) {
		t.Errorf("master after Stop: %v, %v, want ErrDown", got, err)
	}
}

func TestSentinelThatDoesNotComeUpLeavesNothing(t *testing.T) {
	redistest.Need(t)
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	_, err := redistest.StartSentinel("--no-such-option", "1")
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("error is %v, want the log in it", err)
	}
	// The replica cannot link to a master that wants a password.
	_, err = redistest.StartSentinel("--requirepass", "secret")
	if err == nil || !strings.Contains(err.Error(), "slidegate: make redis-server a replica: its master: slidegate: CONFIG: NOAUTH") {
		t.Errorf("with a password: %v", err)
	}
	empty(t, parent)
}

// sentinelChildEnv makes TestSentinelChild a program with sentinels.
const sentinelChildEnv = "REDISTEST_SENTINEL_CHILD"

// TestSentinelChild is the program of TestNoSentinelOutlivesItsProgram.
func TestSentinelChild(t *testing.T) {
	if os.Getenv(sentinelChildEnv) == "" {
		t.Skip("runs as the program of another test")
	}
	s, err := redistest.StartSentinel()
	if err != nil {
		t.Fatal(err)
	}
	var f family
	for _, server := range slices.Concat(s.Servers(), s.Sentinels()) {
		f.Servers = append(f.Servers, server.PID())
		f.Dirs = append(f.Dirs, server.Dir())
	}
	if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(os.Stdin)
}

func TestNoSentinelOutlivesItsProgram(t *testing.T) {
	t.Parallel()
	redistest.Need(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestSentinelChild$")
	cmd.Env = append(os.Environ(), sentinelChildEnv+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var f family
	decoded := json.NewDecoder(stdout).Decode(&f)
	for _, pid := range f.Servers {
		if !runs(pid) {
			t.Errorf("server %d has ended before its program", pid)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// It was killed, as the error says.
	_ = cmd.Wait()
	if decoded != nil || len(f.Servers) != 5 {
		t.Fatalf("program has %+v, %v, want 5 servers", f, decoded)
	}
	eventually(t, f.remains)
}
