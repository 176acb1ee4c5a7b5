package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/slidegate/slidegate/core"
)

// setting is what all measurements share.
type setting struct {
	seed    uint64
	n       int64
	window  core.Instant
	windows int // length of a trace
	// live says that the clock cannot be set: offers are judged by the instants at
	// which they were decided.
	live bool
}

func defaultSetting(seed uint64) setting {
	return setting{seed: seed, n: 100, window: 1_000_000, windows: 60}
}

// row is one limit, or one model, under all traces.
type row struct {
	name  string
	limit core.Limit // zero in a model
	edge  core.Instant
	late  core.Instant // how late a unit may leave
	open  func() (subject, func() error, error)
	plain bool // only plain traces
	live  bool // see setting
	cells []cell
}

// cell is what came of one trace.
type cell struct {
	trace    trace
	skipped  bool
	offers   int
	admitted int64   // units
	ideal    int64   // units that the ideal log admits
	worst    float64 // units in the fullest window, divided by N
	differs  int     // offers that the ideal log answers otherwise
	latest   core.Instant
	faults   [faultKinds]int
}

// share is the units admitted as a share of what the ideal log admits.
func (c cell) share() float64 { return float64(c.admitted) / float64(c.ideal) }

// gates are the limits under judgement.
func gates(c setting, open opener) (rows []row) {
	limit := core.Per(c.n, time.Duration(c.window)*time.Microsecond)
	limits := []core.Limit{limit}
	for _, slots := range []int{1, 2, 5, 10, 20, 50, 60, 100} {
		limits = append(limits, limit.Slotted(slots))
	}
	limits = append(limits, limit.Hybrid(10, 0.5), limit.Hybrid(10, 0.8), limit.Hybrid(60, 0.8))
	for _, l := range limits {
		rows = append(rows, gateRow(c, open, l))
	}
	return rows
}

func gateRow(c setting, open opener, l core.Limit) row {
	r := row{name: l.Algorithm().String(), limit: l, edge: c.window, live: c.live}
	r.open = func() (subject, func() error, error) {
		g, err := newGate(open, l)
		if err != nil {
			return nil, nil, err
		}
		return g, g.close, nil
	}
	if slots := l.Slots(); slots > 0 {
		r.name += fmt.Sprintf(" n=%d", slots)
		r.edge = slotSize(c.window, int64(slots))
		// From the start of its slot to its end and n slots beyond.
		r.late = core.Instant(slots+1)*r.edge - c.window
	}
	if l.Algorithm() == core.Hybrid {
		r.name += fmt.Sprintf(" hot=%g", l.Hot())
	}
	return r
}

// contrasts are the models to compare with.
func contrasts(c setting) []row {
	model := func(name string, edge core.Instant, open func() subject) row {
		return row{name: name, edge: edge, plain: true, open: func() (subject, func() error, error) {
			return open(), func() error { return nil }, nil
		}}
	}
	n, w := c.n, c.window
	rows := []row{
		model("fixed window", w, func() subject { return fixedWindow(n, w) }),
		model("two windows, weighted", w, func() subject { return weightedCounter(n, w) }),
		model("token bucket", w, func() subject { return newTokenBucket(n, w) }),
	}
	for _, slots := range []int64{10, 60} {
		edge := slotSize(w, slots)
		rows = append(rows,
			model(fmt.Sprintf("%d slots, n-1 back", slots), edge, func() subject { return shortSlots(n, w, slots) }),
			model(fmt.Sprintf("%d slots, weighted", slots), edge, func() subject { return weightedSlots(n, w, slots) }))
	}
	return append(rows, model("60 slots, rounded down", w/60, func() subject { return roundedSlots(n, w, 60) }))
}

// measure fills in the cells of all rows.
func measure(c setting, rows []row) error {
	for i := range rows {
		for _, t := range traces() {
			cell, err := rows[i].run(c, t)
			if err != nil {
				return fmt.Errorf("%s under %q: %w", rows[i].name, t.name, err)
			}
			rows[i].cells = append(rows[i].cells, cell)
		}
	}
	return nil
}

func (r *row) run(c setting, t trace) (result cell, err error) {
	if r.plain && !t.plain {
		return cell{trace: t, skipped: true}, nil
	}
	s, done, err := r.open()
	if err != nil {
		return cell{}, err
	}
	defer func() { err = errors.Join(err, done()) }()
	return play(c, t, t.make(newPen(c, r.edge)), s, r.late)
}

// play feeds the offers to a subject and to the ideal log, and has a judge
// listen to both.
func play(c setting, t trace, offers []offer, s subject, late core.Instant) (cell, error) {
	best := newIdeal(c.n, c.window)
	watch, reference := newJudge(c.n, c.window, late), newJudge(c.n, c.window, 0)
	differs := 0
	for _, o := range offers {
		a, err := s.answer(o)
		if err != nil {
			return cell{}, err
		}
		if c.live {
			o.clock = a.at
		}
		b, err := best.answer(o)
		if err != nil {
			return cell{}, err
		}
		watch.hear(o, a)
		if t.plain && a.at != o.clock {
			watch.faults[wrongInstant]++
		}
		reference.hear(o, b)
		if a != b {
			differs++
		}
	}
	return cell{
		trace: t, offers: len(offers), admitted: watch.admitted, ideal: reference.admitted,
		worst:   float64(watch.worst) / float64(c.n),
		differs: differs, latest: watch.latest, faults: watch.faults,
	}, nil
}
