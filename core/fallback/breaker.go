package fallback

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/core"
)

const (
	firstWait = 25 * time.Millisecond
	maxWait   = 500 * time.Millisecond
	// quietPeriod is how long no call may fail before the store counts as healthy.
	quietPeriod = time.Second
)

// breaker keeps calls from a store that is known to be down, lane by lane.
//
// The breakers of libraries, such as github.com/sony/gobreaker, let live requests find
// out whether the store is back, and each of them waits for its budget. Here a prober
// does that, so that what is left is a bit per lane.
type breaker struct {
	threshold int32
	probe     func(ctx context.Context, lane int, budget time.Duration) error
	restored  func()      // called when a lane is closed again
	mended    func() bool // reports whether no call has failed for a while

	open    atomic.Uint64    // lanes that are not asked
	failing atomic.Uint64    // lanes whose latest calls have failed
	streak  [64]atomic.Int32 // of failed calls
	failure atomic.Uint32    // that opened a lane last
	budget  atomic.Int64     // the greatest of those who failed or would have asked since
	next    atomic.Int64     // without a probe: when the next call is let through, in ns since began
	began   time.Time

	ctx     context.Context // ends with the store
	stop    context.CancelFunc
	wake    chan struct{} // tells a prober that rests that a lane has opened
	mu      sync.Mutex
	probing bool
	wait    time.Duration // before the next probe
	over    sync.WaitGroup
}

func (b *breaker) init(cfg Config, restored func(), mended func() bool) {
	b.threshold, b.probe, b.restored, b.mended = int32(cfg.Failures), cfg.Probe, restored, mended
	if b.threshold == 0 {
		b.threshold = DefaultFailures
	}
	b.ctx, b.stop = context.WithCancel(context.Background())
	b.wake, b.wait, b.began = make(chan struct{}, 1), firstWait, time.Now()
}

// refuses returns why calls on these lanes are not to be asked, or NoFailure.
func (b *breaker) refuses(lanes uint64, budget time.Duration) core.Failure {
	if b.open.Load()&lanes == 0 || b.probe == nil && b.mayTry() {
		return core.NoFailure
	}
	b.allow(budget)
	return core.Failure(b.failure.Load())
}

// allow has probes take as long as the most patient of those who would ask.
func (b *breaker) allow(budget time.Duration) {
	for known := b.budget.Load(); int64(budget) > known; known = b.budget.Load() {
		if b.budget.CompareAndSwap(known, int64(budget)) {
			return
		}
	}
}

// mayTry lets one call through now and then.
func (b *breaker) mayTry() bool {
	now, next := int64(time.Since(b.began)), b.next.Load()
	return now >= next && b.next.CompareAndSwap(next, now+int64(jitter(maxWait)))
}

// answered takes down that a call on these lanes was answered.
func (b *breaker) answered(lanes uint64) {
	if b.failing.Load()&lanes == 0 {
		return
	}
	if b.probe != nil {
		lanes &^= b.open.Load() // a prober closes these: a late answer may be the last one
	}
	for each := range eachLane(lanes) {
		b.restore(each)
	}
}

// restore has a lane asked again. It and failed change failing and the streak in opposite
// order: so a streak that is not 0 has its bit in failing, and ends with the next answer.
func (b *breaker) restore(lane int) {
	b.failing.And(^(1 << lane))
	b.streak[lane].Store(0)
	if was := b.open.And(^(1 << lane)); was&(1<<lane) != 0 {
		b.restored()
	}
}

// failed takes down that a call on these lanes was not answered.
func (b *breaker) failed(lanes uint64, f core.Failure, budget time.Duration) {
	for lane := range eachLane(lanes) {
		long := b.streak[lane].Add(1) >= b.threshold
		b.failing.Or(1 << lane)
		if !long || b.open.Load()&(1<<lane) != 0 {
			continue
		}
		b.failure.Store(uint32(f))
		b.allow(budget)
		b.next.Store(int64(time.Since(b.began) + jitter(firstWait)))
		b.open.Or(1 << lane)
		b.startProbing()
	}
}

func eachLane(lanes uint64) func(func(int) bool) {
	return func(yield func(int) bool) {
		for ; lanes != 0; lanes &= lanes - 1 {
			if !yield(bits.TrailingZeros64(lanes)) {
				return
			}
		}
	}
}

// startProbing starts the prober, or wakes the one that rests.
func (b *breaker) startProbing() {
	if b.probe == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probing {
		select {
		case b.wake <- struct{}{}:
		default:
		}
		return
	}
	if b.ctx.Err() != nil {
		return
	}
	b.probing = true
	b.over.Go(b.run)
}

// run probes the open lanes until none is left and all is quiet.
func (b *breaker) run() {
	var dead uint64 // lanes whose latest probe failed
	last := 0
	for b.ctx.Err() == nil {
		open := b.open.Load()
		dead &= open
		if open == 0 {
			b.rest(quietPeriod, b.wake)
			if b.open.Load() == 0 && b.mended() && b.finish() {
				return
			}
			continue
		}
		wait := b.wait
		if dead != 0 && dead != open {
			wait = firstWait // those that were not probed yet do not wait as long as the dead
		}
		b.rest(jitter(wait), nil) // a lane more does not hurry it
		last, dead = b.probeLanes(last, dead)
		if b.open.Load() == 0 {
			// If calls fail again soon, though the probe did not, the store is overloaded,
			// and asking it in ever shorter turns would keep it so.
			b.wait = min(2*b.wait, maxWait)
		}
	}
}

// probeLanes probes open lanes until a probe fails: no more than one does in a turn. It
// begins with a lane that was not probed yet, if there is one, so that lanes which are
// dead do not keep it waiting, and else behind the one at which it stopped before.
func (b *breaker) probeLanes(last int, dead uint64) (int, uint64) {
	first := (last + 1) % 64
	if fresh := b.open.Load() &^ dead; fresh != 0 {
		first = farthest(fresh, dead)
	}
	for turned := range eachLane(bits.RotateLeft64(b.open.Load(), -first)) {
		lane := (turned + first) % 64
		if b.probe(b.ctx, lane, time.Duration(b.budget.Load())) != nil {
			b.wait = min(2*b.wait, maxWait)
			return lane, dead | 1<<lane
		}
		dead &^= 1 << lane
		b.restore(lane)
	}
	return last, dead
}

// farthest returns the lane that is farthest from the dead ones. What fails together lies
// together: the lanes of one master of a cluster, mostly. So a lane of another one is
// tried first or second, not after all of those.
func farthest(lanes, dead uint64) (best int) {
	most := -1
	for lane := range eachLane(lanes) {
		below, above := bits.LeadingZeros64(dead<<(63-lane)), bits.TrailingZeros64(dead>>lane)
		if d := min(below, above); d > most {
			best, most = lane, d
		}
	}
	return best
}

// rest waits, or until somebody wakes it.
func (b *breaker) rest(d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-b.ctx.Done():
	}
}

// finish ends probing, unless a lane has opened meanwhile. What opens soon after starts
// with short waits again.
func (b *breaker) finish() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open.Load() != 0 {
		return false
	}
	b.probing, b.wait = false, firstWait
	b.budget.Store(0)
	return true
}

// close ends the prober.
func (b *breaker) close() {
	b.mu.Lock()
	b.stop()
	b.mu.Unlock()
	b.over.Wait()
}

// jitter returns d/2 to d, so that instances do not probe in step.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }
