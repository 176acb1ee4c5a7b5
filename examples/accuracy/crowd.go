package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/slidegate/slidegate/core"
)

// crowd is many instances with many callers each, all of them after the same key.
type crowd struct {
	instances, callers int
	window             time.Duration
	windows            int
	paced              []int64 // each N of which the callers ask for ten times
	flooded            []int64 // each N of which they ask as fast as they can
	seed               uint64
}

func defaultCrowd(seed uint64) crowd {
	return crowd{
		instances: 4, callers: 64, window: time.Second, windows: 10,
		paced: []int64{10, 100}, flooded: []int64{10_000}, seed: seed,
	}
}

// overload is how many times N units the callers of paced jobs ask for per window.
const overload = 10

// enoughOverload is from where on the units offered must fill some window, though
// they are not quite even.
const enoughOverload = 1.1

// outcome is what came of a job on all instances.
type outcome struct {
	name     string
	job      job
	instance []int64 // units admitted by each
	offered  int64   // units
	calls    int64
	errors   int64 // calls
	anyError string
	worst    int64 // units in the fullest window
	faults   [faultKinds]int
}

// attack plays all jobs of the crowd: the paced ones together, then the floods
// one by one, since each takes all that the machine gives.
func (w crowd) attack(ctx context.Context, how hire, where ...servers) (list []outcome, err error) {
	ctx, stop := context.WithTimeout(ctx, time.Duration(w.windows)*w.window*8+time.Minute)
	defer stop()
	f, err := hireAll(ctx, how, where...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.dismiss()) }()
	for _, jobs := range w.jobs() {
		tallies, err := f.do(jobs)
		if err != nil {
			return nil, err
		}
		for k := range jobs {
			var ofJob []tally
			for i := range tallies {
				ofJob = append(ofJob, tallies[i][k])
			}
			list = append(list, sum(jobs[k], ofJob))
		}
	}
	return list, nil
}

// jobs returns the lists of jobs that are done at the same time.
func (w crowd) jobs() (lists [][]job) {
	newJob := func(n int64, l core.Limit) job {
		return job{
			Name: fmt.Sprintf("%s-%d", l.Algorithm(), n),
			N:    n, Window: w.window, Slots: l.Slots(), Hot: l.Hot(),
			Callers: w.callers, MaxCost: 1, Lasts: time.Duration(w.windows) * w.window, Seed: w.seed,
		}
	}
	var together []job
	for _, n := range w.paced {
		for _, l := range threeWays(n, w.window) {
			j := newJob(n, l)
			if n >= 100 {
				j.MaxCost = 3
			}
			j.Rate = overload * float64(n) / w.window.Seconds() / float64(w.instances) / (float64(1+j.MaxCost) / 2)
			j.Refusals = true
			together = append(together, j)
		}
	}
	if len(together) > 0 {
		lists = append(lists, together)
	}
	for _, n := range w.flooded {
		for _, l := range threeWays(n, w.window) {
			j := newJob(n, l)
			j.MaxCost = 5 // a machine makes calls only so fast: units come faster
			lists = append(lists, []job{j})
		}
	}
	return lists
}

// sum puts together what the instances heard, and has a judge listen to it.
func sum(j job, tallies []tally) outcome {
	r := gateRow(setting{window: core.Instant(j.Window.Microseconds())}, nil, j.limit())
	o := outcome{name: r.name, job: j}
	var all []heard
	for _, t := range tallies {
		list, admitted := t.unpack(), int64(0)
		for _, h := range list {
			if h.admitted {
				admitted += h.cost
			}
		}
		all = append(all, list...)
		o.instance = append(o.instance, admitted)
		o.offered += t.Offered
		o.calls += t.Calls
		o.errors += t.Errors
		o.anyError = cmp.Or(o.anyError, t.AnyError)
	}
	slices.SortStableFunc(all, func(a, b heard) int { return cmp.Compare(a.at, b.at) })
	watch := newJudge(j.N, core.Instant(j.Window.Microseconds()), r.late)
	for len(all) > 0 {
		together := 1
		for together < len(all) && all[together].at == all[0].at {
			together++
		}
		watch.hearTogether(all[:together])
		all = all[together:]
	}
	o.worst, o.faults = watch.worst, watch.faults
	if o.errors > 0 {
		// A call without an answer may have been counted.
		o.faults[needless], o.faults[wrongWait] = 0, 0
	}
	return o
}

// times returns the units offered per window, divided by N.
func (o *outcome) times() float64 {
	return float64(o.offered) / float64(o.job.N) * float64(o.job.Window) / float64(o.job.Lasts)
}

// mustFill reports whether some window must have been filled to the last unit.
func (o *outcome) mustFill() bool {
	return o.job.limit().Algorithm() == core.Exact && o.times() >= enoughOverload && o.errors == 0
}

// broken returns every promise that the outcome breaks.
func (o *outcome) broken() (lines []string) {
	say := func(format string, args ...any) {
		lines = append(lines, fmt.Sprintf("%s, N = %d: ", o.name, o.job.N)+fmt.Sprintf(format, args...))
	}
	if o.worst > o.job.N {
		say("%d units in some window", o.worst)
	}
	if o.mustFill() && o.worst < o.job.N {
		say("no window was filled: the fullest held %d units", o.worst)
	}
	for kind, times := range o.faults {
		if times > 0 {
			say("%s %d times", faultNames[kind], times)
		}
	}
	if o.worst == 0 {
		say("nothing was admitted")
	}
	return lines
}

func crowdTable(w crowd, list []outcome) *table {
	t := &table{
		title: fmt.Sprintf("%d processes with %d callers each on one key, W = %v, %d windows; units in the fullest\nwindow (t-W, t] by the instants of all processes' decisions, divided by N:", w.instances, w.callers, w.window, w.windows),
		notes: []string{
			"Offered: units per window, divided by N. Answers: calls that were decided, per second.",
		},
	}
	t.add("limit", "N", "offered", "answers", "admitted", "by each process", "errors", "fullest")
	for _, o := range list {
		total, each := int64(0), ""
		for i, n := range o.instance {
			if i > 0 {
				each += " "
			}
			total += n
			each += strconv.FormatInt(n, 10)
		}
		t.add(o.name, strconv.FormatInt(o.job.N, 10), fmt.Sprintf("%.1f x", o.times()), o.perSecond(),
			strconv.FormatInt(total, 10), each, strconv.FormatInt(o.errors, 10),
			fmt.Sprintf("%.4f", float64(o.worst)/float64(o.job.N)))
		if o.anyError != "" {
			t.notes = append(t.notes, fmt.Sprintf("An error of %s, N = %d: %s", o.name, o.job.N, o.anyError))
		}
	}
	return t
}

// perSecond returns the calls per second.
func (o *outcome) perSecond() string {
	return fmt.Sprintf("%.0f/s", float64(o.calls-o.errors)/o.job.Lasts.Seconds())
}
