package redisstore

import (
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/core"
)

// refusals remembers what Redis has refused, so that who does not wait costs it no more
// than a call per second and instance, and one for each unit that leaves.
//
// Only refusals by a limit that is full are remembered: nobody takes anything from it
// until the first unit leaves, whatever the cost, so that the announced instant stays
// right. Only a reset, a cancelled or corrected
// reservation, a raised limit or a step of the clock can end it early; what of that
// this instance does is heeded at once, and what others do within a second.
type refusals struct {
	now  func() time.Duration // monotonic
	life time.Duration        // for how long what happens elsewhere goes unnoticed
	seed maphash.Seed
	// A table with one place for each hash: a collision costs a call on Redis.
	places [refusalPlaces]place
	hits   atomic.Int64
}

const (
	refusalPlaces = 4096
	// refusalLife bounds how long what happens elsewhere goes unnoticed.
	refusalLife = time.Second
)

// place holds the latest refusal of a hash. turn changes with each answer and with each
// event that could end a refusal, so that an answer which is older is not remembered.
type place struct {
	latest atomic.Pointer[refusal]
	turn   atomic.Uint64
}

type refusal struct {
	parts []core.Part   // as Redis answered
	came  time.Duration // when the answer came
	until time.Duration
	// lead is by how many microseconds Redis's clock is known to be ahead of the time
	// since the answer came, which is reckoned too short by the answer's way. Else the
	// key's time would run backwards for who has heard of Redis in between.
	lead atomic.Int64
	// settled says that no answer or event came between the answer and its being
	// remembered.
	settled atomic.Bool
}

func newRefusals(now func() time.Duration) *refusals {
	if now == nil {
		began := time.Now()
		now = func() time.Duration { return time.Since(began) }
	}
	return &refusals{now: now, life: refusalLife, seed: maphash.MakeSeed()}
}

// ticket is what is to be known of a call before it is sent.
type ticket struct {
	place *place
	turn  uint64
	sent  time.Duration
}

// answer answers the call if it would be refused for certain. Otherwise keep wants the
// ticket, once Redis has answered.
func (r *refusals) answer(c *core.Call) (t ticket, done bool) {
	p := r.placeOf(c)
	t = ticket{p, p.turn.Load(), r.now()}
	known := p.latest.Load()
	if known == nil || !known.settled.Load() || t.sent >= known.until || !known.covers(c) {
		return t, false
	}
	// Time since the answer, not since the question: that would announce too short a
	// wait.
	elapsed := known.since(t.sent)
	for i := range known.parts {
		if k := &known.parts[i]; k.FitsAt > k.At && k.At+elapsed >= k.FitsAt {
			return t, false // Redis's clock was set forward, and the wait may be over
		}
	}
	for i := range c.Parts {
		x, k := &c.Parts[i], &known.parts[i]
		x.At, x.Used, x.OldestLeaves, x.FitsAt, x.Done = k.At+elapsed, k.Used, k.OldestLeaves, k.FitsAt, k.Done
		if k.FitsAt == k.At {
			x.FitsAt = x.At // this one has room, and another refuses
		}
	}
	r.hits.Add(1)
	return t, true
}

// since returns the microseconds from the answer to now, on Redis's clock: not more than
// have passed.
func (k *refusal) since(now time.Duration) core.Instant {
	return core.Instant((now-k.came)/time.Microsecond) + core.Instant(k.lead.Load())
}

// hear takes down what a later answer about the same counters says of Redis's clock.
func (k *refusal) hear(c *core.Call, now time.Duration) {
	for i := range c.Parts {
		for j := range k.parts {
			x, y := &c.Parts[i], &k.parts[j]
			if x.Key == y.Key && sameCounter(x.Counter, y.Counter) {
				k.lag(x.At - y.At - core.Instant((now-k.came)/time.Microsecond))
			}
		}
	}
}

// lag raises the lead to what was heard.
func (k *refusal) lag(heard core.Instant) {
	for lead := k.lead.Load(); int64(heard) > lead; lead = k.lead.Load() {
		if k.lead.CompareAndSwap(lead, int64(heard)) {
			return
		}
	}
}

func sameCounter(x, y *core.Counter) bool { return x == y || x.Identity() == y.Identity() }

// covers reports whether the refusal is one of c too: of the same limits, keys and cost.
// Another cost would be refused as well, but until when is not known.
func (k *refusal) covers(c *core.Call) bool {
	if len(k.parts) != len(c.Parts) {
		return false
	}
	for i := range c.Parts {
		x, y := &c.Parts[i], &k.parts[i]
		if x.Key != y.Key || x.N != y.N || x.Cost != y.Cost || x.Watched != y.Watched ||
			!sameCounter(x.Counter, y.Counter) {
			return false
		}
	}
	return true
}

// keep remembers what Redis has answered to the call, if a full limit refused it.
// An admission, of another cost, shows that what is remembered has ended early.
func (r *refusals) keep(c *core.Call, t ticket) {
	// The turn changes with each answer that is heard: one that was judged before another,
	// and came after it, is not remembered, since the key's time must not run backwards.
	alone := t.place.turn.CompareAndSwap(t.turn, t.turn+1)
	if !alone {
		t.place.turn.Add(1)
	}
	came, known := r.now(), t.place.latest.Load()
	if admits(c.Parts) {
		if known != nil {
			t.place.end()
		}
		return
	}
	if known != nil {
		known.hear(c, came)
	}
	if !alone || !slices.ContainsFunc(c.Parts, full) {
		return
	}
	until := came + r.life
	for i := range c.Parts {
		x := &c.Parts[i]
		if x.OldestLeaves > x.At {
			// The question was sent before Redis read its clock: no unit leaves sooner.
			until = min(until, t.sent+time.Duration(x.OldestLeaves-x.At)*time.Microsecond)
		}
	}
	if until <= came {
		return
	}
	latest := &refusal{parts: slices.Clone(c.Parts), came: came, until: until}
	t.place.latest.Store(latest)
	if t.place.turn.Load() == t.turn+1 {
		latest.settled.Store(true)
		return
	}
	t.place.latest.CompareAndSwap(latest, nil) // something has come in between
}

// full reports whether a part refuses, and would refuse any cost.
func full(x core.Part) bool { return !x.Done && !x.Watched && x.Used >= x.N }

// forget forgets what is known of the keys of a call that gives units back.
func (r *refusals) forget(c *core.Call) { r.placeOf(c).end() }

func (p *place) end() {
	p.turn.Add(1)
	p.latest.Store(nil)
}

// placeOf returns the place of a call's key and limiter: whatever it asks of their limits,
// it may end or outdate what another call was refused.
func (r *refusals) placeOf(c *core.Call) *place {
	x := &c.Parts[0]
	h := maphash.Comparable(r.seed, x.Key)*31 + maphash.String(r.seed, x.Counter.Limiter)
	return &r.places[h%refusalPlaces]
}

// givesBack reports whether the operation can let somebody pass who was refused.
func givesBack(op core.Op) bool {
	return op == core.OpReset || op == core.OpCancel || op == core.OpCorrect || op == core.OpCommit
}
