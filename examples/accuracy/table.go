package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table is text in rows and columns; the first row is the head, the first
// column is aligned to the left.
type table struct {
	title string
	notes []string
	rows  [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) widths() []int {
	widths := make([]int, len(t.rows[0]))
	for _, r := range t.rows {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	return widths
}

// print writes the table, in Markdown or for a terminal.
func (t *table) print(w io.Writer, markdown bool) {
	left, between, right := "", "  ", ""
	if markdown {
		left, between, right = "| ", " | ", " |"
	}
	if t.title != "" {
		fmt.Fprintf(w, "%s\n\n", t.title)
	}
	widths := t.widths()
	for k, r := range t.rows {
		cells := make([]string, len(r))
		for i, c := range r {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if i == 0 {
				cells[i] = c + pad
			} else {
				cells[i] = pad + c
			}
		}
		fmt.Fprintln(w, left+strings.Join(cells, between)+right)
		if k == 0 {
			fmt.Fprintln(w, left+strings.Join(rules(widths, markdown), between)+right)
		}
	}
	fmt.Fprintln(w)
	for _, n := range t.notes {
		fmt.Fprintln(w, n)
	}
	if len(t.notes) > 0 {
		fmt.Fprintln(w)
	}
}

func rules(widths []int, markdown bool) []string {
	lines := make([]string, len(widths))
	for i, n := range widths {
		lines[i] = strings.Repeat("-", n)
		if markdown && i > 0 {
			lines[i] = lines[i][:n-1] + ":"
		}
	}
	return lines
}
