package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
)

func TestThePlay(t *testing.T) {
	for name, args := range map[string][]string{"redis-server": nil, "stand-in": {"-stand-in"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("redis-server"); err != nil && args == nil {
				t.Skip("redis-server is not on the PATH")
			}
			var out bytes.Buffer
			if err := command(t.Context(), append(args, "-lasts", "400ms", "-window", "1s"), &out); err != nil {
				t.Fatalf("%v\n%s", err, &out)
			}
			text := out.String()
			for what, times := range map[string]int{
				"no headers": 4, "5 × 503": 4, "gives no decision": 4, "answers again": 4, "Redis decides again after": 4, "status   healthy": 5,
				"failure=timeout": 2, "failure=oom": 1, "Kept:": 1,
			} {
				if got := strings.Count(text, what); got < times {
					t.Errorf("%q stands there %d times, want %d:\n%s", what, got, times, text)
				}
			}
			// What was used up when Redis was well is used up when it is killed.
			if !strings.Contains(text, "/local   200, 1 left · 200, 0 left · 3 × 429") {
				t.Errorf("the local window is not warm:\n%s", text)
			}
			if wants := map[bool]string{true: "stand-in", false: "a redis-server that was started"}[args != nil]; !strings.Contains(text, wants) {
				t.Errorf("it does not say what is broken:\n%s", text)
			}
		})
	}
}

func TestWrongAnswersAreNoticed(t *testing.T) {
	well := answer{status: 200, remaining: "3"}
	for _, test := range []struct {
		p              core.Policy
		a              answer
		right, failing bool // while Redis decides, and while it does not
	}{
		{core.Local, well, true, true},
		{core.Local, answer{status: 429, remaining: "0", retry: "1"}, true, true},
		{core.Local, answer{status: 503}, false, false},
		{core.Local, answer{status: 200}, false, false},
		{core.Open, answer{status: 200}, false, true},
		{core.Open, answer{status: 503}, false, false},
		{core.Closed, answer{status: 503}, false, true},
		{core.Closed, answer{status: 200}, false, false},
	} {
		if healthy(test.p, test.a) != test.right || failing(test.p, test.a) != test.failing {
			t.Errorf("/%v answers %v: right %v and %v", test.p, test.a, healthy(test.p, test.a), failing(test.p, test.a))
		}
	}
}

func TestBadFlagsAndInterrupts(t *testing.T) {
	for text, args := range map[string][]string{"-lasts": {"-lasts", "1ms"}, "-window": {"-window", "1h"}, "stray": {"stray"}, "-nothing": {"-nothing"}} {
		if err := command(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", args, err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if err := command(ctx, []string{"-stand-in"}, io.Discard); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("interrupted: %v", err)
	}
}
