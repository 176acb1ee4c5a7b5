package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	os.Exit(m.Run())
}

func TestThePromisesHoldAndAreShown(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"redis":    {nil, []string{"a redis-server of its own (127.0.0.1:", "SIGKILL", "SIGSTOP", "SIGCONT", "CONFIG SET maxmemory 1"}},
		"stand-in": {[]string{"-stand-in"}, []string{"a stand-in inside this program", "refused", "nothing answers", "answered with OOM"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.args == nil {
				needServer(t)
			}
			var out bytes.Buffer
			if err := run(t.Context(), append(tt.args, "-lasts", "300ms"), &out); err != nil {
				t.Fatalf("error %v\n%s", err, &out)
			}
			shows(t, out.String(), tt.want)
		})
	}
}

func shows(t *testing.T, out string, want []string) {
	t.Helper()
	for _, text := range append(want,
		"X-RateLimit-Limit: 5, X-RateLimit-Remaining: 0, X-RateLimit-Reset: ", "failure=timeout", "failure=oom", "the network adds 160ms",
		"\n2. Redis is killed", "\n3. Redis hangs", "\n4. Redis is slower", "\n5. Redis has no memory left", "\nSummary\n", "\nKept: no request took longer than ",
	) {
		if !strings.Contains(out, text) {
			t.Errorf("the output does not say %q:\n%s", text, out)
		}
	}
	for pattern, times := range map[string]int{
		`requests   200  4 of 5 left .* 200  4 of 5 left .* 200  4 of 5 left`: 5, // one of 6 may be late on a busy machine
		`requests   200  [0-4] of 5 left .* 200  no headers .* 503  no head`:  12,
		`requests   429  wait (9|10) s .* 200  no headers .* 503  no headers`: 4,
		`log        level=WARN msg="slidegate: the store gives no decision"`:  4,
		`log        level=INFO msg="slidegate: the store answers again"`:      4,
		`status     failing for .* decided locally: \d+, not at all: \d+`:     4,
		`status     healthy; `:            4,
		`back       Redis decides again `: 4,
	} {
		if got := len(regexp.MustCompile(pattern).FindAllString(out, -1)); got < times {
			t.Errorf("%q stands there %d times, want %d:\n%s", pattern, got, times, out)
		}
	}
}

func needServer(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not on the PATH")
	}
}

// untilSaid ends a run when it has said something.
type untilSaid struct {
	bytes.Buffer
	text string
	end  context.CancelFunc
}

func (u *untilSaid) Write(b []byte) (int, error) {
	if strings.Contains(string(b), u.text) {
		u.end()
	}
	return u.Buffer.Write(b)
}

func TestAnInterruptLeavesNoServer(t *testing.T) {
	needServer(t)
	for _, text := range []string{"Redis is well", "SIGKILL", "SIGSTOP"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			ctx, end := context.WithCancel(t.Context())
			defer end()
			out := &untilSaid{text: text, end: end}
			if err := run(ctx, []string{"-lasts", "200ms"}, out); err != nil {
				t.Fatalf("error %v\n%s", err, out)
			}
			if !strings.HasSuffix(out.String(), "\nInterrupted: no verdict.\n") {
				t.Errorf("it does not say that it was interrupted:\n%s", out)
			}
			addr := regexp.MustCompile(`own \((127\.0\.0\.1:\d+)`).FindStringSubmatch(out.String())
			if addr == nil {
				t.Fatalf("it does not say where its server is:\n%s", out)
			}
			if c, err := net.Dial("tcp", addr[1]); err == nil {
				c.Close()
				t.Errorf("the server is still there")
			}
		})
	}
}

func TestWithoutRedisServerItBreaksAStandIn(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	ctx, end := context.WithCancel(t.Context())
	end()
	var out bytes.Buffer
	err := run(ctx, nil, &out)
	if err != nil || !strings.Contains(out.String(), "since there is no redis-server to start") {
		t.Errorf("error %v\n%s", err, &out)
	}
}

func TestABrokenPromiseIsAnError(t *testing.T) {
	nothing := func(*miniredis.Miniredis) {}
	answer := func(text string) func(*miniredis.Miniredis) {
		return func(m *miniredis.Miniredis) { m.SetError(text) }
	}
	for name, tt := range map[string]struct {
		inflict, heal func(*miniredis.Miniredis)
		want          string
	}{
		"a fault that breaks nothing": {nothing, nothing, "a fault: /local answered \"200  3 of 5 left\" by Redis, which was broken"},
		"one that is not healed":      {answer("LOADING its data"), nothing, "a fault: /closed still answers \"503  no headers\", 2s after"},
		"one that is none of Redis":   {answer("NOPERM to do so"), answer(""), "a fault: lines logged: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := miniredis.RunT(t)
			r := &breakable{addr: m.Addr(), faults: []fault{{
				title:   "a fault",
				inflict: func() error { tt.inflict(m); return nil },
				heal:    func() error { tt.heal(m); return nil },
			}}}
			var out bytes.Buffer
			err := show(t.Context(), &out, r, pace{100 * time.Millisecond, 10 * time.Second})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(out.String(), "Kept") {
				t.Errorf("error %v, want %q\n%s", err, tt.want, &out)
			}
		})
	}
	t.Run("a fault that fails", func(t *testing.T) {
		fails := errors.New("cannot break it")
		r := &breakable{addr: miniredis.RunT(t).Addr(), faults: []fault{{inflict: func() error { return fails }}}}
		if err := show(t.Context(), io.Discard, r, pace{100 * time.Millisecond, time.Second}); !errors.Is(err, fails) {
			t.Errorf("error %v", err)
		}
	})
}

func TestWrongArgumentsAreErrors(t *testing.T) {
	for text, args := range map[string][]string{
		"-lasts": {"-lasts", "1ms"}, "-window": {"-window", "1h"}, "stray": {"stray"}, "-nothing": {"-nothing"},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: error %v", args, err)
		}
	}
}
