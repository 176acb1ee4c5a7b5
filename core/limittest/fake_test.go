package limittest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fakeT takes note of failures in place of failing. Methods that it does not have
// panic.
type fakeT struct {
	testing.TB

	mu       sync.Mutex
	failures []string
	stopped  bool
	helpers  int
	cleanups []func()
}

func (f *fakeT) Helper() { f.helpers++ }

func (f *fakeT) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }

func (f *fakeT) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

// stop ends try.
type stop struct{}

func (f *fakeT) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	f.stopped = true
	panic(stop{})
}

// end does what happens at the end of a test.
func (f *fakeT) end() {
	for _, c := range slices.Backward(f.cleanups) {
		c()
	}
	f.cleanups = nil
}

// try runs a test and returns what became of it.
func try(t *testing.T, test func(testing.TB)) *fakeT {
	t.Helper()
	f := &fakeT{}
	t.Cleanup(f.end)
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(stop{}) {
				panic(r)
			}
		}()
		test(f)
	}()
	return f
}

// said compares the failures of f with those wanted.
func said(t *testing.T, f *fakeT, want ...string) {
	t.Helper()
	if !slices.Equal(f.failures, want) {
		t.Errorf("failures\n%s\nwant\n%s", strings.Join(f.failures, "\n"), strings.Join(want, "\n"))
	}
	if f.helpers == 0 {
		t.Error("it is no helper: failures point to its own lines")
	}
}

// fatal is said for a failure that stops the test.
func fatal(t *testing.T, f *fakeT, want string) {
	t.Helper()
	said(t, f, want)
	if !f.stopped {
		t.Error("the test goes on")
	}
}

// send has h answer a request.
func send(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func fine(http.ResponseWriter, *http.Request) {}
