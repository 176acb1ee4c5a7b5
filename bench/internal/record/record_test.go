package record_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate/bench/internal/record"
	"github.com/slidegate/slidegate/bench/internal/server"
	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
	"github.com/slidegate/slidegate/keyfunc"
)

func TestRecordedCommandCountsAsTheCallDid(t *testing.T) {
	ctx := context.Background()
	s, err := server.Open(ctx, redistest.Need(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := record.NewRecorder(s.Client)
	if err != nil {
		t.Fatal(err)
	}
	call := func(user string) *core.Call {
		return &core.Call{Parts: []core.Part{{
			Counter: core.NewCounter("api", "1m", time.Minute, core.Exact, 0),
			Key:     keyfunc.User(user), N: 10, Cost: 1,
		}}}
	}
	first, err := r.Do(ctx, call("1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Do(ctx, call("2")); err != nil { // must not change what was recorded
		t.Fatal(err)
	}
	if err := s.Do(ctx, first.Words...).Err(); err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]int64{"1": 3, "2": 2} {
		c := call(user)
		cmd, err := r.Do(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Parts[0].Used; got != want {
			t.Errorf("user %s: %d units are used, want %d", user, got, want)
		}
		if n, err := s.Exists(ctx, cmd.Keys...).Result(); n != 1 || err != nil {
			t.Errorf("user %s: %d of the keys %q are there, %v", user, n, cmd.Keys, err)
		}
	}
}

func TestWithLeavesTheOriginal(t *testing.T) {
	c := record.New("sha", []string{"k"}, "a", "b")
	d := c.With(c.Arg(2), "x", "c")
	if want := []any{"evalsha", "sha", 1, "k", "a", "b"}; !slices.Equal(c.Words, want) {
		t.Errorf("the original is %v, want %v", c.Words, want)
	}
	if want := []any{"evalsha", "sha", 1, "k", "a", "x", "c"}; !slices.Equal(d.Words, want) {
		t.Errorf("the copy is %v, want %v", d.Words, want)
	}
}

func TestNothingRecordedIsAnError(t *testing.T) {
	ctx := context.Background()
	s, err := server.Open(ctx, redistest.Need(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := record.NewRecorder(s.Client)
	if err != nil {
		t.Fatal(err)
	}
	if cmd, err := r.Do(ctx, &core.Call{}); err == nil {
		t.Errorf("a call without parts: %v, no error", cmd)
	}
}
