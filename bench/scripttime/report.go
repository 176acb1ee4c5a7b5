package main

import (
	"fmt"
	"io"

	"github.com/slidegate/slidegate/bench/internal/table"
)

// noisy is the ratio of the median to the low quantile of plain above which a run
// was disturbed too much to say anything.
const noisy = 1.25

func printResults(out io.Writer, st state, results []*result, markdown bool) error {
	t := table.Table{
		Title: st.name,
		Head:  []string{"script", "µs, low", "µs, median", "x plain, low", "x plain, median", "x lean, low"},
	}
	plain, lean := find(results, plainName), find(results, leanName)
	for _, r := range results {
		name := r.name
		if r.units > 1 {
			name += fmt.Sprintf(" (%.1f µs per request)", r.low()/float64(r.units))
		}
		t.Add(name, fmt.Sprintf("%.1f", r.low()), fmt.Sprintf("%.1f", r.median()),
			fmt.Sprintf("%.2f", r.low()/plain.low()), fmt.Sprintf("%.2f", r.median()/plain.median()),
			fmt.Sprintf("%.2f", r.low()/lean.low()))
	}
	spread := fmt.Sprintf("plain at the 10th, 50th and 90th percentile: %.1f, %.1f, %.1f µs",
		plain.low(), plain.median(), plain.quantile(0.9))
	if plain.median() > noisy*plain.low() {
		spread += ": NOISY, measure again on a quiet machine"
	}
	t.Notes = append(t.Notes, spread)
	return t.Print(out, markdown)
}

func find(results []*result, name string) *result {
	for _, r := range results {
		if r.name == name {
			return r
		}
	}
	return nil
}
