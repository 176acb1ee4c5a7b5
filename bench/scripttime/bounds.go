package main

import "fmt"

// bound is the most that a contender may cost, in calls of plain, by low quantiles.
type bound struct {
	name             string
	allowed, refused float64
	full             bool // holds from 100 live units on
}

var bounds = [...]bound{
	{name: exactName, allowed: 1.5, refused: 1.8},
	{name: bothName, allowed: 2.8, refused: 3.3, full: true},
	{name: eightName, allowed: 2, refused: 2},
}

// judge returns what bounds the results break.
func judge(st state, results []*result) []string {
	var broken []string
	plain := find(results, plainName).low()
	for _, b := range bounds {
		most := b.allowed
		if st.refused {
			most = b.refused
		}
		if b.full && !st.flow && st.live < 100 {
			continue
		}
		if ratio := find(results, b.name).low() / plain; ratio > most {
			broken = append(broken, fmt.Sprintf("%s: %s costs %.2f x plain, more than %.1f", st.name, b.name, ratio, most))
		}
	}
	return broken
}
