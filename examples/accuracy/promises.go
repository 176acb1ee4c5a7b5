package main

import (
	"fmt"

	"github.com/slidegate/slidegate/core"
)

// slack is how far the share of the ideal may fall short of n/(n+1): a trace
// ends somewhere within a window.
const slack = 0.005

// broken returns every promise that the row breaks, one a line.
func (r *row) broken() (lines []string) {
	for _, c := range r.cells {
		if c.skipped {
			continue
		}
		for _, problem := range r.brokenIn(c) {
			lines = append(lines, fmt.Sprintf("%s under %q: %s", r.name, c.trace.name, problem))
		}
	}
	return lines
}

func (r *row) brokenIn(c cell) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for kind, times := range c.faults {
		if times > 0 {
			say("%s %d times", faultNames[kind], times)
		}
	}
	if c.worst > 1 && !c.trace.upward {
		say("%.2f N in some window", c.worst)
	}
	if c.trace.full && c.worst < 1 {
		say("no window was filled: the fullest held %.2f N", c.worst)
	}
	if r.limit.Algorithm() == core.Exact && c.differs > 0 {
		say("%d answers differ from the ideal log", c.differs)
	}
	if least := r.leastShare(c.trace); c.share() < least {
		say("%.2f %% of the ideal admitted, at least %.2f %% promised", 100*c.share(), 100*least)
	}
	return problems
}

// leastShare is the share of the ideal that is promised, 0 if none is. Steady
// offers on a live clock are not quite steady.
func (r *row) leastShare(t trace) float64 {
	slots := float64(r.limit.Slots())
	switch {
	case r.limit.Algorithm() == core.Exact:
		return 1
	case t.name == "steady 10x" && !r.live:
		return slots/(slots+1) - slack
	default:
		return 0
	}
}
