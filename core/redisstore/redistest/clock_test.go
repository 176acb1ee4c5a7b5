package redistest_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// checkTime fails unless the server's time is the system's plus offset.
func checkTime(t *testing.T, s *redistest.Server, offset time.Duration) {
	t.Helper()
	before := time.Now().Round(0).Truncate(time.Microsecond)
	reply := say(t, s, "EVAL", "local t = redis.call('TIME') return t[1] .. string.format('%06d', t[2])", "0")
	after := time.Now().Round(0)
	us, err := strconv.ParseInt(reply, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if got := time.UnixMicro(us).Add(-offset); got.Before(before) || got.After(after) {
		t.Errorf("TIME without the offset %v is %v, want %v to %v", offset, got, before, after)
	}
}

func TestTimeOfTheServerMovesByTheSteps(t *testing.T) {
	t.Parallel()
	s, c := redistest.NeedWithClock(t)
	checkTime(t, s, 0)
	var sum time.Duration
	for _, d := range []time.Duration{
		time.Microsecond, -2 * time.Microsecond, -999998 * time.Microsecond, 1999998 * time.Microsecond, 1500 * time.Millisecond,
		-3700 * time.Millisecond, time.Hour, -48 * time.Hour, 400 * 24 * time.Hour,
	} {
		sum += d
		c.Step(d)
		if c.Offset() != sum {
			t.Errorf("offset is %v after steps of %v", c.Offset(), sum)
		}
		checkTime(t, s, sum)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	checkTime(t, s, sum)
}

func TestKeysExpireByTheMovedClock(t *testing.T) {
	t.Parallel()
	s, c := redistest.NeedWithClock(t)
	// The real time that passes meanwhile is far below the 20 s allowed for it.
	left := func(want time.Duration) {
		t.Helper()
		ms, err := strconv.ParseInt(say(t, s, "PTTL", "key"), 10, 64)
		if got := time.Duration(ms) * time.Millisecond; err != nil || got > want || got < want-20*time.Second {
			t.Errorf("key lives for %v, want %v, %v", got, want, err)
		}
	}
	say(t, s, "SET", "key", "value", "PX", "60000")
	left(time.Minute)
	c.Step(-time.Hour)
	left(61 * time.Minute)
	c.Step(time.Hour + 30*time.Second)
	left(30 * time.Second)
	c.Step(31 * time.Second) // a second beyond: TTLs are whole milliseconds
	if got := say(t, s, "PTTL", "key"); got != "-2" {
		t.Errorf("PTTL of an expired key: %s", got)
	}
	c.Step(-time.Hour)
	if got := say(t, s, "EXISTS", "key"); got != "0" {
		t.Error("key came back with the clock")
	}
}

func TestClockMovesOneServerOnly(t *testing.T) {
	t.Parallel()
	a, clock := redistest.NeedWithClock(t)
	b, still := redistest.NeedWithClock(t)
	clock.Step(time.Hour)
	checkTime(t, a, time.Hour)
	checkTime(t, b, 0)
	if still.Offset() != 0 {
		t.Errorf("offset of the other clock is %v", still.Offset())
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	clock.Step(time.Hour)
	if clock.Offset() != 2*time.Hour {
		t.Errorf("offset is %v after the server's end", clock.Offset())
	}
}

func TestWithoutCompilerThereIsNoClock(t *testing.T) {
	redistest.NeedWithClock(t)
	server, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(err)
	}
	path, parent := t.TempDir(), t.TempDir()
	if err := os.Symlink(server, filepath.Join(path, "redis-server")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", path)
	t.Setenv("SLIDEGATE_REDIS", "") // or it would have to fail
	t.Setenv("TMPDIR", parent)
	if _, _, err := redistest.StartWithClock(); !errors.Is(err, redistest.ErrNoCompiler) {
		t.Errorf("StartWithClock: %v", err)
	}
	empty(t, parent)
	if w := under(needs["NeedWithClock"]); w.skipped == "" || w.failed != "" {
		t.Errorf("skips with %q, fails with %q", w.skipped, w.failed)
	}
}

func TestCompilersErrorIsQuoted(t *testing.T) {
	redistest.NeedWithClock(t)
	server, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	install(t, "cc", "echo no header files >&2\nexit 1\n")
	if err := os.Symlink(server, filepath.Join(os.Getenv("PATH"), "redis-server")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := redistest.StartWithClock(); err == nil || errors.Is(err, redistest.ErrNoCompiler) || !strings.Contains(err.Error(), "no header files") {
		t.Errorf("StartWithClock: %v", err)
	}
	empty(t, parent)
}
