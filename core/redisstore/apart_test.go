package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/keyfunc"
)

// twoKeys makes a call on a user and an address, whose limits lie apart in a cluster.
func twoKeys(op core.Op, user, address int64) *core.Call {
	c := &core.Call{Op: op, Parts: []core.Part{
		part(core.NewCounter("api", "user", time.Minute, core.Exact, 0), user, 1),
		part(core.NewCounter("api", "address", time.Minute, core.Slotted, 10), address, 1),
	}}
	c.Parts[1].Key = keyfunc.Name("203.0.113.9")
	return c
}

func usedApart(tb testing.TB, s core.Store) [2]int64 {
	tb.Helper()
	c := twoKeys(core.OpPeek, 1000, 1000)
	do(tb, s, c)
	return [2]int64{c.Parts[0].Used, c.Parts[1].Used}
}

// meddler lets something happen in front of the commands that it is told.
type meddler struct {
	redisstore.Client
	before func(number int) error
	sent   atomic.Int32
}

func (m *meddler) Process(ctx context.Context, cmd redis.Cmder) error {
	if err := m.before(int(m.sent.Add(1))); err != nil {
		cmd.SetErr(err)
		return err
	}
	return m.Client.Process(ctx, cmd)
}

func newMeddler(t *testing.T, st *stage, before func(int) error) (*meddler, *redisstore.Store) {
	m := &meddler{Client: st.clusterClient(t), before: before}
	s := storeOn(t, m)
	// A wrapped client says nothing of a cluster: the first CROSSSLOT does.
	m.before = func(n int) error {
		if n == 1 {
			return crossSlot{}
		}
		return nil
	}
	do(t, s, twoKeys(core.OpPeek, 10, 10))
	if !s.Apart() {
		t.Fatal("after CROSSSLOT the store still asks in one script")
	}
	m.sent.Store(0)
	m.before = before
	return m, s
}

// crossSlot is what a cluster says of keys in different slots.
type crossSlot struct{}

func (crossSlot) Error() string { return "CROSSSLOT Keys in request don't hash to the same slot" }
func (crossSlot) RedisError()   {}

func TestLimitsOfDifferentKeysInACluster(t *testing.T) {
	st := newStage(t)
	s := storeOn(t, st.clusterClient(t))
	for i := range int64(3) {
		c := twoKeys(core.OpTake, 10, 3)
		do(t, s, c)
		if !c.Parts[0].Done || !c.Parts[1].Done || c.Parts[0].Used != i+1 || c.Parts[1].Used != i+1 {
			t.Fatalf("take %d: %+v", i+1, c.Parts)
		}
	}
	c := twoKeys(core.OpTake, 10, 3)
	do(t, s, c)
	if !c.Parts[0].Done || c.Parts[0].Used != 3 || c.Parts[1].Done || c.Parts[1].FitsAt <= c.Parts[1].At {
		t.Errorf("one refuses: %+v", c.Parts)
	}
	c = twoKeys(core.OpTake, 3, 3)
	do(t, s, c)
	if c.Parts[0].Done || c.Parts[1].Done || c.Parts[0].FitsAt != start.Add(time.Minute) {
		t.Errorf("both refuse: %+v, want both named, with their waits", c.Parts)
	}
	if got := usedApart(t, s); got != [2]int64{3, 3} {
		t.Errorf("used %v, want refusals to cost nothing", got)
	}
	r := twoKeys(core.OpReserve, 10, 10)
	r.ID[0] = 1
	do(t, s, r)
	r.Op = core.OpCancel
	for i := range r.Parts {
		r.Parts[i].Reserved, r.Parts[i].ReservedAt = 1, r.Parts[i].At
	}
	do(t, s, r)
	if !r.Parts[0].Done || !r.Parts[1].Done || usedApart(t, s) != [2]int64{3, 3} {
		t.Errorf("reserved and cancelled: %+v", r.Parts)
	}
	do(t, s, twoKeys(core.OpReset, 1, 1))
	if got := usedApart(t, s); got != [2]int64{} {
		t.Errorf("used %v after a reset", got)
	}
}

// Between looking and taking another request can be quicker. Then all is given back.
func TestAnotherRequestComesBetween(t *testing.T) {
	for _, full := range []string{"user", "address"} {
		t.Run(full, func(t *testing.T) {
			st := newStage(t)
			direct := st.store(t)
			rival := func() {
				c := twoKeys(core.OpTake, 10, 10)
				i := 0
				if full == "address" {
					i = 1
				}
				c.Parts = c.Parts[i : i+1]
				c.Parts[0].Cost = 10
				do(t, direct, c)
			}
			_, s := newMeddler(t, st, func(n int) error {
				if n == 3 { // two looked
					rival()
				}
				return nil
			})
			c := twoKeys(core.OpTake, 10, 10)
			do(t, s, c)
			i, want := 0, [2]int64{10, 0}
			if full == "address" {
				i, want = 1, [2]int64{0, 10}
			}
			if c.Parts[i].Done || !c.Parts[1-i].Done || c.Parts[1-i].Used != 0 {
				t.Errorf("%+v, want the full one alone to refuse, and the other without the cost", c.Parts)
			}
			if got := usedApart(t, direct); got != want {
				t.Errorf("used %v, want %v: what was taken is given back", got, want)
			}
		})
	}
}

// A failure on the way gives back what was taken, as far as Redis answers.
func TestAFailureOnTheWay(t *testing.T) {
	lost := errors.New("connection lost")
	for at := 1; at <= 5; at++ {
		t.Run(fmt.Sprintf("command %d", at), func(t *testing.T) {
			st := newStage(t)
			_, s := newMeddler(t, st, func(n int) error {
				if n == at {
					return lost
				}
				return nil
			})
			c := twoKeys(core.OpTake, 10, 10)
			err := s.Do(t.Context(), c)
			got := usedApart(t, st.store(t))
			if at <= 4 { // two look, one reserves, one takes
				if !errors.Is(err, lost) || got != [2]int64{} {
					t.Errorf("error %v, used %v; want the error and nothing used", err, got)
				}
				return
			}
			// The commit failed: the units count until the reservation lapses.
			if err != nil || got != [2]int64{1, 1} || !c.Parts[0].Done || !c.Parts[1].Done {
				t.Errorf("error %v, used %v, %+v; want the decision to stand", err, got, c.Parts)
			}
			st.advance(3 * time.Minute)
			if keys := st.mini.Keys(); len(keys) != 0 {
				t.Errorf("left behind: %v", keys)
			}
		})
	}
}

// A watched limit refuses nothing, though it lies elsewhere.
func TestAWatchedLimitElsewhere(t *testing.T) {
	st := newStage(t)
	s := storeOn(t, st.clusterClient(t))
	for i := range int64(3) {
		c := twoKeys(core.OpTake, 10, 2)
		c.Parts[1].Watched = true
		do(t, s, c)
		if !c.Parts[0].Done || c.Parts[1].Done != (i < 2) {
			t.Errorf("take %d: %+v", i+1, c.Parts)
		}
	}
	if got := usedApart(t, s); got != [2]int64{3, 2} {
		t.Errorf("used %v", got)
	}
}

// On a real cluster, from many goroutines: no limit is exceeded, and nothing stays
// taken by requests that were refused.
func TestManyRequestsOnDifferentKeysOfACluster(t *testing.T) {
	s := storeOn(t, realClusterClient(t), redisstore.Prefix(t.Name()))
	const n = 20
	var admitted atomic.Int64
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			for i := range 20 {
				c := &core.Call{Op: core.OpTake}
				for k := range 3 {
					x := part(counter(fmt.Sprint(k), core.Exact, time.Hour, 0), n, 1)
					x.Key = keyfunc.Name(fmt.Sprint("key", (g+i+k)%3))
					c.Parts = append(c.Parts, x)
				}
				if err := s.Do(context.Background(), c); err != nil {
					t.Error(err)
					return
				}
				if c.Parts[0].Done && c.Parts[1].Done && c.Parts[2].Done {
					admitted.Add(1)
				}
			}
		})
	}
	all.Wait()
	var total int64
	for k := range 3 {
		for key := range 3 {
			x := call(core.OpPeek, counter(fmt.Sprint(k), core.Exact, time.Hour, 0), core.MaxUnits, 1)
			x.Parts[0].Key = keyfunc.Name(fmt.Sprint("key", key))
			got := do(t, s, x).Used
			if got > n {
				t.Errorf("%d used of %d", got, n)
			}
			total += got
		}
	}
	if total != 3*admitted.Load() || admitted.Load() == 0 {
		t.Errorf("%d units are counted for %d requests of 3", total, admitted.Load())
	}
}

func TestARingHoldsLimitersOfOneKeyAlone(t *testing.T) {
	a, b := newStage(t), newStage(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": a.mini.Addr(), "b": b.mini.Addr()}})
	t.Cleanup(func() { _ = ring.Close() })
	s := storeOn(t, ring)
	if err := s.Do(t.Context(), twoKeys(core.OpTake, 10, 10)); !errors.Is(err, redisstore.ErrKeysApart) {
		t.Errorf("two keys: %v", err)
	}
	for i := range 40 {
		c := &core.Call{Op: core.OpTake}
		for _, algorithm := range algorithms {
			x := part(counter(fmt.Sprint(algorithm), algorithm, time.Minute, 10), 10, 1)
			x.Key = keyfunc.User(fmt.Sprint(i % 20))
			c.Parts = append(c.Parts, x)
		}
		if x := do(t, s, c); x.Used != int64(i/20+1) {
			t.Errorf("call %d: %+v", i, x)
		}
	}
	if len(a.mini.Keys()) == 0 || len(b.mini.Keys()) == 0 {
		t.Error("one shard has no keys: the test shows nothing")
	}
	for _, k := range a.mini.Keys() {
		for _, other := range b.mini.Keys() {
			if strings.TrimSuffix(k, ":log") == strings.TrimSuffix(other, ":log") {
				t.Errorf("%s is on both shards", k)
			}
		}
	}
}
