package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
)

// busy asks until half of the calls at least are answered without Redis.
func busy(tb testing.TB, st *stage, s core.Store, c *core.Counter, n int64) (admitted int64) {
	tb.Helper()
	for range 100 {
		asked := st.mini.CommandCount()
		for range 40 {
			if take(tb, s, c, n, 1).Done {
				admitted++
			}
		}
		if st.mini.CommandCount()-asked < 60 { // a script of two or three commands each
			return admitted
		}
		time.Sleep(10 * time.Millisecond)
	}
	tb.Fatal("no lease")
	return 0
}

func TestLeasesOfAStore(t *testing.T) {
	st := newStage(t)
	s, err := redisstore.New(st.client(t), quiet, redisstore.Leases(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	c := counter("limit", core.Exact, time.Minute, 0)
	admitted := busy(t, st, s, c, 100_000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := used(t, st.store(t), c); got != admitted {
		t.Errorf("%d used after Close, %d admitted", got, admitted)
	}
	if err := s.Do(context.Background(), call(core.OpTake, c, 100_000, 1)); !errors.Is(err, core.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// The local window counts along what leases admit, so that an outage hands out no fresh
// quota.
func TestTheLocalWindowKnowsOfLeases(t *testing.T) {
	st := newStage(t)
	s, err := redisstore.New(st.client(t), quiet, redisstore.Leases(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := counter("limit", core.Exact, time.Minute, 0)
	admitted := busy(t, st, s, c, 100_000)
	time.Sleep(100 * time.Millisecond) // the lease has ended
	st.mini.SetError("LOADING away")
	x := call(core.OpTake, c, 100_000, 1)
	if err := s.Do(context.Background(), x); err != nil || x.Failure == core.NoFailure {
		t.Fatalf("%v, failure %v: not answered by the local window", err, x.Failure)
	}
	if got := x.Parts[0].Used; got != admitted+1 {
		t.Errorf("the local window has %d used, want %d", got, admitted+1)
	}
}

func TestLeasesThatAreNone(t *testing.T) {
	st := newStage(t)
	for _, d := range []time.Duration{-1, time.Microsecond, time.Minute} {
		var fault *redisstore.FieldError
		if _, err := redisstore.New(st.client(t), redisstore.Leases(d)); !errors.As(err, &fault) || fault.Field != "Leases" {
			t.Errorf("%v: %v", d, err)
		}
	}
	s := st.store(t, redisstore.Leases(0))
	wantError(t, s, call(255, counter("limit", core.Exact, time.Minute, 0), 10, 1), "unsupported operation")
}
