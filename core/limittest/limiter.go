package limittest

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// New returns a limiter with a store of its own from NewStore, on clock, which
// may be nil. cfg.Name is "test" unless it is given. The test is stopped with all
// faults of cfg.
//
// With a cfg.Store that is given, cfg.Name must be too, clock must be nil, since a
// store has a time of its own already, and closing the store is left to who made
// it.
func New(t testing.TB, clock *Clock, cfg core.Config) *core.Limiter {
	t.Helper()
	switch {
	case cfg.Store == nil:
		cfg.Store = NewStore(t, clock)
		if cfg.Name == "" {
			cfg.Name = "test"
		}
	case clock != nil:
		t.Fatalf("limittest.New: Config.Store is given and so is a clock, which the store would not heed: " +
			"leave Config.Store out, or make the store with limittest.NewStore(t, clock) and pass nil here")
	}
	l, err := core.New(cfg)
	if err != nil {
		t.Fatalf("limittest.New: the configuration is faulty:\n%v", err)
	}
	return l
}

// Peer returns the key by which keyfunc.ByIP, the default, counts requests made
// by httptest.NewRequest: all of them come from the address 192.0.2.1. Name it
// with keyfunc.Join where the address is one key of several.
func Peer() keyfunc.Key { return keyfunc.IP(netip.AddrFrom4([4]byte{192, 0, 2, 1})) }

// Use takes n units for key from all limits of l, as n requests with a cost of 1
// would. It stops the test if they do not fit; then nothing was taken. Limits with
// a key of their own need theirs in own.
func Use(t testing.TB, l *core.Limiter, key keyfunc.Key, n int64, own ...core.LimitKey) {
	t.Helper()
	d, err := l.AllowN(context.Background(), key, n, own...)
	if problem := untaken(&d, err); problem != "" {
		t.Fatalf("limittest.Use: %s", problem)
	}
}

// Exhaust takes for key as many units as l has left, so that the next is refused
// until time has passed. Of several limits, that is what the tightest has left:
// the others keep the rest. Nothing is taken if nothing is left. Limits with a key
// of their own need theirs in own.
//
// It stops the test if the store gives no decision.
func Exhaust(t testing.TB, l *core.Limiter, key keyfunc.Key, own ...core.LimitKey) {
	t.Helper()
	// Other requests may come between a look and the taking, and units may leave.
	for range 1000 {
		d, err := l.Peek(context.Background(), key, own...)
		if err == nil && !d.Allowed {
			return
		}
		if err == nil {
			d, err = l.AllowN(context.Background(), key, fewestLeft(&d), own...)
		}
		if problem := untaken(&d, err); problem != "" && d.Reason != core.Refused {
			t.Fatalf("limittest.Exhaust: %s", problem)
		}
	}
	t.Fatalf("limittest.Exhaust: the limiter still admits after 1000 attempts: does its store count?")
}

// fewestLeft returns what remains of the tightest limit in an admitted decision.
// One with nothing left is only watched.
func fewestLeft(d *core.Decision) int64 {
	n := int64(core.MaxUnits)
	for s := range d.Limits() {
		if left := s.Remaining(); left > 0 {
			n = min(n, left)
		}
	}
	return n
}

// untaken says why the decision took no units; it is empty if it did.
func untaken(d *core.Decision, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case d.Reason == core.Undecided:
		return "the store gave no decision: under core.Open that passes, but nothing was counted"
	case d.Allowed:
		return ""
	}
	var limits []string
	for s := range d.Limits() {
		switch {
		case s.Violated && s.FitsAt.IsZero():
			limits = append(limits, fmt.Sprintf("limit %q never holds more than %d", s.Name(), s.N))
		case s.Violated:
			limits = append(limits, fmt.Sprintf("limit %q has %d of %d left, and room in %v", s.Name(), s.Remaining(), s.N, s.Wait()))
		}
	}
	return fmt.Sprintf("%d units do not fit: %s", d.Cost, strings.Join(limits, "; "))
}
