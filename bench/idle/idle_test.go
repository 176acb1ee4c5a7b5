package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

func TestAnswersAndTimes(t *testing.T) {
	var out bytes.Buffer
	err := run(context.Background(), &out, options{redis: redistest.Need(t).Addr(), idle: 2000, full: 1000, repeats: 2, window: time.Second})
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{
		"first call after 2000 units have left", "refusal of a cost of 10 at 1000 live units",
		"nothing happens", "lazyfree-lazy-expire no", "lazyfree-lazy-expire yes",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
}

func TestBrokenBoundsAreTold(t *testing.T) {
	slow, fast := []time.Duration{9 * time.Millisecond, 8 * time.Millisecond, 0}, []time.Duration{0, 10, 20}
	for _, tt := range []struct {
		name            string
		refusals, wakes []time.Duration
		broken          int
	}{
		{"both fast", fast, fast, 0},
		{"slow refusals", slow, fast, 1},
		{"slow first calls", fast, slow, 1},
		{"both slow", slow, slow, 2},
	} {
		for _, check := range []bool{false, true} {
			var out bytes.Buffer
			err := report(&out, options{check: check}, tt.refusals, tt.wakes, nil)
			if got := strings.Count(out.String(), "bound broken"); got != tt.broken {
				t.Errorf("%s: %d bounds are told of, want %d", tt.name, got, tt.broken)
			}
			if want := check && tt.broken > 0; errors.Is(err, errBound) != want {
				t.Errorf("%s, check %t: %v", tt.name, check, err)
			}
		}
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"-repeats", "0"}, {"-repeats", "11"}, {"-window", "1ms"}, {"stray"}} {
		if err := command(context.Background(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
