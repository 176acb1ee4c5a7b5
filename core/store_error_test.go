package core_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/core"
)

func TestFailuresAreNamedOnce(t *testing.T) {
	seen := map[string]bool{core.NoFailure.String(): true}
	for i, f := range core.Failures() {
		if name := f.String(); seen[name] || name == "" || strings.Contains(name, "(") {
			t.Errorf("%d: name %q", i, name)
		}
		seen[f.String()] = true
		fault := f == core.FailureValue || f == core.FailureScript || f == core.FailureDenied
		if f.Outage() == fault {
			t.Errorf("%v: an outage: %v", f, f.Outage())
		}
	}
	if core.NoFailure.Outage() || core.Failure(99).Outage() || core.Failure(99).String() != "Failure(99)" || len(seen) != 16 {
		t.Errorf("%d failures; %v", len(seen)-1, core.Failure(99))
	}
}

func TestFailureOfAnError(t *testing.T) {
	for _, test := range []struct {
		err  error
		want core.Failure
	}{
		{nil, core.NoFailure},
		{errors.New("on fire"), core.FailureOther},
		{context.DeadlineExceeded, core.FailureTimeout},
		{fmt.Errorf("reading: %w", os.ErrDeadlineExceeded), core.FailureTimeout},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, core.FailureOther},
		{fmt.Errorf("%w: %w", core.ErrNoDecision, &core.StoreError{Failure: core.FailureMemory, Err: context.DeadlineExceeded}), core.FailureMemory},
	} {
		if got := core.FailureOf(test.err); got != test.want {
			t.Errorf("%v: %v, want %v", test.err, got, test.want)
		}
	}
	cause := errors.New("the cause")
	e := &core.StoreError{Failure: core.FailureReset, Err: cause}
	if e.Error() != "the cause" || !errors.Is(e, cause) {
		t.Errorf("%v", e)
	}
	if e := (&core.StoreError{Failure: core.FailureReset}); e.Error() != "slidegate: the store does not answer: reset" || e.Unwrap() != nil {
		t.Errorf("%v", e)
	}
}

// vocal is a store that fails, and says so itself.
type vocal struct {
	core.Store
	err error
}

func (v vocal) Do(context.Context, *core.Call) error { return v.err }
func (vocal) LogsOutages() bool                      { return true }

// The decision says what kept the store from it, and so does its absence; a store that
// logs its outages itself is not repeated.
func TestDecisionsNameTheFailure(t *testing.T) {
	for _, policy := range []core.Policy{core.Local, core.Open, core.Closed} {
		var log strings.Builder
		l := limiterWith(t, core.Config{
			Name: "api", Limits: []core.Limit{core.PerMinute(1)}, OnFailure: policy, Logger: logInto(&log),
			Store: vocal{err: &core.StoreError{Failure: core.FailureLoading, Err: errors.New("LOADING")}},
		})
		d, err := l.Allow(t.Context(), someone)
		if d.Failure() != core.FailureLoading || d.Reason != core.Undecided || d.Allowed != (policy == core.Open) {
			t.Errorf("%v: %+v, %v", policy, d, err)
		}
		if log.Len() > 0 {
			t.Errorf("%v: logged %s", policy, &log)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	l := limiterWith(t, core.Config{Name: "api", Limits: []core.Limit{core.PerMinute(1)}, Store: leaving{cancel: cancel}})
	if d, err := l.Allow(ctx, someone); d.Failure() != core.NoFailure || !errors.Is(err, context.Canceled) {
		t.Errorf("a client that went away: %v, %v", d.Failure(), err)
	}
	l = limiterOn(t, newHandClock(), core.PerMinute(1))
	if d, err := l.AllowN(t.Context(), someone, -1); d.Failure() != core.NoFailure || err == nil {
		t.Errorf("a cost that is none: %v, %v", d.Failure(), err)
	}
	if d := allow(t, l, 1); d.Failure() != core.NoFailure {
		t.Errorf("decided: %v", d.Failure())
	}
}

// leaving is a store during whose answer the client goes away.
type leaving struct {
	core.Store
	cancel context.CancelFunc
}

func (s leaving) Do(ctx context.Context, _ *core.Call) error {
	s.cancel()
	return ctx.Err()
}
