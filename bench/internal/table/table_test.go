package table_test

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/bench/internal/table"
)

func TestPrint(t *testing.T) {
	x := table.Table{Title: "sizes", Head: []string{"kind", "bytes"}, Notes: []string{"a note"}}
	x.Add("exact", "80")
	for _, tt := range []struct {
		markdown bool
		want     string
	}{
		{false, "sizes\n  kind   bytes\n  exact  80\n  a note\n\n"},
		{true, "**sizes**\n\n| kind | bytes |\n|---|---:|\n| exact | 80 |\n\na note\n\n"},
	} {
		var b strings.Builder
		if err := x.Print(&b, tt.markdown); err != nil || b.String() != tt.want {
			t.Errorf("markdown %t: %q, %v", tt.markdown, b.String(), err)
		}
	}
}
