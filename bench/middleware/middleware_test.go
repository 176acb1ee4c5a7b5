package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

func TestAllAreMeasured(t *testing.T) {
	var out bytes.Buffer
	// Enough calls that what happens once does not look like an allocation of each.
	if err := command(context.Background(), []string{"-rounds", "2", "-calls", "1000", "-check", "-markdown"}, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, m := range modes {
		_, rows, found := strings.Cut(out.String(), "**"+m.name+"**")
		rows, _, _ = strings.Cut(rows, "**")
		if got := strings.Count(rows, "| slidegate |"); !found || got != len(m.allocs) {
			t.Errorf("%s: %d rows of slidegate, want %d:\n%s", m.name, got, len(m.allocs), &out)
		}
		for _, peer := range []string{"httprate", "ulule/limiter", "echo's own"} {
			if got := strings.Count(rows, "| "+peer+" |"); got != 2 {
				t.Errorf("%s: %d rows of %s, want 2", m.name, got, peer)
			}
		}
	}
}

func TestBrokenBoundsAreTold(t *testing.T) {
	m := modes[0]
	broken := judge(m, []result{
		{framework: "gin", limiter: slidegate, allocs: m.allocs["gin"]}, {framework: "chi", limiter: slidegate, allocs: m.allocs["chi"] + 1},
		{framework: "gin", limiter: "ulule/limiter", allocs: 99},
	})
	if len(broken) != 1 || !strings.Contains(broken[0], "chi") {
		t.Errorf("%q, want the allocations in chi", broken)
	}
}

func TestAWrongAnswerEndsTheRun(t *testing.T) {
	m := modes[1]
	subjects, err := newSubjects(m)
	if err != nil {
		t.Fatal(err)
	}
	m.status = 418
	if _, err := measure(context.Background(), subjects, m, options{rounds: 1, calls: 1}); err == nil || !strings.Contains(err.Error(), "want 418") {
		t.Errorf("%v", err)
	}
}

func TestBadFlagsAndInterrupts(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-calls", "-1"}, {"stray"}} {
		if err := command(context.Background(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := command(ctx, nil, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
