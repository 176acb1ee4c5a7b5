package main

import (
	"fmt"
	"time"
)

// bound is the most that a contender may cost, in calls of plain. It is broken if both
// the low quantile and the median are above it: where a machine has two speeds, each
// alone can compare a fast call with a slow one.
type bound struct {
	name             string
	allowed, refused float64
	full             bool // holds from 100 live units on
	// small, if not 0, holds instead of allowed in the flow of about 100 live units:
	// there the set of plain stays a listpack, and its calls cost least.
	small float64
}

var bounds = [...]bound{
	{name: exactName, allowed: 1.5, refused: 1.8},
	{name: bothName, allowed: 2.8, refused: 3.3, full: true, small: 3.4},
	{name: eightName, allowed: 2, refused: 2.2},
}

// judge returns what bounds the results break.
func judge(st state, results []*result) []string {
	var broken []string
	plain := find(results, plainName)
	for _, b := range bounds {
		most := b.allowed
		if st.refused {
			most = b.refused
		}
		if b.full && !st.flow && st.live < 100 {
			continue
		}
		if b.small != 0 && st.flow && st.window <= 5*time.Millisecond {
			most = b.small
		}
		r := find(results, b.name)
		if ratio := min(r.low()/plain.low(), r.median()/plain.median()); ratio > most {
			broken = append(broken, fmt.Sprintf("%s: %s costs %.2f x plain, more than %.1f", st.name, b.name, ratio, most))
		}
	}
	return broken
}
