package storetest

import (
	"github.com/slidegate/slidegate/core"
)

func totalChecks() []check {
	few := []shape{{}, {core.Slotted, 10}, {core.Hybrid, 10}}
	return []check{
		named("LargestLimitCountsToTheUnit", largestLimit, few...),
		named("CountsStayExactFarAboveTheLimit", farAbove, few...),
		named("RunningTotalsStayExactWhenTheyWrap", wraps, few...),
	}
}

func largestLimit(s *stage, sh shape) {
	l := s.limit("limit", sh, core.MaxUnits, 60*sec)
	s.align(l)
	s.play(l, row{cost: core.MaxUnits - 2, left: 2}, row{cost: 3, refused: true, left: 2}, row{left: 1},
		row{cost: core.MaxUnits, refused: true, left: 1}, row{left: 0}, row{refused: true})
	for _, n := range []int64{1 << 31, 1<<31 - 1, 1 << 32, 1<<32 + 1, 1 << 48} {
		l := s.limit("limit", sh, n, 61*sec).with(n)
		l.Counter = s.limit(string('a'+rune(n%26)), sh, n, 61*sec).Counter
		s.play(l, row{cost: n - 1, left: 1}, row{cost: 2, refused: true, left: 1}, row{left: 0}, row{refused: true})
		s.call(core.OpReset, 1, l)
	}
}

// farAbove corrects upwards, in time and late, until the use reaches MaxUsed.
func farAbove(s *stage, sh shape) {
	s.virtual()
	target := s.h.maxUsed()
	l := s.rawLimit("limit", sh, core.MaxUnits, 60*sec)
	var held []*core.Call
	for range 8 {
		held = append(held, s.call(core.OpReserve, 1, l))
	}
	used := s.used(l)
	for i := 0; used <= target-core.MaxUnits; i++ {
		r := held[i%len(held)] // from the second round on they come late
		x := s.end(core.OpCorrect, r, core.MaxUnits-int64(i%3)).Parts[0]
		if x.Used <= used {
			s.wrong("correction %d left the use at %d, it was %d", i, x.Used, used)
		}
		used = x.Used
		if i%5 == 0 {
			s.advance(ms)
		}
	}
	s.take(1, l)
	s.take(core.MaxUnits, l)
	s.advance(60*sec - 2*ms)
	for range 8 { // in parts
		x := s.peek(core.MaxUnits, l).Parts[0]
		s.advance((x.FitsAt.Sub(x.At) / 2).Truncate(us))
	}
	x := s.take(core.MaxUnits, l).Parts[0]
	s.advance(x.FitsAt.Sub(x.At))
	s.take(core.MaxUnits, l)
	s.uses(l, core.MaxUnits, "when all the excess has left")
}

// wraps fills the window over and over without ever leaving it empty.
func wraps(s *stage, sh shape) {
	s.virtual()
	l := s.rawLimit("limit", sh, core.MaxUnits, sec)
	s.take(7, l)
	for i := range s.h.filled() {
		s.advance(500 * ms)
		big := int64(core.MaxUnits - 7)
		x := s.take(big, l).Parts[0]
		if !x.Done {
			s.advance(x.FitsAt.Sub(x.At))
			if !s.take(big, l).Parts[0].Done {
				s.wrong("round %d: refused at the end of the wait", i)
			}
		}
		x = s.peek(7, l).Parts[0]
		s.advance(x.FitsAt.Sub(x.At))
		s.take(8, l)
		s.take(7, l)
	}
}
