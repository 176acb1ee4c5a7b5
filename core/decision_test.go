package core_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
)

// answered is a store that answers with the parts of a test.
func answered(parts ...core.Part) *scripted {
	return &scripted{answer: func(_ context.Context, c *core.Call) error {
		for i := range c.Parts {
			p := &c.Parts[i]
			p.At, p.Used, p.OldestLeaves, p.FitsAt, p.Done = parts[i].At, parts[i].Used, parts[i].OldestLeaves, parts[i].FitsAt, parts[i].Done
		}
		return nil
	}}
}

// decide returns the decision that is read from the parts' answers, of limits
// named a, b, c and so on with the parts' N.
func decide(t *testing.T, parts ...core.Part) core.Decision {
	t.Helper()
	var limits []core.Limit
	for i, p := range parts {
		limits = append(limits, core.PerMinute(p.N).Named(string(rune('a'+i))))
	}
	return allow(t, limiterWith(t, core.Config{Name: "test", Limits: limits, Store: answered(parts...)}), 1)
}

func TestShownIsTheLimitThatMattersMost(t *testing.T) {
	const never = 0
	ok := func(n, used int64, oldest core.Instant) core.Part {
		return core.Part{N: n, Used: used, At: start, OldestLeaves: oldest, FitsAt: start, Done: true}
	}
	full := func(n int64, fits core.Instant) core.Part {
		return core.Part{N: n, Used: n, At: start, OldestLeaves: start + 1, FitsAt: fits}
	}
	later := func(p core.Part, by core.Instant) core.Part { // on a key's time that is ahead
		p.At += by
		p.OldestLeaves += by
		if p.FitsAt != 0 {
			p.FitsAt += by
		}
		return p
	}
	for _, test := range []struct {
		name  string
		parts []core.Part
		want  string
	}{
		{"only one", []core.Part{ok(5, 1, start+9)}, "a"},
		{"fewest remaining, first", []core.Part{ok(5, 4, start+9), ok(5, 1, start+99)}, "a"},
		{"fewest remaining, last", []core.Part{ok(5, 1, start+99), ok(9, 2, start+9), ok(50, 49, start+9)}, "c"},
		{"above the limit is none remaining", []core.Part{ok(5, 5, start+9), ok(5, 7, start+8)}, "a"},
		{"alike: the oldest leaves last", []core.Part{ok(5, 4, start+9), ok(5, 4, start+10), ok(5, 4, start+8)}, "b"},
		{"alike in all: the first", []core.Part{ok(5, 4, start+9), ok(5, 4, start+9)}, "a"},
		{"alike: by the wait, not the instant", []core.Part{ok(5, 4, start+9), later(ok(5, 4, start+8), 100)}, "a"},
		{"the violated one", []core.Part{ok(1, 1, start+99), full(100, start+5)}, "b"},
		{"the violated one, first", []core.Part{full(100, start+5), ok(1, 1, start+99)}, "a"},
		{"the longest wait", []core.Part{full(5, start+5), full(9, start+7), full(7, start+6)}, "b"},
		{"the longest wait, not the latest instant", []core.Part{full(5, start+5), later(full(9, start+4), 50)}, "a"},
		{"waits alike: the first", []core.Part{full(5, start+5), full(9, start+5)}, "a"},
		{"never is longer than any wait", []core.Part{full(5, start+5), full(9, never), full(7, start+600)}, "b"},
		{"never, first", []core.Part{full(5, never), full(7, start+600)}, "a"},
		{"five limits", []core.Part{ok(5, 1, start+9), ok(5, 2, start+9), ok(5, 1, start+9), ok(5, 1, start+9), ok(5, 3, start+9)}, "e"},
	} {
		d := decide(t, test.parts...)
		if got := d.Shown().Name(); got != test.want {
			t.Errorf("%s: %s is shown, want %s", test.name, got, test.want)
		}
		if d.At() != d.Shown().At {
			t.Errorf("%s: decided at %d, shown %d", test.name, d.At(), d.Shown().At)
		}
	}
}

func TestDecisionTellsEverythingOfEachLimit(t *testing.T) {
	d := decide(t,
		core.Part{N: 10, Used: 4, At: start + 1, OldestLeaves: start + 100, FitsAt: start + 1, Done: true},
		core.Part{N: 3, Used: 3, At: start + 2, OldestLeaves: start + 50, FitsAt: start + 50},
		core.Part{N: 5, Used: 7, At: start + 3, OldestLeaves: start + 60, FitsAt: start + 90},
	)
	if d.Allowed || d.Reason != core.Refused || d.RetryAfter() != 87*time.Microsecond || d.Shown().Name() != "c" {
		t.Errorf("%+v", d)
	}
	type state struct {
		name      string
		n, used   int64
		remaining int64
		at        core.Instant
		oldest    core.Instant
		fits      core.Instant
		wait      time.Duration
		violated  bool
	}
	want := []state{
		{"a", 10, 4, 6, start + 1, start + 100, start + 1, 0, false},
		{"b", 3, 3, 0, start + 2, start + 50, start + 50, 48 * time.Microsecond, true},
		{"c", 5, 7, 0, start + 3, start + 60, start + 90, 87 * time.Microsecond, true},
	}
	var got []state
	for s := range d.Limits() {
		if s.Window() != time.Minute {
			t.Errorf("%s has a window of %v", s.Name(), s.Window())
		}
		got = append(got, state{s.Name(), s.N, s.Used, s.Remaining(), s.At, s.OldestLeaves, s.FitsAt, s.Wait(), s.Violated})
		if found, ok := d.Limit(s.Name()); !ok || found != s {
			t.Errorf("%s by name: %+v, %v", s.Name(), found, ok)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	for stop := 1; stop <= 3; stop++ {
		n := 0
		for range d.Limits() {
			if n++; n == stop {
				break
			}
		}
		if n != stop {
			t.Errorf("stopped after %d, walked %d", stop, n)
		}
	}
	if s, ok := d.Limit("d"); ok || s != (core.LimitState{}) {
		t.Errorf("a limit that does not exist: %+v, %v", s, ok)
	}
}

// One limit that never fits outweighs others that fit later, wherever it stands.
func TestNeverFitsOutweighsRefused(t *testing.T) {
	full := core.Part{N: 5, Used: 5, At: start, OldestLeaves: start + 1, FitsAt: start + 1}
	never := core.Part{N: 1, At: start}
	for _, parts := range [][]core.Part{{full, never}, {never, full}, {full, never, full}} {
		if d := decide(t, parts...); d.Allowed || d.Reason != core.NeverFits || d.RetryAfter() != 0 || d.Shown().FitsAt != 0 {
			t.Errorf("%+v", d)
		}
	}
}

func TestACopyOfADecisionStays(t *testing.T) {
	for _, n := range []int{1, 4, 5, 9} {
		l := limiterOn(t, newHandClock(), manyLimits(n)...)
		first := allow(t, l, 1)
		kept := slices.Collect(first.Limits())
		allow(t, l, 1)
		if len(kept) != n || !slices.Equal(kept, slices.Collect(first.Limits())) {
			t.Errorf("%d limits: the decision changed with the next call", n)
		}
	}
}

func TestTheZeroDecisionSaysNothing(t *testing.T) {
	var d core.Decision
	if d.Allowed || d.RetryAfter() != 0 || d.At() != 0 || d.Shown() != (core.LimitState{}) {
		t.Errorf("%+v", d)
	}
	for s := range d.Limits() {
		t.Errorf("it has a limit: %+v", s)
	}
	var s core.LimitState
	if s.Name() != "" || s.Window() != 0 || s.Remaining() != 0 || s.Wait() != 0 {
		t.Errorf("%+v", s)
	}
}

func TestReasonNames(t *testing.T) {
	for r, want := range map[core.Reason]string{
		core.Admitted: "admitted", core.Refused: "refused", core.NeverFits: "never_fits", core.Undecided: "undecided", 4: "Reason(4)",
	} {
		if got := r.String(); got != want {
			t.Errorf("Reason %d is called %q, want %q", uint8(r), got, want)
		}
	}
}

func TestInstants(t *testing.T) {
	for _, test := range []struct {
		of   time.Time
		want core.Instant
	}{
		{time.UnixMicro(1), 1},
		{time.Unix(1_700_000_000, 42_000), 1_700_000_000_000_042},
		{time.Unix(1_700_000_000, 42_999), 1_700_000_000_000_042},
		{time.Unix(0, -1), -1},
		{time.Date(2023, 11, 14, 23, 13, 20, 7000, time.FixedZone("", 3600)), 1_700_000_000_000_007},
	} {
		if got := core.InstantOf(test.of); got != test.want {
			t.Errorf("%v is %d, want %d", test.of, got, test.want)
		}
	}
	at := core.Instant(1_700_000_000_000_042)
	if got := at.Time(); !got.Equal(time.Unix(1_700_000_000, 42_000)) || got.Location() != time.Local {
		t.Errorf("the time is %v", got)
	}
	if at.IsZero() || !core.Instant(0).IsZero() || !core.Instant(0).Time().IsZero() {
		t.Error("zero is no instant, and nothing else is")
	}
	if got := at.Add(1999 * time.Nanosecond); got != at+1 {
		t.Errorf("plus 1.999µs: %d", got)
	}
	if got := at.Add(-time.Second); got != at-1_000_000 {
		t.Errorf("minus 1s: %d", got)
	}
	if got := at.Add(time.Minute).Sub(at); got != time.Minute {
		t.Errorf("the difference is %v", got)
	}
	if got := at.Sub(at + 1); got != -time.Microsecond {
		t.Errorf("the difference is %v", got)
	}
}
