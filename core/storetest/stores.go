package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

func storeChecks() []check {
	return []check{
		named("PeekCountsNothing", peeks, shapes()...),
		named("InstancesShareTheCounts", shared, shapes()...),
		named("AnotherInstanceEndsAReservation", endsElsewhere, shapes()...),
		named("ManyUnitsOfOneKey", manyUnits, shapes()...),
		named("ManyKeys", manyKeys),
		named("ManyLimitsInOneCall", manyLimits),
	}
}

func callChecks() []check {
	return []check{
		{name: "EndedContextDoesNotHang", run: endedContext},
		{name: "ClosedStoreSaysSo", run: closed},
	}
}

func peeks(s *stage, sh shape) {
	l := s.limit("limit", sh, 5, 60*sec)
	for range 3 {
		for cost := range int64(7) {
			s.peek(cost+1, l)
		}
		s.take(1, l)
	}
	s.uses(l, 3, "after 21 peeks and 3 takes")
}

// shared sends every call of one question to another instance.
func shared(s *stage, sh shape) {
	l := s.limit("limit", sh, 3*instances, 60*sec)
	s.align(l)
	for i := range 3 * instances {
		if !s.take(1, l).Parts[0].Done {
			s.wrong("call %d of %d was refused", i+1, 3*instances)
		}
	}
	for range instances {
		if s.take(1, l).Parts[0].Done {
			s.wrong("an instance admitted more than N")
		}
	}
}

func endsElsewhere(s *stage, sh shape) {
	l := s.limit("limit", sh, 5, 60*sec)
	r := s.call(core.OpReserve, 3, l)
	for range instances - 1 {
		s.uses(l, 3, "on each instance")
	}
	s.done(s.end(core.OpCancel, r, 0), true, "on another instance")
	for range instances {
		s.uses(l, 0, "after the cancel")
	}
	s.call(core.OpReserve, 2, l)
	s.call(core.OpReset, 1, l)
	for range instances {
		s.uses(l, 0, "after the reset")
	}
}

// manyUnits fills a window with units of their own instants, lets them leave in
// parts, and asks for waits in between.
func manyUnits(s *stage, sh shape) {
	const n = 160
	l := s.limit("limit", sh, n, 60*sec)
	for range 2 {
		for range n / 2 {
			s.take(1, l)
			s.take(1, l)
			s.advance(s.scaled(190 * ms))
		}
		for _, cost := range []int64{1, 7, n / 3, n} {
			s.peek(cost, l)
			s.take(cost, l)
		}
		s.advance(s.scaled(51 * sec))
		s.peek(n, l)
		s.take(20, l)
		s.advance(s.scaled(8 * sec))
	}
	s.advance(s.scaled(200 * sec))
	s.uses(l, 0, "long after")
}

// manyKeys gives each of many keys its own count and its own refusal.
func manyKeys(s *stage, _ shape) {
	l := s.limit("limit", shape{}, 2, 3600*sec)
	key := func(i int) *limit { return l.of(keyfunc.Name(fmt.Sprint("key ", i))) }
	for range 3 {
		for i := range 200 {
			s.take(1, key(i))
		}
	}
	s.call(core.OpReset, 1, key(7))
	for i := range 200 {
		if x := s.peek(1, key(i)).Parts[0]; x.Done != (i == 7) {
			s.wrong("key %d: a unit fits is %v, used is %d", i, x.Done, x.Used)
		}
	}
}

func manyLimits(s *stage, _ shape) {
	var limits []*limit
	for i := range 24 {
		limits = append(limits, s.limit(fmt.Sprint("limit ", i), shapes()[i%len(shapes())], int64(30+i), 60*sec))
	}
	for range 16 {
		s.take(2, limits...)
		s.end(core.OpCorrect, s.call(core.OpReserve, 2, limits...), 1)
	}
	s.take(1, limits...)
	for _, l := range limits {
		s.uses(l, 30, "the least of 24 limits is full")
	}
}

func endedContext(tb testing.TB, open opener, _ shape) {
	s := newStage(tb, tb, open)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := &core.Call{Parts: []core.Part{s.limit("limit", shape{}, 5, 60*sec).part(1)}}
	prepare(c)
	answered := make(chan error, 1)
	go func() { answered <- s.stores[0].Do(ctx, c) }()
	select {
	case err := <-answered:
		// A store that needs nothing from elsewhere may answer all the same.
		if x := c.Parts[0]; err == nil && (!x.Done || x.Used != 1) {
			tb.Fatalf("an answer without an error is none: admitted is %v, used is %d", x.Done, x.Used)
		}
	case <-time.After(patience):
		tb.Fatalf("Do did not return though its context had ended")
	}
}

func closed(tb testing.TB, open opener, _ shape) {
	s := newStage(tb, tb, open)
	store := s.stores[0]
	c := &core.Call{Parts: []core.Part{s.limit("limit", shape{}, 5, 60*sec).part(1)}}
	for range 2 {
		if err := store.Close(); err != nil {
			tb.Fatalf("Close: %v", err)
		}
	}
	for _, op := range []core.Op{core.OpTake, core.OpPeek, core.OpReset} {
		c.Op = op
		prepare(c)
		if err := s.ask(store, c); !errors.Is(err, core.ErrClosed) {
			tb.Fatalf("%s after Close: the error is %v, want core.ErrClosed", op, err)
		}
	}
}
