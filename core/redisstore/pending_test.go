package redisstore_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
)

// Reservations stand beside the totals of the log, so hundreds of them, pending and
// lapsed, are the hard case: they are summed in steps, from the smaller side.
func TestHundredsOfReservations(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, c *core.Counter) {
		for seed := range uint64(2) {
			random := rand.New(rand.NewPCG(seed, 2))
			st := newStage(t)
			s := st.checked(t)
			var held []*core.Call
			// Many at once, then a while in which few come, so that many lapse together.
			for range 2 {
				for range 150 {
					held = append(held, reserve(t, s, c, 100_000, 1+random.Int64N(3)))
					st.advance(time.Duration(random.Int64N(120)) * time.Millisecond)
				}
				for range 40 {
					switch random.IntN(4) {
					case 0:
						end := held[random.IntN(len(held))]
						end.Op = []core.Op{core.OpCommit, core.OpCancel, core.OpCorrect}[random.IntN(3)]
						end.Parts[0].Cost = random.Int64N(5)
						do(t, s, end)
					case 1:
						take(t, s, c, 100_000, 1+random.Int64N(3))
					default:
						// Refused: waits for some of them, or for very many.
						now := used(t, s, c)
						n := max(now, 4)
						take(t, s, c, n, 1+random.Int64N(n))
					}
					st.advance(time.Duration(random.Int64N(2500)) * time.Millisecond)
				}
			}
		}
	})
}

// A reservation holds nothing back beyond its window even if nobody ends it, and
// what it leaves behind goes with its key.
func TestForgottenReservationsLeaveNothing(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, c *core.Counter) {
		st := newStage(t)
		s := st.checked(t)
		for range 200 {
			reserve(t, s, c, 200, 1)
		}
		if x := take(t, s, c, 200, 1); x.Done || x.FitsAt != start.Add(time.Minute) {
			t.Errorf("full: %+v, want the wait to end when the first lapses", x)
		}
		st.advance(time.Minute)
		if x := take(t, s, c, 200, 200); !x.Done {
			t.Errorf("all have lapsed: %+v", x)
		}
		st.advance(10 * time.Minute)
		if keys := st.mini.Keys(); len(keys) != 0 {
			t.Errorf("left behind: %v", keys)
		}
	})
}

// An id that ends twice, or on another key, or after a reset, ends nothing.
func TestReservationEndsOnce(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, c *core.Counter) {
		st := newStage(t)
		s := st.checked(t)
		a, b := reserve(t, s, c, 10, 3), reserve(t, s, c, 10, 4)
		if x := do(t, s, a); !x.Done || x.Used != 7 {
			t.Fatalf("commit: %+v", x)
		}
		a.Op = core.OpCancel
		if x := do(t, s, a); x.Done || x.Used != 7 {
			t.Errorf("cancel after the commit: %+v, want nothing done", x)
		}
		do(t, s, call(core.OpReset, c, 10, 1))
		if x := do(t, s, b); x.Done || x.Used != 0 {
			t.Errorf("commit after a reset: %+v, want nothing done", x)
		}
	})
}
