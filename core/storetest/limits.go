package storetest

import (
	"fmt"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

func limitChecks() []check {
	return []check{
		named("RefusingLimitLeavesTheOthersUncharged", noneCharged, shapes()...),
		named("EveryViolatedLimitIsNamed", everyViolated, shapes()...),
		named("SeveralLimitsAreReservedTogetherOrNotAtAll", noneReserved, shapes()...),
		named("WatchedLimitRefusesNothing", watched, shapes()...),
		named("WatchedLimitTakesNothingInARefusedCall", watchedRefused, shapes()...),
		named("TwoPeriodsOfOneKeyCountApart", twoPeriods, shapes()...),
		named("AlgorithmsMixInOneCall", mixed),
		named("LimitsOfDifferentKeysInOneCall", differentKeys, shapes()...),
		named("KeysLimitsAndLimitersCountApart", apart, shapes()...),
		named("EachLimitTakesItsOwnCost", ownCosts, shapes()...),
	}
}

// noneCharged puts the smaller limit first and last.
func noneCharged(s *stage, sh shape) {
	for _, order := range []string{"small first", "small last"} {
		a := s.limit("a "+order, sh, 10, 60*sec)
		b := s.limit("b "+order, sh, 2, 60*sec)
		limits := []*limit{a, b}
		if order == "small first" {
			limits = []*limit{b, a}
		}
		for second := range 5 {
			admitted := Admitted(s.take(1, limits...))
			if want := second < 2; admitted != want {
				s.wrong("%s, call %d: admitted is %v, want %v", order, second, admitted, want)
			}
			s.advance(s.scaled(sec))
		}
		if ua, ub := s.used(a), s.used(b); ua != 2 || ub != 2 {
			s.wrong("%s: used is %d and %d, want 2 and 2", order, ua, ub)
		}
	}
}

func everyViolated(s *stage, sh shape) {
	a := s.limit("a", sh, 3, 60*sec)
	b := s.limit("b", sh, 3, 30*sec)
	c := s.limit("c", sh, 9, 60*sec)
	s.take(2, a, b, c)
	for _, op := range []core.Op{core.OpTake, core.OpReserve, core.OpPeek} {
		q := s.call(op, 2, a, c, b)
		for i, want := range []bool{false, true, false} {
			if q.Parts[i].Done != want {
				s.wrong("%s: part %d fits is %v, want %v", op, i, q.Parts[i].Done, want)
			}
		}
	}
	if used := s.used(c); used != 2 {
		s.wrong("the limit with room has %d used after refused calls, want 2", used)
	}
}

func noneReserved(s *stage, sh shape) {
	a := s.limit("a", sh, 10, 60*sec)
	b := s.limit("b", sh, 2, 60*sec)
	held := s.call(core.OpReserve, 2, a, b)
	refused := s.call(core.OpReserve, 2, a, b)
	if ua := s.used(a); ua != 2 {
		s.wrong("a refused reservation holds units: used is %d, want 2", ua)
	}
	for i, x := range s.end(core.OpCommit, refused, 0).Parts {
		if x.Done {
			s.wrong("a refused reservation could be committed on part %d", i)
		}
	}
	s.end(core.OpCommit, held, 0)
	if ua, ub := s.used(a), s.used(b); ua != 2 || ub != 2 {
		s.wrong("after the commit, used is %d and %d, want 2 and 2", ua, ub)
	}
}

// watchedCall marks the parts of one limit as watched.
func (s *stage) watchedCall(op core.Op, cost int64, watched *limit, limits ...*limit) *core.Call {
	c := &core.Call{Op: op, ID: newID()}
	for _, l := range append([]*limit{watched}, limits...) {
		c.Parts = append(c.Parts, l.part(cost))
	}
	c.Parts[0].Watched = true
	return s.do(c)
}

func watched(s *stage, sh shape) {
	for _, op := range []core.Op{core.OpTake, core.OpReserve} {
		small := s.limit("small "+op.String(), sh, 2, 60*sec)
		large := s.limit("large "+op.String(), sh, 5, 60*sec)
		for i := range 5 {
			if !Admitted(s.watchedCall(op, 1, small, large)) {
				s.wrong("%s %d was refused by a watched limit", op, i)
			}
		}
		s.watchedCall(op, 1, small) // alone
		if us, ul := s.used(small), s.used(large); us != 2 || ul != 5 {
			s.wrong("%s: used is %d and %d, want 2 (watched) and 5", op, us, ul)
		}
	}
}

func watchedRefused(s *stage, sh shape) {
	seen := s.limit("watched", sh, 9, 60*sec)
	l := s.limit("enforced", sh, 1, 60*sec)
	for range 3 {
		s.watchedCall(core.OpTake, 1, seen, l)
		s.watchedCall(core.OpReserve, 1, seen, l)
	}
	if used := s.used(seen); used != 1 {
		s.wrong("used is %d, want the 1 of the only call that passed", used)
	}
}

func twoPeriods(s *stage, sh shape) {
	minute := s.limit("limit", sh, 10, 60*sec)
	hour := s.limit("limit", sh, 30, 3600*sec)
	for range 10 {
		s.take(1, minute)
		s.take(1, hour)
	}
	if um, uh := s.used(minute), s.used(hour); um != 10 || uh != 10 {
		s.wrong("used is %d and %d, want 10 and 10", um, uh)
	}
	s.advance(s.scaled(5 * sec))
	s.take(1, minute, hour)
	s.advance(s.scaled(70 * sec))
	s.take(1, hour, minute)
}

func mixed(s *stage, _ shape) {
	var limits []*limit
	for i, sh := range shapes() {
		limits = append(limits, s.limit(fmt.Sprint(i), sh, int64(4+i%3), 10*sec))
	}
	for i := range 60 {
		s.take(int64(1+i%2), limits...)
		s.advance(s.scaled(sec * 7 / 10))
	}
}

func differentKeys(s *stage, sh shape) {
	user := s.limit("user", sh, 3, 60*sec)
	addr := s.limit("address", sh, 5, 60*sec).of(keyfunc.Name("address-1"))
	for i, user := range []*limit{user, user, user, user, user.of(keyfunc.User("other")), user.of(keyfunc.User("other")), user.of(keyfunc.User("third"))} {
		admitted := Admitted(s.take(1, user, addr))
		if want := i != 3 && i != 6; admitted != want {
			s.wrong("call %d: admitted is %v, want %v", i, admitted, want)
		}
	}
	// The same limit on two keys in one call.
	s.take(1, addr.of(keyfunc.Name("address-2")), addr.of(keyfunc.Name("address-3")), addr)
	if used := s.used(addr.of(keyfunc.Name("address-2"))); used != 0 {
		s.wrong("a key beside a full one was charged %d", used)
	}
}

func apart(s *stage, sh shape) {
	l := s.limit("limit", sh, 3, 60*sec)
	s.take(3, l)
	other := *s
	other.limiter += "-other"
	for name, m := range map[string]*limit{
		"key": l.of(keyfunc.User("someone else")), "kind of key": l.of(keyfunc.Name("someone")),
		"limit": s.limit("limit2", sh, 3, 60*sec), "limiter": other.limit("limit", sh, 3, 60*sec),
		"window": s.rawLimit("limit", sh, 3, s.scaled(60*sec)+us),
	} {
		if x := s.take(1, m).Parts[0]; !x.Done || x.Used != 1 {
			s.wrong("another %s shares the count: admitted is %v, used is %d", name, x.Done, x.Used)
		}
	}
}

func ownCosts(s *stage, sh shape) {
	requests := s.limit("requests", sh, 10, 60*sec)
	bytes := s.limit("bytes", sh, 1<<40, 60*sec)
	for range 4 {
		s.do(&core.Call{Parts: []core.Part{requests.part(1), bytes.part(1 << 38)}})
	}
	c := s.do(&core.Call{Parts: []core.Part{requests.part(1), bytes.part(1)}})
	if c.Parts[0].Used != 4 || c.Parts[1].Used != 1<<40 || Admitted(c) {
		s.wrong("used is %d and %d, admitted is %v, want 4, 2^40 and false", c.Parts[0].Used, c.Parts[1].Used, Admitted(c))
	}
}
