package storetest

import (
	"cmp"
	"slices"
	"time"

	"github.com/slidegate/slidegate/core"
)

// Unit is an entry of the plain list: Weight units that count from Made until
// Release, at which instant they no longer do.
type Unit struct {
	Made    core.Instant
	Release core.Instant
	Weight  int64
	Pending core.ReservationID // zero: final
}

// Worst returns the most units that were made within any half-open window
// (t-window, t]. It needs the instants and weights alone, so it also judges
// limiters that are no slidegate stores. It sorts, then scans each window that
// ends at a unit.
func Worst(units []Unit, window time.Duration) int64 {
	byTime := slices.Clone(units)
	slices.SortFunc(byTime, func(a, b Unit) int { return cmp.Compare(a.Made, b.Made) })
	var worst int64
	for i, end := range byTime {
		var sum int64
		for j := i; j >= 0 && byTime[j].Made > end.Made.Add(-window); j-- {
			sum += byTime[j].Weight
		}
		worst = max(worst, sum)
	}
	return worst
}
