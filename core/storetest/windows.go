package storetest

import (
	"slices"
	"time"

	"github.com/slidegate/slidegate/core"
)

const (
	sec = time.Second
	ms  = time.Millisecond
	us  = time.Microsecond
)

// script is a check that is a table: one limit and what happens to it.
type script struct {
	name   string
	n      int64
	window time.Duration
	rows   []row
}

func windowChecks() []check {
	var list []check
	for _, sc := range windowScripts() {
		list = append(list, named(sc.name, func(s *stage, sh shape) {
			l := s.limit("limit", sh, sc.n, sc.window)
			s.align(l)
			s.play(l, sc.rows...)
		}, shapes()...))
	}
	return append(list,
		named("UnitLeavesAtItsReleaseInstantNotBeforeOrAfter", releaseInstant, shapes()...),
		named("RefusalsAreNotCountedWhenTheLimitIsRaised", raisedLimit, shapes()...),
		named("LoweredLimitKeepsTheCount", loweredLimit, shapes()...),
		named("ChangedWindowStartsAnew", changedWindow, shapes()...),
		named("IdleSlotsDoNotComeBack", idleSlots, shapes()...),
		named("SubSecondWindows", subSecond, shapes()...),
		named("BurstsOnBothSidesOfASlotEdge", slotEdges, shapes()...),
		named("SlotLivesUntilItsLastUnitLeaves", slotLives, shapes()...),
		named("WhatRemainsCanBeTaken", remaining, shapes()...),
		named("CostAboveTheLimitNeverFits", aboveLimit, shapes()...),
		named("HotFromIsTheLastUseCountedBySlot", hotFrom, shape{core.Hybrid, 10}),
		named("ClockWithFewMicroseconds", fewMicroseconds, shapes()...),
		named("WindowOfAYear", year, shapes()...),
	)
}

func windowScripts() []script {
	return []script{
		{"SameInstantUnitsAreEachCounted", 5, 60 * sec, []row{
			{left: 4}, {left: 3}, {left: 2}, {left: 1}, {left: 0},
			{times: 95, refused: true}, {refused: true, wait: 60 * sec, exact: true},
		}},
		{"DeadUnitsLeave", 3, sec, []row{
			{times: 3}, {after: 999 * ms, refused: true}, {after: ms, left: 2, exact: true}, {after: 2 * sec, left: 2},
		}},
		{"UnitOfOneWindowAgoNoLongerCounts", 1, 10 * sec, []row{
			{left: 0}, {after: 9999 * ms, refused: true, wait: ms, exact: true},
			{after: ms - us, refused: true, wait: us, exact: true}, {after: us, left: 0, exact: true},
		}},
		{"UnitJustInsideTheWindowStillCounts", 3, sec, []row{
			{left: 2}, {left: 1}, {after: 999 * ms, left: 0}, {refused: true, wait: ms, exact: true},
			{after: ms, left: 1, exact: true}, {left: 0, exact: true}, {refused: true, wait: 999 * ms, exact: true},
		}},
		{"CostIsComparedWithTheRoomLeft", 10, 60 * sec, []row{
			{cost: 8, left: 2}, {cost: 3, refused: true, left: 2}, {cost: 2, left: 0}, {cost: 1, refused: true},
		}},
		{"WaitCountsEveryUnitThatMustLeave", 10, 60 * sec, []row{
			{cost: 4, left: 6}, {after: 10 * sec, cost: 4, left: 2}, {after: 10 * sec, cost: 2, left: 0},
			{after: 10 * sec, cost: 7, refused: true, wait: 40 * sec, exact: true},
			{cost: 4, refused: true, wait: 30 * sec, exact: true}, {cost: 10, refused: true, wait: 50 * sec, exact: true},
		}},
		{"WaitIsUntilTheFirstUnitLeavesNotTheWholeWindow", 10, 60 * sec, []row{
			{left: 9}, {after: 2 * sec, left: 8}, {after: 2 * sec, left: 7}, {after: 2 * sec, left: 6},
			{after: 2 * sec, left: 5}, {after: 2 * sec, left: 4}, {after: 2 * sec, left: 3}, {after: 2 * sec, left: 2},
			{after: 2 * sec, left: 1}, {after: 2 * sec, left: 0}, {after: 2 * sec, refused: true, wait: 40 * sec, exact: true},
		}},
		{"SteadyClientIsNeverRefused", 5, 10 * sec, slices.Repeat([]row{{after: 9 * sec, left: -1}}, 12)},
		{"NextWindowCountsThePreviousOne", 5, 60 * sec, []row{
			{after: 58700 * ms, times: 5}, {after: 1500 * ms, refused: true, wait: 58500 * ms, exact: true},
			{after: 58 * sec, refused: true}, {after: 500 * ms, left: 4, exact: true},
		}},
		{"OnlyTheRestPassesAroundTheEdgeOfAWindow", 10, 60 * sec, []row{
			{after: 59 * sec, times: 9}, {after: 2 * sec, left: 0}, {times: 9, refused: true},
			{refused: true, wait: 58 * sec, exact: true},
		}},
		{"RefusalDoesNotProlongItself", 2, 10 * sec, slices.Concat([]row{{times: 2}},
			slices.Repeat([]row{{after: sec, refused: true}}, 9), []row{{after: sec, left: 1, exact: true}})},
		{"NothingRemainsIsZeroNotLess", 5, 60 * sec, []row{
			{left: 4}, {left: 3}, {left: 2}, {left: 1}, {left: 0}, {refused: true}, {refused: true},
		}},
	}
}

// releaseInstant takes one unit and asks again around its release.
func releaseInstant(s *stage, sh shape) {
	s.virtual()
	for _, into := range []time.Duration{0, us, 123457 * us, 999999 * us} {
		l := s.rawLimit("into"+into.String(), sh, 1, 10*sec)
		s.align(l)
		s.advance(into)
		c := s.take(1, l)
		wait := l.Release(c.Parts[0].At, c.Parts[0].CountsExactly(1)).Sub(c.Parts[0].At)
		if wait < 10*sec {
			s.wrong("a unit would leave %v after it was made, within the window", wait)
		}
		s.advance(wait - us)
		if x := s.take(1, l).Parts[0]; x.Done || x.FitsAt != x.At+1 {
			s.wrong("1 µs before the release: admitted is %v, FitsAt is At%+d", x.Done, x.FitsAt-x.At)
		}
		s.advance(us)
		if !s.take(1, l).Parts[0].Done {
			s.wrong("refused at the release instant")
		}
	}
}

func raisedLimit(s *stage, sh shape) {
	l := s.limit("limit", sh, 5, 60*sec)
	s.align(l)
	s.play(l, row{times: 5}, row{times: 20, refused: true})
	s.advance(s.scaled(sec))
	s.play(l.with(10), row{left: 4}, row{left: 3}, row{left: 2}, row{left: 1}, row{left: 0},
		row{refused: true, wait: 59 * sec, exact: true})
}

func loweredLimit(s *stage, sh shape) {
	l := s.limit("limit", sh, 10, 60*sec)
	s.play(l, row{times: 6})
	s.play(l.with(8), row{left: 1})
	s.play(l.with(3), row{refused: true, left: 0}, row{cost: 3, refused: true, left: 0})
	if x := s.peek(3, l.with(3)).Parts[0]; x.Used != 7 || x.FitsAt == 0 {
		s.wrong("Used is %d, want 7; FitsAt is %d, want an instant", x.Used, x.FitsAt)
	}
	s.play(l, row{cost: 3, left: 0})
}

func changedWindow(s *stage, sh shape) {
	a := s.limit("limit", sh, 10, 60*sec)
	b := s.limit("limit", sh, 10, 30*sec)
	s.play(a, row{times: 6})
	s.play(b, row{left: 9})
	for _, other := range shapes() {
		if other != sh {
			s.play(s.limit("limit", other, 10, 60*sec), row{left: 9})
		}
	}
	s.play(a, row{left: 3})
}

// idleSlots leaves a full key alone for numbers of slots at which a ring of n or
// n+1 slots is back where it was.
func idleSlots(s *stage, sh shape) {
	n := max(sh.slots, 1)
	for _, idle := range []int{n, n + 1, n + 2, 2 * n, 2*n + 1, 2*n + 2, 3 * (n + 1), 10 * n * (n + 1)} {
		l := s.limit("limit", sh, 5, 10*sec)
		size := s.scaled(10 * sec)
		if l.SlotSize > 0 {
			size = time.Duration(l.SlotSize) * us
		}
		if s.h.Live && time.Duration(idle)*size > 200*ms {
			continue
		}
		s.align(l)
		s.advance(s.scaled(sec))
		s.play(l, row{times: 5}, row{refused: true})
		s.advance(time.Duration(idle) * size)
		x := s.take(1, l).Parts[0]
		if idle > n+1 && (!x.Done || x.Used != 1) {
			s.wrong("idle for %d slots of %d: admitted is %v, used is %d, want true and 1", idle, n, x.Done, x.Used)
		}
		s.advance(s.scaled(30 * sec))
	}
}

func subSecond(s *stage, sh shape) {
	for _, w := range []time.Duration{ms, 10 * ms, 300 * ms, 999 * ms, 1001 * ms} {
		if s.h.Live && w > 50*ms {
			continue // nothing that waiting for it would add
		}
		l := s.rawLimit("limit", sh, 5, w)
		s.align(l)
		for range 5 {
			s.take(1, l)
		}
		x := s.take(1, l).Parts[0]
		slots := time.Duration(l.SlotSize*int64(l.Slots+1)) * us
		if wait := x.FitsAt.Sub(x.At); x.Done || wait < w || wait > max(w, slots) {
			s.wrong("window %v: admitted is %v, the wait is %v, want at least the window and at most %v", w, x.Done, wait, max(w, slots))
		}
		x = s.peek(5, l).Parts[0]
		s.advance(x.FitsAt.Sub(x.At))
		if x := s.take(5, l).Parts[0]; !x.Done {
			s.wrong("window %v: refused after the wait", w)
		}
		s.advance(2*w + 2*time.Duration(l.SlotSize)*us)
	}
}

// slotEdges sends bursts late in one slot and early in another, a window apart
// or less: the case that n slots, or weighting the oldest, gets wrong.
func slotEdges(s *stage, sh shape) {
	l := s.limit("limit", sh, 10, 10*sec)
	s.align(l)
	size := max(time.Duration(l.SlotSize)*us, s.scaled(sec))
	s.advance(size - s.scaled(ms))
	s.play(l, row{cost: 10})
	for i := range 2 * (l.Slots + 1) {
		s.advance(s.scaled(2 * ms)) // just into the next slot
		s.take(10, l)
		s.take(1, l)
		s.advance(size / 2)
		s.take(int64(i%3+1), l)
		s.advance(size - size/2 - s.scaled(2*ms))
		s.take(2, l)
	}
	if err := s.oracle.CheckWindows(); err != nil {
		s.Fatalf("%v", err)
	}
}

func slotLives(s *stage, sh shape) {
	l := s.limit("limit", sh, 100, 60*sec)
	s.align(l)
	s.advance(s.scaled(sec))
	s.take(40, l)
	s.advance(s.scaled(500 * ms))
	s.take(60, l)
	for range 40 { // past the last release of each shape, in uneven steps
		s.advance(s.scaled(3300 * ms))
		s.peek(41, l)
	}
	s.take(100, l)
}

func remaining(s *stage, sh shape) {
	s.virtual() // the window must not move between the calls
	l := s.rawLimit("limit", sh, 20, 60*sec)
	for _, pass := range []time.Duration{0, 7 * sec, 11 * sec, 30 * sec, 13 * sec, 29 * sec} {
		s.advance(pass)
		x := s.take(3, l).Parts[0]
		left := x.N - x.Used
		for i := range left {
			if !s.take(1, l).Parts[0].Done {
				s.wrong("%d remained, but call %d was refused", left, i+1)
			}
		}
		if s.take(1, l).Parts[0].Done {
			s.wrong("%d remained, but one more passed", left)
		}
		s.advance(pass)
	}
}

func aboveLimit(s *stage, sh shape) {
	l := s.limit("limit", sh, 5, 60*sec)
	for _, used := range []int64{0, 1, 4} {
		s.take(max(used, 1), l)
		for _, cost := range []int64{6, 7, 1 << 40, core.MaxUnits} {
			for _, op := range []core.Op{core.OpTake, core.OpReserve, core.OpPeek} {
				if x := s.call(op, cost, l).Parts[0]; x.Done || x.FitsAt != 0 {
					s.wrong("%s of %d with N 5: admitted is %v, FitsAt is %d, want false and 0", op, cost, x.Done, x.FitsAt)
				}
			}
		}
	}
}

// hotFrom books up to the threshold in a slot and above it exactly.
func hotFrom(s *stage, sh shape) {
	s.virtual()
	l := s.rawLimit("limit", sh, 10, 10*sec)
	l.hot = 4
	s.align(l)
	s.advance(300 * ms)
	s.take(4, l)
	s.advance(ms)
	s.take(1, l)
	x := s.peek(10, l).Parts[0]
	if slot := x.OldestLeaves.Sub(x.At); slot != 10*sec {
		s.wrong("the unit above the threshold leaves after %v, want 10s", slot)
	}
	if wait := x.FitsAt.Sub(x.At); wait != 11*sec-301*ms {
		s.wrong("the slot leaves after %v, want %v", wait, 11*sec-301*ms)
	}
}

func fewMicroseconds(s *stage, sh shape) {
	s.virtual()
	for _, into := range []time.Duration{0, us, 42 * us, 99999 * us, 100000 * us} {
		l := s.rawLimit("into"+into.String(), sh, 2, 10*sec)
		s.advance(sec - time.Duration(int64(s.h.Now())%1e6)*us + into)
		s.take(1, l)
		s.advance(sec - into) // from one whole second to the next
		s.take(1, l)
		s.advance(999999 * us)
		s.take(1, l)
	}
}

func year(s *stage, sh shape) {
	s.virtual()
	for _, w := range []time.Duration{365 * 24 * time.Hour, core.MaxWindow} {
		l := s.rawLimit("limit", sh, 1, w)
		s.take(1, l)
		s.advance(w - us)
		if s.take(1, l).Parts[0].Done {
			s.wrong("window %v: a second unit passed within it", w)
		}
		x := s.peek(1, l).Parts[0]
		s.advance(x.FitsAt.Sub(x.At))
		if !s.take(1, l).Parts[0].Done {
			s.wrong("window %v: refused after it", w)
		}
	}
}
