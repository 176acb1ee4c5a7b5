package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/slidegate/slidegate/core"
)

// differ says in which fields an answer is wrong; "" if in none.
func differ(got, want answer) string {
	if got == want {
		return ""
	}
	var faults []string
	field := func(name string, got, want any) {
		if got != want {
			faults = append(faults, fmt.Sprintf("%s is %v, want %v", name, got, want))
		}
	}
	field("Done", got.done, want.done)
	field("Used", got.used, want.used)
	field("OldestLeaves", relative(got.oldest, got.at), relative(want.oldest, got.at))
	field("FitsAt", relative(got.fits, got.at), relative(want.fits, got.at))
	return strings.Join(faults, ", ")
}

// relative writes an instant as its distance from At, which is easier to read.
func relative(t, at core.Instant) string {
	if t == 0 {
		return "none"
	}
	return fmt.Sprintf("At%+v", time.Duration(t-at)*time.Microsecond)
}

// describe names what was asked.
func describe(x *core.Part) string {
	s := fmt.Sprintf("%s %v", x.Counter.Algorithm, time.Duration(x.Counter.Window)*time.Microsecond)
	if x.Counter.Algorithm != core.Exact {
		s += fmt.Sprintf(" in %d slots", x.Counter.Slots)
	}
	if x.Counter.Algorithm == core.Hybrid {
		s += fmt.Sprintf(", hot from %d", x.HotFrom)
	}
	s += fmt.Sprintf(", N %d, cost %d", x.N, x.Cost)
	if x.Reserved > 0 {
		s += fmt.Sprintf(" for %d reserved at %d", x.Reserved, x.ReservedAt)
	}
	if x.Watched {
		s += ", watched"
	}
	return fmt.Sprintf("%s, At %d", s, x.At)
}

func span(lo, hi core.Instant) string {
	if lo == hi {
		return fmt.Sprint(lo)
	}
	return fmt.Sprintf("%d to %d", lo, hi)
}

// list writes the first units of a list.
func list(units []Unit) string {
	const most = 12
	var b strings.Builder
	fmt.Fprintf(&b, "%d entries [", len(units))
	for i, u := range units {
		if i == most {
			b.WriteString(" …")
			break
		}
		fmt.Fprintf(&b, " %d until %d", u.Weight, u.Release)
		if u.Pending != (core.ReservationID{}) {
			b.WriteString(" pending")
		}
	}
	b.WriteString(" ]")
	return b.String()
}
