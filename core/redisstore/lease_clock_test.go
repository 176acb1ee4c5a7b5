package redisstore_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
)

// If Redis's clock is set back, a key's time stands still there while it goes on in a
// lease. The end of the lease brings it up to what was told.
func TestAClockSetBackDuringALease(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		const n, length = 1000, 50 * time.Millisecond
		c := counter("limit", core.Exact, 2*time.Second, 0)
		s, _ := w.instance(t, length)
		lead(t, s, c, n)
		time.Sleep(40 * time.Millisecond)
		last := spend(t, s, c, n, 1)
		w.change(func() { w.off = -time.Hour })
		other, _ := w.instance(t, length)
		if x := take(t, other, c, n, 1); !x.Done || x.At >= last.At {
			t.Fatalf("%+v, want an instant before %d", x, last.At)
		}
		time.Sleep(20 * time.Millisecond) // the lease has ended
		x := take(t, other, c, n, 1)
		if x.At < last.At {
			t.Errorf("the key's time is %d, after somebody was told %d", x.At, last.At)
		}
	})
}

// Whatever comes in between, nobody is told an instant before one that he was told.
func TestTimeDoesNotRunBackwardsWithLeases(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.delay = 3 * time.Millisecond
		const n = 1000
		c := counter("limit", core.Exact, time.Second, 0)
		s, _ := w.instance(t, 40*time.Millisecond)
		random := rand.New(rand.NewPCG(4, 6))
		var last core.Instant
		spent := 0
		for i := range 3000 {
			x := call([]core.Op{core.OpTake, core.OpTake, core.OpTake, core.OpPeek}[random.IntN(4)], c, n, 1+random.Int64N(3))
			before := core.Instant(time.Now().UnixMicro())
			if s.Spend(x) {
				spent++
			} else {
				do(t, s, x)
			}
			p := x.Parts[0]
			if p.At < last || p.At > core.Instant(time.Now().UnixMicro()) || p.At < before-3000 {
				t.Fatalf("call %d: told %d, before that %d; the clock read %d before", i, p.At, last, before)
			}
			last = p.At
			time.Sleep(time.Duration(random.IntN(2000)) * time.Microsecond)
		}
		if spent < 1000 {
			t.Errorf("%d calls of 3000 were answered from leases: that tests little", spent)
		}
	})
}

// A lease ends by the first of two clocks: while a machine sleeps, the monotonic one may
// stand still, and the other one may be set back.
func TestALeaseEndsByEitherClock(t *testing.T) {
	for name, sleep := range map[string][2]time.Duration{"monotonic": {time.Second, 0}, "wall": {0, time.Second}} {
		t.Run(name, func(t *testing.T) {
			var mono, wall atomic.Int64
			st := newStage(t)
			s := redisstore.NewLeased(st.store(t), 50*time.Millisecond, nil, nil, func() (time.Duration, int64) {
				return time.Duration(mono.Load()), wall.Load()
			})
			c := counter("limit", core.Exact, time.Minute, 0)
			for i := 0; ; i++ {
				take(t, s, c, 100_000, 1)
				if _, leads := s.Left(call(core.OpTake, c, 100_000, 1)); leads {
					break
				}
				if i == 1000 {
					t.Fatal("no lease")
				}
				mono.Add(int64(time.Millisecond))
				wall.Add(int64(time.Millisecond))
			}
			if !s.Spend(call(core.OpTake, c, 100_000, 1)) {
				t.Fatal("nothing to spend")
			}
			mono.Add(int64(sleep[0]))
			wall.Add(int64(sleep[1]))
			if s.Spend(call(core.OpTake, c, 100_000, 1)) {
				t.Error("a unit was spent after the end")
			}
			_ = s.Close()
		})
	}
}
