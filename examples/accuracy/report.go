package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// report prints what was measured and returns the promises that were broken.
func report(w io.Writer, c setting, limits, models []row, markdown bool) (broken []string) {
	if !markdown {
		fmt.Fprintf(w, "N = %d units, W = %v, seed %d, %d offers in virtual time.\n\n", c.n, time.Duration(c.window)*time.Microsecond, c.seed, offered(limits)+offered(models))
		for _, t := range traces() {
			fmt.Fprintf(w, "  %-10s  %s\n", t.name, t.about)
		}
		fmt.Fprintln(w)
	}
	worstTable(limits, traces()).print(w, markdown)
	shareTable(limits, traces()).print(w, markdown)
	contrastTable(models).print(w, markdown)
	for i := range limits {
		broken = append(broken, limits[i].broken()...)
	}
	return broken
}

func offered(rows []row) (n int) {
	for _, r := range rows {
		for _, c := range r.cells {
			n += c.offers
		}
	}
	return n
}

func head(first string, traces []trace, more ...string) []string {
	cells := []string{first}
	for _, t := range traces {
		cells = append(cells, t.name)
	}
	return append(cells, more...)
}

func worstTable(rows []row, under []trace) *table {
	t := &table{title: "Units in the fullest window (t-W, t], divided by N:"}
	if slices.ContainsFunc(under, func(tr trace) bool { return tr.upward }) {
		t.notes = []string{
			"* Costs corrected upward afterwards are counted even above N. Nothing is",
			"  admitted until they are worked off.",
		}
	}
	t.add(head("limit", under)...)
	for _, r := range rows {
		cells := []string{r.name}
		for _, c := range r.cells {
			text := fmt.Sprintf("%.2f", c.worst)
			if c.trace.upward {
				text += "*"
			}
			cells = append(cells, text)
		}
		t.add(cells...)
	}
	return t
}

func shareTable(rows []row, under []trace) *table {
	t := &table{
		title: "Units admitted, in per cent of what an ideal log admits of the same offers; and\nhow much later than needed a refusal asks to come back, at most:",
		notes: []string{
			"More than 100 is possible where costs differ or are given back: a request that",
			"is refused early leaves room for others.",
		},
	}
	t.add(head("limit", under, "late")...)
	for _, r := range rows {
		cells, late := []string{r.name}, int64(0)
		for _, c := range r.cells {
			cells = append(cells, fmt.Sprintf("%.1f", 100*c.share()))
			late = max(late, int64(c.latest))
		}
		t.add(append(cells, fmt.Sprintf("%.1f ms", float64(late)/1000))...)
	}
	return t
}

func contrastTable(rows []row) *table {
	t := &table{title: "For contrast, models of other ways to count: units in the fullest window, divided by N:"}
	t.add(head("model", plainTraces(), "worst")...)
	for _, r := range rows {
		cells, worst := []string{r.name}, 0.0
		for _, c := range r.cells {
			if !c.skipped {
				cells = append(cells, fmt.Sprintf("%.2f", c.worst))
				worst = max(worst, c.worst)
			}
		}
		t.add(append(cells, fmt.Sprintf("%.2f", worst))...)
	}
	return t
}
