package storetest

import (
	"time"

	"github.com/slidegate/slidegate/core"
)

func clockChecks() []check {
	return []check{
		stepped("ClockThatStepsBackGoesOnFromTheLastUnit", stepBack, shapes()...),
		stepped("TimeStandsStillForNobodyAfterAStepBack", goesOn, shapes()...),
		stepped("ClockThatAlternatesMintsNothing", alternates, shapes()...),
		stepped("StepForwardThatIsUndoneBlocksNobodyLonger", undone, shapes()...),
		stepped("RefusalAndPeekKeepTheDifference", keepsDifference, shapes()...),
		stepped("RefusalAndPeekDoNotMoveTheTimeOfTheKey", refusalsUnseen, shapes()...),
		stepped("ReservationMovesTheTimeOfTheKey", reservationSeen, shapes()...),
		stepped("ResetForgetsTheDifference", resetDifference, shapes()...),
		stepped("IdleKeyAfterAStepBack", idleStep, shapes()...),
		stepped("LimitsOfOneCallKeepTimesOfTheirOwn", ownTimes, shapes()...),
	}
}

// stepped is a check for clocks that can be set.
func stepped(name string, run func(s *stage, sh shape), shapes ...shape) check {
	return named(name, func(s *stage, sh shape) {
		if s.h.Step == nil {
			s.Skip("the clock of this store cannot be stepped")
		}
		run(s, sh)
	}, shapes...)
}

// stepBack has hits at 100, 101 and 102 s; then the clock reads 50, 57.999 and 58 s.
func stepBack(s *stage, sh shape) {
	l := s.limit("limit", sh, 3, 10*sec)
	s.align(l)
	s.play(l, row{left: 2}, row{after: sec, left: 1}, row{after: sec, left: 0})
	if sh.exact() {
		s.play(l, row{step: -52 * sec, refused: true, wait: 8 * sec}, row{after: 7999 * ms, refused: true, wait: ms},
			row{after: ms, left: 0}, row{refused: true, wait: sec})
	}
	s.play(l, row{step: -52 * sec, exact: true, refused: true}, row{after: 20 * sec, exact: true, left: 2})
}

// goesOn steps back in mid-window and back again, far and near.
func goesOn(s *stage, sh shape) {
	for _, back := range []time.Duration{us, ms, sec, 9 * sec, 10 * sec, 11 * sec, time.Hour, 400 * 24 * time.Hour} {
		l := s.rawLimit("back"+back.String(), sh, 2, 10*sec)
		s.take(1, l)
		s.advance(3 * sec)
		s.take(1, l)
		s.step(-back)
		x := s.take(1, l).Parts[0]
		wait := x.FitsAt.Sub(x.At)
		if slots := time.Duration(l.SlotSize) * us; x.Done || wait <= 0 || wait > 10*sec+2*slots {
			s.wrong("after %v back: admitted is %v, the wait is %v", back, x.Done, wait)
		}
		s.advance(wait - us)
		s.take(1, l)
		s.advance(us)
		if !s.take(1, l).Parts[0].Done {
			s.wrong("after %v back, refused at the end of the wait", back)
		}
	}
}

func alternates(s *stage, sh shape) {
	l := s.rawLimit("limit", sh, 5, 10*sec)
	var last core.Instant
	for i := range 60 {
		s.step(time.Duration(1-i%2*2) * 7 * sec) // 7 s forward, 7 s back
		x := s.take(1, l).Parts[0]
		if x.Done && x.At < last {
			s.wrong("a unit was admitted at %d, after one at %d", x.At, last)
		}
		if x.Done {
			last = x.At
		}
		s.advance(10 * ms)
	}
	if err := s.oracle.CheckWindows(); err != nil {
		s.Fatalf("%v", err)
	}
}

func undone(s *stage, sh shape) {
	for _, forward := range []time.Duration{sec, 5 * sec, time.Hour} {
		l := s.rawLimit("forward"+forward.String(), sh, 3, 10*sec)
		s.take(2, l)
		s.step(forward)
		s.take(1, l)
		s.take(3, l)
		s.step(-forward)
		x := s.take(3, l).Parts[0]
		slots := time.Duration(l.SlotSize*int64(l.Slots+1)) * us
		if wait := x.FitsAt.Sub(x.At); wait > max(slots, 10*sec) {
			s.wrong("after %v forward and back, the wait is %v", forward, wait)
		}
		s.advance(x.FitsAt.Sub(x.At))
		if !s.take(3, l).Parts[0].Done {
			s.wrong("after %v forward and back, refused at the end of the wait", forward)
		}
	}
}

// keepsDifference lets a refusal or a peek be the first to see the step.
func keepsDifference(s *stage, sh shape) {
	for _, op := range []core.Op{core.OpTake, core.OpPeek, core.OpReserve} {
		l := s.rawLimit(op.String(), sh, 1, 10*sec)
		first := s.take(1, l).Parts[0]
		s.step(-time.Hour)
		s.call(op, 1, l)
		s.advance(4 * sec)
		if x := s.call(op, 1, l).Parts[0]; x.At != first.At.Add(4*sec) {
			s.wrong("%s: 4 s later the key's time is %v on, want 4s", op, x.At.Sub(first.At))
		}
		s.step(-time.Hour) // once more
		s.call(op, 1, l)
		s.advance(4 * sec)
		s.call(op, 1, l)
	}
}

// refusalsUnseen refuses late in the window, then steps back to where only the
// refusal's instant would count as seen.
func refusalsUnseen(s *stage, sh shape) {
	for _, op := range []core.Op{core.OpTake, core.OpPeek, core.OpReserve, core.OpCancel, core.OpCommit} {
		l := s.rawLimit(op.String(), sh, 1, 10*sec)
		first := s.take(1, l).Parts[0]
		s.advance(6 * sec)
		s.call(op, 1, l)
		s.step(-3 * sec)
		if x := s.peek(1, l).Parts[0]; x.At != first.At.Add(3*sec) {
			s.wrong("%s: the key's time is %v after its unit, want 3s", op, x.At.Sub(first.At))
		}
	}
}

// reservationSeen cancels the reservation that the key saw last: its time stays.
func reservationSeen(s *stage, sh shape) {
	l := s.rawLimit("limit", sh, 5, 10*sec)
	s.take(1, l)
	s.advance(3 * sec)
	r := s.call(core.OpReserve, 1, l)
	s.advance(sec)
	s.end(core.OpCancel, r, 0)
	s.step(-time.Minute)
	if x := s.peek(1, l).Parts[0]; x.At != r.Parts[0].At {
		s.wrong("the key's time is %v after the reservation, want 0s", x.At.Sub(r.Parts[0].At))
	}
}

func resetDifference(s *stage, sh shape) {
	l := s.rawLimit("limit", sh, 2, 10*sec)
	s.take(2, l)
	s.step(-time.Hour)
	s.take(1, l)
	s.call(core.OpReset, 1, l)
	if x := s.take(2, l).Parts[0]; x.At != s.h.Now() {
		s.wrong("after a reset the key's time is %v from the clock, want 0s", x.At.Sub(s.h.Now()))
	}
	s.advance(sec)
	s.take(1, l)
}

// idleStep steps back while every unit is dead: the key may be forgotten or not.
func idleStep(s *stage, sh shape) {
	for _, idle := range []time.Duration{10 * sec, 12 * sec, 21 * sec, time.Hour} {
		l := s.rawLimit("idle"+idle.String(), sh, 3, 10*sec)
		s.take(3, l)
		s.advance(idle)
		s.step(-8 * sec)
		s.take(3, l)
		s.advance(5 * sec)
		s.take(1, l)
		s.advance(15 * sec)
		s.take(3, l)
	}
}

func ownTimes(s *stage, sh shape) {
	a := s.rawLimit("a", sh, 5, 10*sec)
	b := s.rawLimit("b", shape{}, 5, 10*sec)
	s.take(1, a)
	s.step(-time.Minute)
	s.take(1, b)
	s.advance(sec)
	c := s.take(1, a, b)
	if ahead := c.Parts[0].At.Sub(c.Parts[1].At); ahead != 59*sec {
		s.wrong("the times of the two limits are %v apart, want 59s", ahead)
	}
	s.step(-10 * sec)
	s.take(1, b, a)
	s.advance(8 * sec)
	s.take(3, a, b)
}
