package storetest

import (
	"time"

	"github.com/slidegate/slidegate/core"
)

func reservationChecks() []check {
	return []check{
		named("PendingUnitsCountInFull", pendingCounts, shapes()...),
		named("ReservationLapsesAfterOneWindow", lapses, shapes()...),
		named("CommittedUnitsCountFromTheCommit", commitRestarts, shapes()...),
		named("CorrectionDownGivesBackTheRest", correctDown, shapes()...),
		named("CorrectionUpIsBookedAndWorkedOff", correctUp, shapes()...),
		named("ReservationEndsOnce", endsOnce, shapes()...),
		named("LateEndChangesNothingButTheExcess", lateEnds, shapes()...),
		named("RefundAfterTheWindowMintsNothing", lateRefund, shapes()...),
		named("EndAfterAResetChangesNothing", endAfterReset, shapes()...),
		named("ReservationsOfOneKeyAreTheirOwn", ownReservations, shapes()...),
		named("ResetForgetsEveryLimitWhole", resetWhole, shapes()...),
	}
}

// uses fails unless the use of the limit is as said. With a live clock the
// oracle has judged it.
func (s *stage) uses(l *limit, want int64, when string) {
	s.Helper()
	if used := s.used(l); used != want {
		s.wrong("%s: used is %d, want %d", when, used, want)
	}
}

// done fails unless all parts have Done as said.
func (s *stage) done(c *core.Call, want bool, when string) {
	s.Helper()
	for i, x := range c.Parts {
		if x.Done != want {
			s.wrong("%s: %s: Done of part %d is %v, want %v", when, c.Op, i, x.Done, want)
		}
	}
}

func pendingCounts(s *stage, sh shape) {
	l := s.limit("limit", sh, 5, 60*sec)
	s.align(l)
	s.call(core.OpReserve, 3, l)
	s.advance(s.scaled(sec))
	s.play(l, row{cost: 3, refused: true, left: 2, wait: 59 * sec}, row{cost: 2, left: 0})
	x := s.call(core.OpReserve, 1, l).Parts[0]
	if wait := x.OldestLeaves.Sub(x.At); x.Done || wait != 59*sec || x.FitsAt != x.OldestLeaves {
		s.wrong("over a full limit: admitted is %v, the oldest leaves after %v, want false and the pending's 59s", x.Done, wait)
	}
}

func lapses(s *stage, sh shape) {
	s.virtual()
	l := s.rawLimit("limit", sh, 5, 10*sec)
	s.align(l)
	s.advance(123 * ms)
	r := s.call(core.OpReserve, 5, l)
	s.advance(10*sec - us)
	s.play(l, row{refused: true, wait: us})
	s.advance(us)
	s.uses(l, 0, "one window after the reservation")
	s.done(s.end(core.OpCommit, r, 0), false, "lapsed")
	s.play(l, row{cost: 5, left: 0})
	for _, op := range []core.Op{core.OpCommit, core.OpCorrect, core.OpCancel} {
		l := s.rawLimit(op.String(), sh, 5, 10*sec)
		r := s.call(core.OpReserve, 2, l)
		s.advance(10*sec - us)
		s.done(s.end(op, r, 2), true, "1 µs before it lapses")
	}
}

func commitRestarts(s *stage, sh shape) {
	s.virtual()
	l := s.rawLimit("limit", sh, 5, 10*sec)
	s.align(l)
	r := s.call(core.OpReserve, 4, l)
	s.advance(6*sec + 500*ms)
	s.done(s.end(core.OpCommit, r, 0), true, "in time")
	s.uses(l, 4, "after the commit")
	s.advance(9 * sec)
	s.uses(l, 4, "9 s after the commit")
	s.play(l, row{cost: 2, refused: true, left: 1})
	s.advance(21 * sec)
	s.uses(l, 0, "30 s after the commit")
	if err := s.oracle.CheckWindows(); err != nil {
		s.Fatalf("%v", err)
	}
}

func correctDown(s *stage, sh shape) {
	for cost := range int64(6) {
		a := s.limit("a"+string('0'+rune(cost)), sh, 6, 60*sec)
		b := s.limit("b"+string('0'+rune(cost)), sh, 9, 60*sec)
		r := s.call(core.OpReserve, 5, a, b)
		s.advance(s.scaled(sec))
		s.done(s.end(core.OpCorrect, r, cost), true, "in time")
		s.uses(a, cost, "after the correction")
		s.uses(b, cost, "after the correction")
		s.play(a, row{cost: 7 - cost, refused: true, left: 6 - cost}, row{cost: 6 - cost, left: 0})
	}
}

func correctUp(s *stage, sh shape) {
	s.virtual()
	l := s.rawLimit("limit", sh, 5, 10*sec)
	s.align(l)
	s.take(2, l)
	r := s.call(core.OpReserve, 3, l)
	s.advance(sec)
	s.done(s.end(core.OpCorrect, r, 12), true, "in time")
	s.uses(l, 14, "after the correction")
	s.play(l, row{refused: true, left: 0}, row{cost: 5, refused: true, left: 0}, row{cost: 6, refused: true, left: 0})
	x := s.take(1, l).Parts[0]
	s.advance(x.FitsAt.Sub(x.At) - us)
	s.play(l, row{refused: true, left: 0})
	s.advance(us)
	s.play(l, row{left: -1})
	s.advance(30 * sec)
	s.play(l, row{cost: 5, left: 0})
}

func endsOnce(s *stage, sh shape) {
	ends := []core.Op{core.OpCommit, core.OpCorrect, core.OpCancel}
	left := map[core.Op]int64{core.OpCommit: 7, core.OpCorrect: 6, core.OpCancel: 4}
	for _, first := range ends {
		for _, second := range ends {
			name := first.String() + " " + second.String()
			l := s.limit(name, sh, 10, 60*sec)
			m := s.limit("other "+name, sh, 20, 60*sec)
			s.take(4, l, m)
			r := s.call(core.OpReserve, 3, l, m)
			s.done(s.end(first, r, 2), true, name)
			s.uses(l, left[first], name)
			for range 2 {
				s.done(s.end(second, r, 3), false, name)
				s.advance(s.scaled(ms))
			}
			s.uses(l, left[first], name+" twice")
			s.uses(m, left[first], name+" twice, the other limit")
		}
	}
}

func lateEnds(s *stage, sh shape) {
	for _, late := range []time.Duration{10 * sec, 11 * sec, 25 * sec, 60 * sec} {
		l := s.limit("late"+late.String(), sh, 10, 10*sec)
		r := s.call(core.OpReserve, 4, l)
		s.advance(s.scaled(late))
		for _, op := range []core.Op{core.OpCommit, core.OpCancel} {
			s.done(s.end(op, r, 0), false, "late")
		}
		for _, cost := range []int64{0, 1, 4} {
			s.done(s.end(core.OpCorrect, r, cost), false, "late")
		}
		s.uses(l, 0, "after late ends")
		s.take(8, l)
		s.done(s.end(core.OpCorrect, r, 15), false, "late")
		s.uses(l, 19, "after a late correction from 4 to 15")
		s.advance(s.scaled(40 * sec))
		s.uses(l, 0, "long after a late correction")
	}
}

// lateRefund gives units back after the window: then T, T, T, F.
func lateRefund(s *stage, sh shape) {
	for _, op := range []core.Op{core.OpCancel, core.OpCorrect} {
		l := s.limit(op.String(), sh, 3, 10*sec)
		r := s.call(core.OpReserve, 1, l)
		s.advance(s.scaled(30 * sec))
		s.end(op, r, 0)
		s.play(l, row{left: 2}, row{left: 1})
		s.end(op, r, 0) // into a newer window, too
		s.play(l, row{left: 0}, row{refused: true})
		s.end(op, r, 0)
		s.play(l, row{refused: true})
	}
}

func endAfterReset(s *stage, sh shape) {
	for _, op := range []core.Op{core.OpCommit, core.OpCorrect, core.OpCancel} {
		l := s.limit(op.String(), sh, 5, 60*sec)
		r := s.call(core.OpReserve, 3, l)
		s.call(core.OpReset, 1, l)
		s.take(4, l)
		s.done(s.end(op, r, 1), false, "after a reset")
		s.uses(l, 4, "after a reset")
	}
}

// ownReservations ends several of one instant and of one cost one by one.
func ownReservations(s *stage, sh shape) {
	l := s.limit("limit", sh, 10, 60*sec)
	var held []*core.Call
	for range 5 {
		held = append(held, s.call(core.OpReserve, 2, l))
	}
	s.play(l, row{refused: true})
	s.done(s.end(core.OpCancel, held[2], 0), true, "the third")
	s.uses(l, 8, "after one cancel")
	s.done(s.end(core.OpCommit, held[0], 0), true, "the first")
	s.done(s.end(core.OpCorrect, held[4], 1), true, "the fifth")
	s.uses(l, 7, "after three ends")
	s.done(s.end(core.OpCancel, held[1], 0), true, "the second")
	s.done(s.end(core.OpCancel, held[3], 0), true, "the fourth")
	s.uses(l, 3, "after five ends")
}

func resetWhole(s *stage, sh shape) {
	a := s.limit("a", sh, 5, 60*sec)
	b := s.limit("b", sh, 5, 30*sec)
	c := s.limit("c", sh, 5, 60*sec)
	s.take(3, a, b, c)
	s.call(core.OpReserve, 1, a, b)
	s.done(s.call(core.OpReset, 1, a, b), true, "reset")
	s.uses(a, 0, "after a reset, the first limit")
	s.uses(b, 0, "after a reset, the second limit")
	s.uses(c, 3, "a limit that was not reset")
	s.take(5, a, b)
	s.done(s.call(core.OpReset, 1, c), true, "reset")
	s.done(s.call(core.OpReset, 1, c), true, "reset of nothing")
	s.uses(a, 5, "after a reset of another limit")
	s.uses(c, 0, "after its reset")
}
