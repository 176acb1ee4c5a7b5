package redistest

import (
	"errors"
	"os"
)

// TB is the part of testing.TB that is used here. Programs that import this
// package so get no flags of package testing.
type TB interface {
	Helper()
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
	Cleanup(func())
}

// Need starts a server as Start does, for one test, and stops it at the end of
// the test. Without redis-server, or without Unix, the test is skipped, and it
// fails if the environment variable SLIDEGATE_REDIS is "require". It fails on any
// other error.
func Need(tb TB, args ...string) *Server {
	tb.Helper()
	s, err := Start(args...)
	need(tb, err)
	atEnd(tb, s.Stop)
	return s
}

// NeedCluster does for StartCluster what Need does for Start.
func NeedCluster(tb TB, masters, replicas int, args ...string) *Cluster {
	tb.Helper()
	c, err := StartCluster(masters, replicas, args...)
	need(tb, err)
	atEnd(tb, c.Stop)
	return c
}

// NeedWithClock does for StartWithClock what Need does for Start. A missing cc is
// treated like a missing redis-server, and so is a system that is not Linux.
func NeedWithClock(tb TB, args ...string) (*Server, *Clock) {
	tb.Helper()
	s, c, err := StartWithClock(args...)
	need(tb, err)
	atEnd(tb, s.Stop)
	return s, c
}

// need ends the test unless err is nil.
func need(tb TB, err error) {
	tb.Helper()
	if err == nil {
		return
	}
	lacking := errors.Is(err, ErrNotInstalled) || errors.Is(err, ErrNoCompiler) || errors.Is(err, errors.ErrUnsupported)
	switch {
	case lacking && os.Getenv("SLIDEGATE_REDIS") == "require":
		tb.Fatalf("%v, and SLIDEGATE_REDIS is \"require\"", err)
	case lacking:
		tb.Skipf("%v: a test with a real Redis is left out", err)
	default:
		tb.Fatalf("%v", err)
	}
}

func atEnd(tb TB, stop func() error) {
	tb.Cleanup(func() {
		tb.Helper()
		if err := stop(); err != nil {
			tb.Errorf("%v", err)
		}
	})
}
