package main

import "github.com/slidegate/slidegate/core"

// fault is a kind of broken promise.
type fault uint8

const (
	overfull     fault = iota // admitted with cost > N - used
	needless                  // refused although there was room
	wrongWait                 // not the instant at which the cost fits
	backwards                 // units counted at an earlier instant than those before
	wrongInstant              // not decided at the instant that the clock read
	wrongLapse                // a reservation ended after it lapsed, or lapsed early
	faultKinds
)

var faultNames = [faultKinds]string{
	"admitted into a full window", "refused without need", "told a wrong wait",
	"counted back in time", "told a wrong instant",
	"lapsed at the wrong time",
}

// judge watches a limiter. It believes nothing but the instants of decisions,
// and keeps its own list of what was admitted when.
type judge struct {
	ledger
	n    int64
	late core.Instant // how much later than W a unit may leave
	// reserved holds the costs of reservations made.
	reserved map[int]int64

	newest   core.Instant // instant of the last units
	admitted int64        // units
	worst    int64        // units in the fullest window
	latest   core.Instant // how much later than needed a refusal asks to come back, at most
	faults   [faultKinds]int
}

func newJudge(n int64, window, late core.Instant) *judge {
	return &judge{ledger: ledger{window: window}, n: n, late: late, reserved: make(map[int]int64)}
}

// hear judges the answer to an offer.
func (j *judge) hear(o offer, a answer) {
	switch {
	case a.skipped:
		return
	case o.deed != take && o.deed != reserve:
		j.hearEnd(o, a)
	case a.admitted:
		j.hearAdmission(o, a)
	default:
		j.hearRefusal(o, a)
	}
}

func (j *judge) hearAdmission(o offer, a answer) {
	if o.cost > j.n-j.used(a.at, 0) {
		j.faults[overfull]++
	}
	if o.deed == reserve {
		j.reserved[o.ref] = o.cost
	}
	j.admitted += o.cost
	j.add(a.at, o.cost, o.ref)
	j.counted(a.at)
}

func (j *judge) hearRefusal(o offer, a answer) {
	if o.cost > j.n {
		if a.fits != 0 {
			j.faults[wrongWait]++
		}
		return
	}
	j.hearWait(o, a, j.fits(a.at, o.cost, j.n))
}

// hearWait judges a refusal that no earlier instant than soonest could have named.
func (j *judge) hearWait(o offer, a answer, soonest core.Instant) {
	// A unit may leave late, so it may have been counted for W + late.
	if o.cost <= j.n-j.used(a.at, j.late) {
		j.faults[needless]++
	}
	fits := j.fits(a.at, o.cost, j.n)
	if a.fits <= a.at || a.fits < soonest || a.fits > fits+j.late {
		j.faults[wrongWait]++
	}
	j.latest = max(j.latest, a.fits-fits)
}

// hearTogether judges answers of one instant, as calls get that are decided in one
// batch, or within one microsecond. Nobody tells their order. A refusal is right if it
// could have come somewhere among the admissions: there is no room after all of them,
// and its wait is not shorter than before the first, nor longer than after the last.
func (j *judge) hearTogether(all []heard) {
	soonest := make([]core.Instant, len(all))
	for i, h := range all {
		if !h.admitted && h.cost <= j.n {
			soonest[i] = j.fits(h.at, h.cost, j.n)
		}
	}
	for _, h := range all {
		if h.admitted {
			j.hearAdmission(offer{clock: h.at, cost: h.cost}, h.answer)
		}
	}
	for i, h := range all {
		switch o := (offer{clock: h.at, cost: h.cost}); {
		case h.admitted:
		case h.cost > j.n:
			j.hearRefusal(o, h.answer)
		default:
			j.hearWait(o, h.answer, soonest[i])
		}
	}
}

func (j *judge) hearEnd(o offer, a answer) {
	units, ok := j.finish(a.at, o, j.reserved[o.ref])
	if ok != a.admitted {
		j.faults[wrongLapse]++
	}
	if units > 0 {
		j.counted(a.at)
	}
}

// counted looks at the window that ends at t, where units were just added. The
// units of a window only rise at such instants, so no other window is fuller.
func (j *judge) counted(t core.Instant) {
	if t < j.newest {
		j.faults[backwards]++
	}
	j.newest = max(j.newest, t)
	j.worst = max(j.worst, j.used(t, 0))
}
