package redisstore_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
)

// No key is ever without a TTL, nor with one that outlasts its units by much more
// than a window; and when all has left, nothing is left.
func TestEveryKeyHasATTLFromItsFirstWriteOn(t *testing.T) {
	algorithms := []core.Algorithm{core.Exact, core.Slotted, core.Hybrid}
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 3))
		st := newStage(t)
		s := st.checked(t)
		c := counter("limit", algorithms[seed%3], time.Duration(1+random.IntN(3000))*time.Millisecond, 1+random.IntN(12))
		// Two windows, or a window and the slots with one more.
		longest := 2*time.Duration(c.Window)*time.Microsecond + 2*time.Duration(c.SlotSize)*time.Microsecond + 2*time.Millisecond
		var held []*core.Call
		for range 60 {
			switch op := random.IntN(10); {
			case op < 4:
				take(t, s, c, 8, 1+random.Int64N(3))
			case op < 6:
				r := call(core.OpReserve, c, 8, 1+random.Int64N(3))
				r.ID[0], r.ID[1] = byte(len(held)), 1
				do(t, s, r)
				r.Parts[0].Reserved, r.Parts[0].ReservedAt = r.Parts[0].Cost, r.Parts[0].At
				held = append(held, r)
			case op < 9 && len(held) > 0:
				end := held[random.IntN(len(held))]
				end.Op = []core.Op{core.OpCommit, core.OpCancel, core.OpCorrect}[random.IntN(3)]
				end.Parts[0].Cost = random.Int64N(12)
				do(t, s, end)
			case op == 9 && random.IntN(4) == 0:
				do(t, s, call(core.OpReset, c, 8, 1))
			}
			for _, k := range st.mini.Keys() {
				if ttl := st.mini.TTL(k); ttl <= 0 || ttl > longest {
					t.Fatalf("seed %d: %s has a TTL of %v, want up to %v", seed, k, ttl, longest)
				}
			}
			st.advance(time.Duration(random.Int64N(c.Window/3+1)) * time.Microsecond)
		}
		st.advance(longest)
		if keys := st.mini.Keys(); len(keys) != 0 {
			t.Errorf("seed %d: left behind: %v", seed, keys)
		}
	}
}

// Windows that are no whole seconds, and very long ones, give Redis a TTL that it takes.
func TestTTLOfOddWindows(t *testing.T) {
	client := realClient(t)
	s := storeOn(t, client)
	for _, w := range []time.Duration{time.Millisecond, 1500 * time.Millisecond, 100*time.Millisecond + time.Microsecond, 365 * 24 * time.Hour, core.MaxWindow} {
		eachAlgorithm(t, func(t *testing.T, c *core.Counter) {
			c = counter("odd "+w.String(), c.Algorithm, w, 3)
			take(t, s, c, 10, 5)
			log, slots := keysOf(s, c)
			key := slots
			if key == "" || c.Algorithm == core.Hybrid {
				key = log // 5 units are hot
			}
			ttl, err := client.PTTL(t.Context(), key).Result()
			if least := w - 50*time.Millisecond; err != nil || ttl <= least || ttl > 3*w+time.Second {
				t.Errorf("window %v: TTL %v, %v", w, ttl, err)
			}
			do(t, s, call(core.OpReset, c, 10, 1))
		})
	}
}

// The log of a limit of up to 128 units stays in the form that takes Redis 2 KB and
// not 14, though entries that have left are removed only now and then.
func TestDeadEntriesDoNotPileUp(t *testing.T) {
	onMiniredis(t)
	for _, n := range []int64{1, 10, 100, 113, 120, 127, 128, 200, 1000} {
		st := newStage(t)
		s := st.store(t)
		c := counter("limit", core.Exact, time.Second, 0)
		log, _ := keysOf(s, c)
		most := 0
		for range 3 * n {
			take(t, s, c, n, 1)
			entries, err := st.mini.ZMembers(log)
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, len(entries))
			st.advance(time.Duration(1e9 / n))
		}
		limit := int(n) + 64
		if n <= 128 {
			limit = 128
		}
		if most > limit {
			t.Errorf("N = %d: up to %d entries, want at most %d", n, most, limit)
		}
	}
}

// A log that has shrunk to a few live entries gives its memory back.
func TestAFewLiveEntriesAreWrittenAnew(t *testing.T) {
	st := newStage(t)
	s := st.checked(t)
	c := counter("limit", core.Exact, time.Second, 0)
	log, _ := keysOf(st.store(t), c)
	for range 700 {
		take(t, s, c, 1000, 1)
		st.advance(time.Millisecond)
	}
	st.advance(980 * time.Millisecond)
	held := reserve(t, s, c, 1000, 5)
	for range 32 {
		take(t, s, c, 1000, 1)
		st.advance(10 * time.Microsecond)
	}
	entries, err := st.mini.ZMembers(log)
	if err != nil || len(entries) > 100 {
		t.Errorf("%d entries (%v), want the dead ones gone", len(entries), err)
	}
	if ttl := st.mini.TTL(log); ttl <= 0 {
		t.Errorf("TTL %v after it was written anew", ttl)
	}
	if x := do(t, s, held); !x.Done {
		t.Errorf("the reservation is gone: %+v", x)
	}
}

// Slots that lie far apart are found without looking at every number between them.
func TestSlotsFarApart(t *testing.T) {
	for _, n := range []int{1, 64, 65, 200, 1000, 10000} {
		for _, a := range []core.Algorithm{core.Slotted, core.Hybrid} {
			random := rand.New(rand.NewPCG(uint64(n), 7))
			st := newStage(t)
			s := st.checked(t)
			c := counter("limit", a, time.Hour, n)
			for range 60 {
				if random.IntN(3) == 0 {
					// Refused: all that lies apart has to be summed up.
					now := used(t, s, c)
					take(t, s, c, max(now, 3), 1+random.Int64N(max(now, 3)))
				} else {
					take(t, s, c, 1000, 1+random.Int64N(3))
				}
				st.advance(time.Duration(random.Int64N(int64(40 * time.Minute))))
				if random.IntN(8) == 0 {
					st.advance(time.Hour - time.Duration(random.Int64N(int64(time.Minute))))
				}
			}
		}
	}
}
