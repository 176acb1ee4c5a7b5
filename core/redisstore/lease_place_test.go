package redisstore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/keyfunc"
)

// ask takes a unit for a key, from a lease or not.
func ask(tb testing.TB, s *redisstore.Leased, c *core.Counter, key string) (local bool) {
	tb.Helper()
	x := call(core.OpTake, c, 100_000, 1)
	x.Parts[0].Key = keyfunc.User(key)
	if s.Spend(x) {
		return true
	}
	if err := s.Do(context.Background(), x); err != nil || !x.Parts[0].Done {
		tb.Fatalf("%+v: %v", x.Parts[0], err)
	}
	return false
}

// Of two keys with one place the busier one has leases, whichever came first; and when it
// has gone quiet, the other one can.
func TestTheBusierKeyHasThePlace(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		s, _ := w.instance(t, 50*time.Millisecond)
		c := counter("limit", core.Exact, 10*time.Second, 0)
		place := func(key string) int {
			x := call(core.OpTake, c, 1, 1)
			x.Parts[0].Key = keyfunc.User(key)
			return s.Place(x)
		}
		other := 0
		for place(strconv.Itoa(other)) != place("slow") {
			other++
		}
		count := func(slow, busy time.Duration) (slowly, busily int) {
			for now := time.Duration(0); now < time.Second; now += time.Millisecond {
				if now%slow == 0 && ask(t, s, c, "slow") {
					slowly++
				}
				if now%busy == 0 && ask(t, s, c, strconv.Itoa(other)) {
					busily++
				}
				time.Sleep(time.Millisecond)
			}
			return slowly, busily
		}
		if slowly, busily := count(4*time.Millisecond, time.Millisecond); slowly > 0 || busily < 500 {
			t.Errorf("of 250 and 1000 calls %d and %d were answered from leases", slowly, busily)
		}
		if slowly, busily := count(4*time.Millisecond, time.Hour); slowly < 125 || busily > 1 {
			t.Errorf("of 250 and 1 calls %d and %d were answered from leases", slowly, busily)
		}
	})
}

// A key that is asked for now and then has no lease, nor one whose limit has little room.
func TestKeysWithoutLeases(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		s, _ := w.instance(t, 50*time.Millisecond)
		c := counter("limit", core.Exact, time.Hour, 0)
		for range 300 {
			if ask(t, s, c, "rare") {
				t.Fatal("a lease for 7 units in its time")
			}
			time.Sleep(8 * time.Millisecond)
		}
		for range 20 { // in bursts
			for range 30 {
				if ask(t, s, c, "burst") {
					t.Fatal("a lease for a burst")
				}
			}
			time.Sleep(150 * time.Millisecond)
		}
		x := call(core.OpTake, c, 60, 1)
		for range 200 {
			if s.Spend(x) {
				t.Fatalf("a lease, with %d free", 60-x.Parts[0].Used)
			}
			do(t, s, x)
			time.Sleep(time.Millisecond)
		}
		short := counter("short", core.Exact, 19*time.Millisecond, 0)
		for range 200 {
			if ask(t, s, short, "short") {
				t.Fatal("a lease of less than a millisecond")
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// After Close calls are answered as if there were no leases.
func TestNoLeaseAfterClose(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		s, _ := w.instance(t, 50*time.Millisecond)
		c := counter("limit", core.Exact, time.Hour, 0)
		lead(t, s, c, 1000)
		for range 2 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for range 200 {
			if ask(t, s, c, "someone") {
				t.Fatal("a lease after Close")
			}
			time.Sleep(time.Millisecond)
		}
	})
}
