// Package table prints tables, as text or in Markdown.
package table

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table is a title, column heads and rows.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
	Notes []string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Print writes the table.
func (t *Table) Print(w io.Writer, markdown bool) error {
	var b strings.Builder
	if markdown {
		t.markdown(&b)
	} else {
		t.text(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "**%s**\n\n| %s |\n|%s\n", t.Title, strings.Join(t.Head, " | "), "---|"+strings.Repeat("---:|", len(t.Head)-1))
	for _, r := range t.Rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(r, " | "))
	}
	for _, n := range t.Notes {
		fmt.Fprintf(b, "\n%s\n", n)
	}
	b.WriteByte('\n')
}

func (t *Table) text(b *strings.Builder) {
	fmt.Fprintln(b, t.Title)
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, r := range append([][]string{t.Head}, t.Rows...) {
		fmt.Fprintf(w, "  %s\n", strings.Join(r, "\t"))
	}
	_ = w.Flush() // a Builder takes everything
	for _, n := range t.Notes {
		fmt.Fprintf(b, "  %s\n", n)
	}
	b.WriteByte('\n')
}
