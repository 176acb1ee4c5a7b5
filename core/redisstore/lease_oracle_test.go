package redisstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
)

// wire is a client within a bubble of virtual time: what goes over it takes a while,
// and may be lost on its way to Redis or back. Redis's clock is off by some time.
type wire struct {
	redisstore.Client
	*world
	dead bool // under the world's lock
}

// world is what the instances share.
type world struct {
	busy   chan struct{} // holds one while Redis answers a command: a bubble knows no mutex over that
	mu     sync.Mutex
	random *rand.Rand
	mini   *miniredis.Miniredis
	off    time.Duration // of Redis's clock
	delay  time.Duration // of a command or its reply, at most
	loss   float64       // how many are lost, of each
	deaf   atomic.Bool   // replies are lost to all
	asked  int           // commands that Redis has answered
}

// change changes the world while instances are at work.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

var errLost = errors.New("lost")

func (w *world) draw() (delay time.Duration, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.random.Int64N(int64(w.delay) + 1)), w.random.Float64() < w.loss
}

func (w *wire) Process(ctx context.Context, cmd redis.Cmder) error {
	delay, lost := w.draw()
	time.Sleep(delay)
	w.busy <- struct{}{}
	w.mu.Lock()
	off, lost := w.off, lost || w.dead
	w.asked++
	w.mu.Unlock()
	if lost {
		<-w.busy
		cmd.SetErr(errLost)
		return errLost
	}
	w.mini.SetTime(time.Now().Add(off))
	err := w.Client.Process(context.WithoutCancel(ctx), cmd)
	<-w.busy
	delay, lost = w.draw()
	time.Sleep(delay)
	if lost || w.deaf.Load() {
		cmd.SetErr(errLost)
		return errLost
	}
	return err
}

// inWorld runs f with a miniredis in virtual time. Its keys never expire.
func inWorld(t *testing.T, seed uint64, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{busy: make(chan struct{}, 1), random: rand.New(rand.NewPCG(seed, 6)), mini: miniredis.NewMiniRedis()}
		defer w.mini.Close()
		f(t, w)
	})
}

// instance returns leases over a wire of their own, and what ends both as if the process
// had died.
func (w *world) instance(tb testing.TB, length time.Duration) (s *redisstore.Leased, die func()) {
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) { return w.mini.Dial() },
		Addr:   "127.0.0.1:1", MaxRetries: -1, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	tb.Cleanup(func() { _ = client.Close() })
	line := &wire{Client: client, world: w}
	s = redisstore.NewLeasedAlone(line, length)
	tb.Cleanup(func() { _ = s.Close() })
	return s, func() {
		w.change(func() { line.dead = true })
	}
}

// crowd is callers, each on an instance of its own, that ask in bursts: at a rate that
// would fill the limit some times over, with pauses.
type crowd struct {
	*world
	counter *core.Counter
	n       int64
	length  time.Duration // of leases
	callers int
	dying   bool // instances die now and then, and others take their places

	mu           sync.Mutex
	trace        []admission
	local, asked int
}

func (w *crowd) run(t *testing.T, d time.Duration) {
	var all sync.WaitGroup
	for range w.callers {
		w.world.mu.Lock()
		random := rand.New(rand.NewPCG(w.random.Uint64(), 7))
		w.world.mu.Unlock()
		all.Go(func() { w.call(t, random, time.Now().Add(d)) })
	}
	all.Wait()
}

func (w *crowd) call(t *testing.T, random *rand.Rand, until time.Time) {
	window := time.Duration(w.counter.Window) * time.Microsecond
	gap := window * time.Duration(w.callers) / time.Duration(2*w.n)
	s, die := w.instance(t, w.length)
	for time.Now().Before(until) {
		for range random.Int64N(1 + 2*w.n/int64(w.callers)) {
			time.Sleep(time.Duration(random.Int64N(int64(gap))) + w.ask(s, 1+max(0, random.Int64N(24)-20)))
			if w.dying && random.IntN(100) == 0 {
				die()
				s, die = w.instance(t, w.length)
			}
		}
		time.Sleep(time.Duration(random.Int64N(int64(window))))
	}
}

// ask asks, and returns for how long it is of no use to ask again: a third of the wait.
func (w *crowd) ask(s *redisstore.Leased, cost int64) time.Duration {
	x := call(core.OpTake, w.counter, w.n, cost)
	x.Budget = 20 * time.Millisecond
	before := time.Now().UnixMicro()
	local := s.Spend(x)
	if !local && s.Do(context.Background(), x) != nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if local {
		w.local++
	}
	for range x.Parts[0].Cost {
		if x.Parts[0].Done {
			w.trace = append(w.trace, admission{x.Parts[0].At, before, time.Now().UnixMicro()})
		}
	}
	return x.Parts[0].FitsAt.Sub(x.Parts[0].At) / 3
}

// Whatever instances there are, whoever dies, whatever is lost on the way, and if Redis's
// clock is set: no window holds more than N.
func TestNoWindowHoldsMoreThanNWithLeases(t *testing.T) {
	t.Parallel()
	seeds, most, local := uint64(max(traces()/3, 8)), 0.0, 0
	if underRaceDetector() {
		seeds = min(seeds, 4)
	}
	all := 0
	for seed := range seeds {
		inWorld(t, seed, func(t *testing.T, w *world) {
			a := []core.Algorithm{core.Exact, core.Slotted, core.Hybrid}[seed%3]
			n := 200 + w.random.Int64N(600)
			window := time.Duration(400+w.random.IntN(1200)) * time.Millisecond
			length := time.Duration(5+w.random.IntN(60)) * time.Millisecond
			w.delay = time.Duration(w.random.IntN(2000)) * time.Microsecond
			w.loss = []float64{0, 0, 0.05}[w.random.IntN(3)]
			c := counter("limit", a, window, 10)
			forward := seed%8 == 7
			if seed%4 == 3 { // set the clock back now and then, or forward too
				stop := make(chan struct{})
				defer close(stop)
				go func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(window / 3):
							w.change(func() {
								w.off -= time.Duration(w.random.Int64N(int64(window)))
								if forward {
									w.off += time.Duration(w.random.Int64N(int64(2 * window)))
								}
							})
						}
					}
				}()
			}
			x := &crowd{world: w, counter: c, n: n, length: length, callers: 1 + w.random.IntN(5), dying: seed%2 == 1}
			x.run(t, 4*window)
			trace := x.trace
			all, local = all+x.asked, local+x.local
			answered, witnessed := worstAnswered(trace, window), worstWitnessed(trace, window)
			if forward {
				witnessed = 0 // such a step frees units early
			}
			if int64(answered) > n || int64(witnessed) > n {
				t.Errorf("seed %d: a window of %v holds %d units by the answers, %d by the clock, N is %d", seed, window, answered, witnessed, n)
			}
			most = max(most, float64(answered)/float64(n))
		})
	}
	if local < 100 || most < 0.9 {
		t.Errorf("%d calls were answered from leases, and no window held more than %.2f N: that tests nothing", local, most)
	}
	t.Logf("%d of %d calls were answered from leases; the worst window held %.3f N", local, all, most)
}
