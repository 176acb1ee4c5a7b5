package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// While Redis is down the local window decides, with what it has seen; soon after Redis
// answers, it decides again.
func TestTheLocalWindowStepsIn(t *testing.T) {
	server := redistest.Need(t)
	s, err := redisstore.Open("redis://"+server.Addr(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := counter("limit", core.Exact, time.Minute, 0)
	ask := func() *core.Call {
		x := call(core.OpTake, c, 10, 1)
		x.Budget = 100 * time.Millisecond
		if err := s.Do(context.Background(), x); err != nil {
			t.Fatal(err)
		}
		return x
	}
	for range 4 {
		if x := ask(); !x.Parts[0].Done || x.Failure != core.NoFailure {
			t.Fatalf("%+v", x)
		}
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if x := ask(); x.Parts[0].Done != (i < 6) || x.Failure == core.NoFailure {
			t.Fatalf("call %d: %+v", i, x)
		}
	}
	if st := s.Status(); st.Healthy || !st.Failure.Outage() {
		t.Errorf("%+v", st)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for ask().Failure != core.NoFailure {
		if time.Since(began) > 5*time.Second {
			t.Fatal("Redis is not asked again")
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("asked again after %v, %+v", time.Since(began), s.Status())
}
