package main

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/slidegate/slidegate/core"
)

// deed is what an offer wants.
type deed uint8

const (
	take deed = iota
	reserve
	commit
	correct
	cancel
)

// offer is one call of a trace.
type offer struct {
	clock core.Instant // what the store's clock reads
	deed  deed
	cost  int64
	ref   int // of a reservation, from 1 on
}

// trace is a way to be mean to a limiter.
type trace struct {
	name  string
	about string
	// plain traces are single calls on a clock that only runs forward: models
	// that know no more can be fed with them.
	plain bool
	// full traces offer so much that some window must be filled.
	full bool
	// upward traces correct costs above N: there more than N units may count, but
	// nothing may be admitted on top.
	upward bool
	make   func(*pen) []offer
}

func traces() []trace {
	return []trace{
		{name: "edges", about: "N just before and N just after each edge of a slot, or of a window", plain: true, full: true, make: (*pen).edges},
		{name: "late flood", about: "N just before an edge, then 80 N per window", plain: true, full: true, make: (*pen).lateFlood},
		{name: "steady 10x", about: "ten times N per window, evenly", plain: true, full: true, make: (*pen).steady},
		{name: "N every W", about: "N at once, exactly every window", plain: true, full: true, make: (*pen).punctual},
		{name: "random", about: "random arrivals, from half of N to five times N per window", plain: true, make: (*pen).random},
		{name: "costs", about: "random arrivals that cost 1 to N/4, at times N, N+1 or more", plain: true, make: (*pen).costs},
		{name: "reserved", about: "reservations committed, corrected downward, cancelled, ended too late or never", make: (*pen).reserved},
		{name: "clock", about: "random arrivals under a clock that steps back and forward", make: (*pen).clockSteps},
		{name: "upward", about: "reservations corrected upward, some of them after they lapsed", upward: true, make: (*pen).upwards},
	}
}

// plainTraces are the traces for models, and for clocks that cannot be set.
func plainTraces() []trace {
	return slices.DeleteFunc(traces(), func(t trace) bool { return !t.plain })
}

// start is the first instant of every trace: no edge of anything.
const start core.Instant = 1_767_225_600_012_345

// pen writes traces. The same seed gives the same trace.
type pen struct {
	rng     *rand.Rand
	n       int64
	window  core.Instant
	edge    core.Instant // length of a slot, or of the window
	windows int          // how long the trace is
	out     []offer
	refs    int
}

func newPen(c setting, edge core.Instant) *pen {
	return &pen{rng: rand.New(rand.NewPCG(c.seed, 0)), n: c.n, window: c.window, edge: edge, windows: c.windows}
}

func (p *pen) takes(at core.Instant, times int64) {
	for range times {
		p.out = append(p.out, offer{clock: at, cost: 1})
	}
}

func (p *pen) firstEdge() core.Instant { return (start/p.edge + 2) * p.edge }

func (p *pen) end() core.Instant { return start + core.Instant(p.windows)*p.window }

// between returns a random integer from lo to hi.
func (p *pen) between(lo, hi int64) int64 { return lo + p.rng.Int64N(hi-lo+1) }

// gap returns the time to the next of times N random arrivals per window.
func (p *pen) gap(times float64) core.Instant {
	return core.Instant(p.rng.ExpFloat64() * float64(p.window) / (times * float64(p.n)))
}

func (p *pen) edges() []offer {
	e := p.firstEdge()
	for range max(12, 3*p.window/p.edge) {
		p.takes(e-1, p.n)
		p.takes(e, p.n)
		e += p.edge
	}
	return p.out
}

func (p *pen) lateFlood() []offer {
	e := p.firstEdge()
	for range max(1, p.windows/20) {
		p.takes(e-1, p.n)
		for at := e; at < e+p.window*6/5; at += p.window / 1000 {
			p.takes(at, 80*p.n/1000)
		}
		// Quiet until all is forgotten, and on by some edges.
		e = (e/p.edge+1)*p.edge + (4*p.window/p.edge)*p.edge + core.Instant(p.between(0, 9))*p.edge
	}
	return p.out
}

// steady ends after whole periods of both an ideal log, W, and of n slots, n+1
// slots: else one of them would have just begun another.
func (p *pen) steady() []offer {
	period := int(p.window/p.edge) + 1
	windows := core.Instant((p.windows + period - 1) / period * period)
	for at := start; at < start+windows*p.window; at += p.window / core.Instant(10*p.n) {
		p.takes(at, 1)
	}
	return p.out
}

func (p *pen) punctual() []offer {
	for at := start; at < p.end(); at += p.window {
		p.takes(at, p.n)
	}
	return p.out
}

// rates calls f at random arrivals whose rate changes with each window.
func (p *pen) rates(f func(at core.Instant)) []offer {
	for from := start; from < p.end(); from += p.window {
		times := 0.5 + 4.5*p.rng.Float64()
		for at := from + p.gap(times); at < from+p.window; at += p.gap(times) {
			f(at)
		}
	}
	return p.out
}

func (p *pen) random() []offer {
	return p.rates(func(at core.Instant) { p.takes(at, 1) })
}

func (p *pen) costs() []offer {
	return p.rates(func(at core.Instant) {
		cost := p.between(1, p.n/4)
		switch p.rng.IntN(50) {
		case 0:
			cost = p.n
		case 1:
			cost = p.n + p.between(1, 1000)
		}
		p.out = append(p.out, offer{clock: at, cost: cost})
	})
}

// reservation offers one of that cost, and its end.
func (p *pen) reservation(at core.Instant, cost int64, end offer) {
	p.refs++
	end.ref = p.refs
	p.out = append(p.out, offer{clock: at, deed: reserve, cost: cost, ref: p.refs}, end)
}

// later returns an instant from at until a little after a reservation taken at
// at has lapsed, the instant of that and its neighbours more often than others.
func (p *pen) later(at core.Instant) core.Instant {
	if p.rng.IntN(10) == 0 {
		return at + p.window + core.Instant(p.between(-1, 1))
	}
	return at + core.Instant(p.between(0, int64(p.window)*13/10))
}

// ordered puts ends of reservations where they belong in time.
func (p *pen) ordered() []offer {
	slices.SortStableFunc(p.out, func(a, b offer) int { return cmp.Compare(a.clock, b.clock) })
	return p.out
}

func (p *pen) reserved() []offer {
	p.rates(func(at core.Instant) {
		cost := p.between(1, 10)
		end := offer{clock: p.later(at), cost: cost}
		switch k := p.rng.IntN(20); {
		case k < 4:
			p.takes(at, 1)
			return
		case k < 10:
			end.deed = cancel
		case k < 15:
			end.deed, end.cost = correct, p.between(0, cost)
		case k < 18:
			end.deed = commit
		default: // it lapses, and its end finds nothing
			end.deed, end.clock = commit, at+2*p.window
		}
		p.reservation(at, cost, end)
	})
	return p.ordered()
}

func (p *pen) upwards() []offer {
	p.rates(func(at core.Instant) {
		if p.rng.IntN(3) > 0 {
			p.out = append(p.out, offer{clock: at, cost: p.between(1, 5)})
			return
		}
		cost := p.between(1, 5)
		p.reservation(at, cost, offer{clock: p.later(at), deed: correct, cost: cost + p.between(1, 3*cost)})
	})
	return p.ordered()
}

// clockSteps keeps offering while the clock is set back, set forward, set
// forward and back again, or cannot make up its mind between two readings.
func (p *pen) clockSteps() []offer {
	at := start
	for range p.windows {
		for left := p.window; left > 0; {
			d := 1 + p.gap(3)
			at, left = at+d, left-d
			p.takes(at, 1)
		}
		step := core.Instant(p.between(1, 2*int64(p.window)))
		switch p.rng.IntN(4) {
		case 0:
			at -= step
		case 1:
			at += step
		case 2:
			p.takes(at+step, p.between(1, p.n))
		case 3:
			for range 2 * p.n {
				p.takes(at-5000, 1)
				p.takes(at, 1)
			}
		}
	}
	return p.out
}
