package redistest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// do sends a command with Do, and returns the reply or the error as text.
func do(s *redistest.Server, words ...string) string {
	reply, err := s.Do(words...)
	if err != nil {
		return err.Error()
	}
	return reply
}

// is fails the test unless a command is replied to so.
func is(t *testing.T, s *redistest.Server, want string, words ...string) {
	t.Helper()
	if got := do(s, words...); got != want {
		t.Errorf("%v: %q, want %q", words, got, want)
	}
}

// becomes is is for what replication brings a moment later. WAIT, on a connection
// of its own, would wait for nothing: it minds its own connection's writes.
func becomes(t *testing.T, s *redistest.Server, want string, words ...string) {
	t.Helper()
	for end := time.Now().Add(patience); do(s, words...) != want && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	is(t, s, want, words...)
}

const readOnly = "slidegate: SET: READONLY You can't write against a read only replica."

func TestReplicaCopiesItsMaster(t *testing.T) {
	t.Parallel()
	master := redistest.Need(t)
	is(t, master, "OK", "SET", "early", "1")
	began := time.Now()
	replica := redistest.NeedReplica(t, master, "--maxmemory", "10mb")
	// Redis waits 5 s by default.
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("replica has its data after %v: its master waits for more replicas", took)
	}
	is(t, replica, "1", "GET", "early")
	is(t, master, "OK", "SET", "late", "2")
	becomes(t, replica, "2", "GET", "late")
	is(t, replica, readOnly, "SET", "key", "value")
	if info := do(replica, "INFO", "memory"); !strings.Contains(info, "maxmemory:10485760\r\n") {
		t.Errorf("options do not reach the replica: %s", info)
	}
}

func TestRolesCanBeExchangedAndLastOverARestart(t *testing.T) {
	t.Parallel()
	a := redistest.Need(t)
	b := redistest.NeedReplica(t, a)
	is(t, a, "OK", "SET", "key", "of a")
	becomes(t, b, "of a", "GET", "key")
	if err := errors.Join(b.Promote(), b.Promote()); err != nil {
		t.Fatal(err)
	}
	is(t, b, "of a", "GET", "key")
	is(t, b, "OK", "SET", "key", "of b")
	is(t, a, "OK", "SET", "other", "of a alone")
	for range 2 {
		if err := a.Demote(b); err != nil {
			t.Fatal(err)
		}
		is(t, a, "of b", "GET", "key")
		is(t, a, "", "GET", "other")
	}
	if err := errors.Join(a.Restart(), b.Kill()); err != nil {
		t.Fatal(err)
	}
	is(t, a, readOnly, "SET", "key", "value")
	if err := errors.Join(b.Restart(), a.Promote(), a.Restart()); err != nil {
		t.Fatal(err)
	}
	is(t, a, "OK", "SET", "key", "value")
	is(t, b, "OK", "SET", "key", "value")
}

func TestServersThatAreDownChangeNoRoles(t *testing.T) {
	t.Parallel()
	up, down := redistest.Need(t), redistest.Need(t)
	if err := down.Kill(); err != nil {
		t.Fatal(err)
	}
	_, err := redistest.StartReplica(down)
	_, unanswered := down.Do("PING")
	for name, err := range map[string]error{
		"Do":                   unanswered,
		"Promote":              down.Promote(),
		"Demote":               down.Demote(up),
		"Demote to its own":    up.Demote(down),
		"StartReplica of such": err,
	} {
		if !errors.Is(err, redistest.ErrDown) || name != "Do" && !strings.HasPrefix(err.Error(), "slidegate: ") {
			t.Errorf("%s: %v, want ErrDown", name, err)
		}
	}
	if err := up.Demote(up); err == nil || !strings.Contains(err.Error(), "cannot be its own master") {
		t.Errorf("Demote to itself: %v", err)
	}
	is(t, up, "OK", "SET", "key", "value")
}

func TestDoReturnsWhatTheServerReplies(t *testing.T) {
	t.Parallel()
	s := redistest.Need(t)
	is(t, s, "PONG", "PING")
	is(t, s, "7", "INCRBY", "key", "7")
	is(t, s, "7", "GET", "key")
	is(t, s, "", "GET", "nothing")
	is(t, s, "slidegate: INCR: ERR wrong number of arguments for 'incr' command", "INCR")
	if got := do(s, "TIME"); !strings.HasPrefix(got, "slidegate: TIME: reply \"*2\" is of a kind") {
		t.Errorf("array: %s", got)
	}
	if _, err := s.Do(); err == nil || !strings.Contains(err.Error(), "slidegate: Do: no command") {
		t.Errorf("Do without a command: %v", err)
	}
}

func TestWithoutRedisReplicasAndSentinelsAreLeftOut(t *testing.T) {
	master := redistest.Need(t)
	t.Setenv("PATH", t.TempDir())
	t.Setenv("SLIDEGATE_REDIS", "")
	for name, need := range map[string]func(redistest.TB){
		"NeedReplica":  func(tb redistest.TB) { redistest.NeedReplica(tb, master) },
		"NeedSentinel": func(tb redistest.TB) { redistest.NeedSentinel(tb) },
	} {
		if w := under(need); !strings.Contains(w.skipped, "redis-server is not on the PATH") || w.failed != "" {
			t.Errorf("%s skips with %q, fails with %q", name, w.skipped, w.failed)
		}
	}
}
