package redistest_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// witness notes what a test is told.
type witness struct {
	skipped, failed string
	cleanups        []func()
}

func (w *witness) Helper()          {}
func (w *witness) Cleanup(f func()) { w.cleanups = append(w.cleanups, f) }

func (w *witness) Errorf(format string, args ...any) { w.failed = fmt.Sprintf(format, args...) }

func (w *witness) Skipf(format string, args ...any) {
	w.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (w *witness) Fatalf(format string, args ...any) {
	w.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// under runs f as a test would be.
func under(f func(tb redistest.TB)) *witness {
	w := &witness{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(w)
	}()
	<-done
	return w
}

var needs = map[string]func(redistest.TB){
	"Need":          func(tb redistest.TB) { redistest.Need(tb) },
	"NeedCluster":   func(tb redistest.TB) { redistest.NeedCluster(tb, 3, 0) },
	"NeedWithClock": func(tb redistest.TB) { redistest.NeedWithClock(tb) },
}

func TestWithoutRedisTestsAreLeftOutUnlessItIsRequired(t *testing.T) {
	redistest.Need(t)
	t.Setenv("PATH", t.TempDir())
	if _, err := redistest.Start(); !errors.Is(err, redistest.ErrNotInstalled) {
		t.Errorf("Start: %v", err)
	}
	if _, err := redistest.StartCluster(3, 1); !errors.Is(err, redistest.ErrNotInstalled) {
		t.Errorf("StartCluster: %v", err)
	}
	if _, _, err := redistest.StartWithClock(); !errors.Is(err, redistest.ErrNotInstalled) {
		t.Errorf("StartWithClock: %v", err)
	}
	for name, need := range needs {
		t.Setenv("SLIDEGATE_REDIS", "")
		if w := under(need); !strings.Contains(w.skipped, "redis-server is not on the PATH") || !strings.Contains(w.skipped, "left out") || w.failed != "" {
			t.Errorf("%s skips with %q, fails with %q", name, w.skipped, w.failed)
		}
		t.Setenv("SLIDEGATE_REDIS", "require")
		if w := under(need); !strings.Contains(w.failed, "redis-server is not on the PATH") || w.skipped != "" {
			t.Errorf("%s skips with %q, fails with %q where Redis is required", name, w.skipped, w.failed)
		}
	}
}

func TestOtherErrorsFailTheTest(t *testing.T) {
	t.Parallel()
	redistest.Need(t)
	w := under(func(tb redistest.TB) { redistest.Need(tb, "--no-such-option", "1") })
	if !strings.Contains(w.failed, "no-such-option") || w.skipped != "" {
		t.Errorf("skips with %q, fails with %q", w.skipped, w.failed)
	}
}

func TestServerEndsWithItsTest(t *testing.T) {
	t.Parallel()
	redistest.Need(t)
	var s *redistest.Server
	w := under(func(tb redistest.TB) { s = redistest.Need(tb) })
	if s == nil || s.PID() == 0 || len(w.cleanups) != 1 {
		t.Fatalf("server %v with %d cleanups, failed with %q", s, len(w.cleanups), w.failed)
	}
	w.cleanups[0]()
	if s.PID() != 0 || w.failed != "" {
		t.Errorf("process %d after the test, failed with %q", s.PID(), w.failed)
	}
}
