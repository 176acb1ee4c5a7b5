package storetest

import (
	"time"

	"github.com/slidegate/slidegate/core"
)

// row is one call of a script and what must come of it. The oracle judges the
// call anyway; what the rows say was worked out by hand.
type row struct {
	after time.Duration // passes before the call
	step  time.Duration // by which the clock is set before the call
	cost  int64         // 0 means 1
	times int           // 0 means once

	refused bool
	left    int64         // what remains after the call; -1: not said
	wait    time.Duration // until the cost fits, of a refused call; 0: not said
	// exact says that the expectation holds where each unit is counted with its
	// own instant; slots may refuse later calls.
	exact bool
}

// play runs the rows as takes of one limit.
func (s *stage) play(l *limit, rows ...row) {
	s.Helper()
	for i, r := range rows {
		if r.step != 0 {
			s.step(s.scaled(r.step))
		}
		s.advance(s.scaled(r.after))
		for range max(r.times, 1) {
			c := s.take(max(r.cost, 1), l)
			if s.h.Live || r.exact && l.Algorithm != core.Exact {
				continue // the oracle's judgement is all there is
			}
			s.expect(i, r, &c.Parts[0])
		}
	}
}

func (s *stage) expect(i int, r row, x *core.Part) {
	s.Helper()
	if x.Done == r.refused {
		s.wrong("row %d: admitted is %v, want %v (%s)", i, x.Done, !r.refused, describe(x))
	}
	if left := max(0, x.N-x.Used); r.times <= 1 && r.left >= 0 && left != r.left {
		s.wrong("row %d: %d units remain, want %d (%s)", i, left, r.left, describe(x))
	}
	if wait := x.FitsAt.Sub(x.At); r.wait != 0 && wait != r.wait {
		s.wrong("row %d: the wait is %v, want %v (%s)", i, wait, r.wait, describe(x))
	}
}
