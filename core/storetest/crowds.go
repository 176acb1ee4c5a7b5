package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// goroutines is how many use a store at once.
const goroutines = 64

func crowdChecks() []check {
	few := []shape{{}, {core.Slotted, 10}, {core.Hybrid, 10}}
	return []check{
		named("CrowdGetsExactlyN", crowdExactlyN, few...),
		named("CrowdGetsAllLimitsOrNone", crowdAllOrNone, few...),
		named("CrowdOnManyKeys", crowdManyKeys, few...),
		named("CrowdFitsCostsOfManySizes", crowdCosts, few...),
		named("CrowdEndsAReservationOnce", crowdEnds, few...),
		named("CrowdWhileTimePasses", crowdMoving, few...),
	}
}

// crowd runs f on each goroutine, from a common start, with the store that is
// its own. It fails the stage with what f returns, and when f gets stuck.
func (s *stage) crowd(f func(g int, store core.Store) error) {
	s.Helper()
	var wg sync.WaitGroup
	start := make(chan struct{})
	errs := make([]error, goroutines)
	for g := range goroutines {
		wg.Go(func() {
			<-start
			errs[g] = f(g, s.stores[g%instances])
		})
	}
	close(start)
	finished := make(chan struct{})
	go func() { wg.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(4 * patience):
		s.Fatalf("goroutines are stuck in the store")
	}
	if err := errors.Join(errs...); err != nil {
		s.Fatalf("%v", err)
	}
}

// rounds is how many calls each goroutine makes.
func (s *stage) rounds() int { return max(2, s.h.calls()/goroutines) }

// tally sums what goroutines were given.
type tally struct {
	mu    sync.Mutex
	units map[any]int64
}

func (t *tally) add(key any, units int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.units == nil {
		t.units = make(map[any]int64)
	}
	t.units[key] += units
}

// attempt asks once, in a call that the goroutine uses again and again.
func (s *stage) attempt(store core.Store, c *core.Call) (bool, error) {
	prepare(c)
	if err := s.ask(store, c); err != nil {
		return false, err
	}
	return Admitted(c), nil
}

// peekUnchecked reads the use after a crowd: the oracle has not seen its calls.
func (s *stage) peekUnchecked(l *limit) int64 {
	s.Helper()
	c := &core.Call{Op: core.OpPeek, Parts: []core.Part{l.part(1)}}
	if _, err := s.attempt(s.stores[0], c); err != nil {
		s.Fatalf("%v", err)
	}
	return c.Parts[0].Used
}

// hour is a window that no crowd outlives, on a live clock too.
func (s *stage) hour(name string, sh shape, n int64) *limit {
	return s.rawLimit(name, sh, n, time.Hour)
}

// crowdExactlyN repeats the race on fresh keys: what overshoots does so now and then.
func crowdExactlyN(s *stage, sh shape) {
	const each = 4
	for round := range max(1, s.rounds()/each) {
		l := s.hour("limit", sh, 100).of(keyfunc.Name(fmt.Sprint("key ", round)))
		var got tally
		s.crowd(func(_ int, store core.Store) error {
			c := &core.Call{Parts: []core.Part{l.part(1)}}
			for range each {
				ok, err := s.attempt(store, c)
				if err != nil {
					return err
				}
				if ok {
					got.add(l, 1)
				}
			}
			return nil
		})
		if used := s.peekUnchecked(l); got.units[l] != 100 || used != 100 {
			s.Fatalf("%d of %d calls were admitted and %d are used, want 100", got.units[l], each*goroutines, used)
		}
	}
}

// crowdAllOrNone asks for two limits in both orders, and for each alone.
func crowdAllOrNone(s *stage, sh shape) {
	rounds := s.rounds()
	half := int64(goroutines * rounds / 4)
	a, b := s.hour("a", sh, half), s.hour("b", shape{}, half/2)
	asks := [][]*limit{{a, b}, {b, a}, {a}, {b}}
	var got tally
	s.crowd(func(g int, store core.Store) error {
		for i := range rounds {
			limits := asks[(g+i)%len(asks)]
			c := new(core.Call)
			for _, l := range limits {
				c.Parts = append(c.Parts, l.part(1))
			}
			ok, err := s.attempt(store, c)
			if err != nil {
				return err
			}
			for _, l := range limits {
				if ok {
					got.add(l, 1)
				}
			}
		}
		return nil
	})
	for _, l := range []*limit{a, b} {
		if used := s.peekUnchecked(l); used != got.units[l] || used > l.n {
			s.Fatalf("limit %s: %d units were admitted, %d are used, N is %d", l.Limit, got.units[l], used, l.n)
		}
	}
	if got.units[b] != b.n {
		s.Fatalf("%d units of the small limit were admitted, want N, %d", got.units[b], b.n)
	}
}

func crowdManyKeys(s *stage, sh shape) {
	const keys, n = 10, 4
	l := s.hour("limit", sh, n)
	var got tally
	s.crowd(func(g int, store core.Store) error {
		for i := range max(keys, s.rounds()) {
			k := l.of(keyfunc.Name(fmt.Sprint("key ", (g+i)%keys)))
			ok, err := s.attempt(store, &core.Call{Parts: []core.Part{k.part(1)}})
			if err != nil {
				return err
			}
			if ok {
				got.add(k.key, 1)
			}
		}
		return nil
	})
	for i := range keys {
		if k := keyfunc.Name(fmt.Sprint("key ", i)); got.units[k] != n {
			s.Fatalf("key %d: %d calls were admitted, want %d", i, got.units[k], n)
		}
	}
}

// crowdCosts ends full: the smallest cost is asked for to the last.
func crowdCosts(s *stage, sh shape) {
	l := s.hour("limit", sh, int64(goroutines*s.rounds()))
	var got tally
	s.crowd(func(g int, store core.Store) error {
		for i := range s.rounds() + 8 {
			c := &core.Call{Parts: []core.Part{l.part(int64((g*7+i*3)%5 + 1))}}
			ok, err := s.attempt(store, c)
			if err != nil {
				return err
			}
			if ok {
				got.add(l, c.Parts[0].Cost)
			}
			if left := l.n - c.Parts[0].Used; !ok && c.Parts[0].Cost <= left {
				return fmt.Errorf("a cost of %d was refused while %d remained", c.Parts[0].Cost, left)
			}
		}
		return nil
	})
	if used := s.peekUnchecked(l); used != got.units[l] || used > l.n {
		s.Fatalf("%d units were admitted, %d are used, N is %d", got.units[l], used, l.n)
	}
}

// crowdEnds lets all goroutines end each reservation, each in its own way.
func crowdEnds(s *stage, sh shape) {
	l := s.hour("limit", sh, 1000)
	ops := []core.Op{core.OpCommit, core.OpCancel, core.OpCorrect}
	var held []*core.Call
	for range max(1, s.rounds()/4) {
		r := &core.Call{Op: core.OpReserve, ID: newID(), Parts: []core.Part{l.part(3)}}
		if ok, err := s.attempt(s.stores[0], r); err != nil || !ok {
			s.Fatalf("a reservation that fits: admitted is %v, the error %v", ok, err)
		}
		held = append(held, r)
	}
	var ended, left tally
	s.crowd(func(g int, store core.Store) error {
		for i, r := range held {
			c := ending(ops[(g+i)%len(ops)], r, 1)
			if _, err := s.attempt(store, c); err != nil {
				return err
			}
			if c.Parts[0].Done {
				ended.add(r, 1)
				left.add(l, map[core.Op]int64{core.OpCommit: 3, core.OpCorrect: 1}[c.Op])
			}
		}
		return nil
	})
	for i, r := range held {
		if ended.units[r] != 1 {
			s.Fatalf("reservation %d was ended %d times", i, ended.units[r])
		}
	}
	if used := s.peekUnchecked(l); used != left.units[l] {
		s.Fatalf("%d are used after the ends, want %d", used, left.units[l])
	}
}

// crowdMoving judges the units by the instants that the store gave them: no
// window over N, and nobody's time runs backwards.
func crowdMoving(s *stage, sh shape) {
	const n, window = 20, 10 * ms
	l := s.rawLimit("limit", sh, n, window)
	var mu sync.Mutex
	var units []Unit
	s.crowd(func(g int, store core.Store) error {
		c := &core.Call{Parts: []core.Part{l.part(int64(g%3 + 1))}}
		var last core.Instant
		for range s.rounds() {
			ok, err := s.attempt(store, c)
			x := &c.Parts[0]
			if err != nil {
				return err
			}
			if x.At < last {
				return fmt.Errorf("a call was judged at %d, after one at %d", x.At, last)
			}
			last = x.At
			if ok {
				mu.Lock()
				units = append(units, Unit{Made: x.At, Weight: x.Cost})
				mu.Unlock()
			} else if !s.h.Live {
				s.h.Advance(max(1, x.FitsAt.Sub(x.At)/3))
			}
		}
		return nil
	})
	if worst := Worst(units, window); worst > n || worst < n/2 {
		s.Fatalf("a window holds %d units, N is %d", worst, n)
	}
}
