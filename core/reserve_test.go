package core_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// reserve takes a reservation and fails the test if it is refused.
func reserve(t testing.TB, l *core.Limiter, units int64) *core.Reservation {
	t.Helper()
	r, d, err := l.Reserve(context.Background(), someone, units)
	if err != nil || r == nil || !d.Allowed {
		t.Fatalf("not reserved: %+v, %v", d, err)
	}
	return r
}

func wantUsed(t testing.TB, l *core.Limiter, want int64) {
	t.Helper()
	if got := used(t, l); got != want {
		t.Helper()
		t.Errorf("%d units are used, want %d", got, want)
	}
}

func TestAReservationCountsInFullFromItsTaking(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		l := limiterOn(t, c, as(core.PerMinute(10)))
		r, d, err := l.Reserve(context.Background(), someone, 6)
		if err != nil || r == nil || !d.Allowed || d.Cost != 6 || d.Shown().Used != 6 || d.Shown().OldestLeaves != start.Add(time.Minute) {
			t.Fatalf("%+v, %v", d, err)
		}
		if d := allow(t, l, 5); d.Allowed || d.Shown().FitsAt != start.Add(time.Minute) {
			t.Errorf("beside the reservation: %+v", d.Shown())
		}
		r, d, err = l.Reserve(context.Background(), someone, 5)
		if err != nil || r != nil || d.Allowed || d.Reason != core.Refused {
			t.Errorf("a second one: %v, %+v, %v", r, d, err)
		}
		r, d, err = l.Reserve(context.Background(), someone, 11)
		if err != nil || r != nil || d.Reason != core.NeverFits {
			t.Errorf("more than fits: %v, %+v, %v", r, d, err)
		}
		wantUsed(t, l, 6)
	})
}

func TestAReservationLapsesAWindowAfterItsTaking(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		for name, end := range map[string]struct {
			end  func(*core.Reservation) error
			used int64 // by what ends it after it has lapsed
		}{
			"commit":       {func(r *core.Reservation) error { return r.Commit(context.Background()) }, 0},
			"cancel":       {func(r *core.Reservation) error { return r.Cancel(context.Background()) }, 0},
			"correct down": {func(r *core.Reservation) error { return r.Correct(context.Background(), 2) }, 0},
			"correct same": {func(r *core.Reservation) error { return r.Correct(context.Background(), 6) }, 0},
			"correct up":   {func(r *core.Reservation) error { return r.Correct(context.Background(), 9) }, 3},
		} {
			c := newHandClock()
			l := limiterOn(t, c, as(core.PerMinute(10)))
			r := reserve(t, l, 6)
			c.set(start.Add(time.Minute) - 1)
			wantUsed(t, l, 6)
			c.set(start.Add(time.Minute))
			wantUsed(t, l, 0)
			if err := end.end(r); !errors.Is(err, core.ErrLapsed) {
				t.Errorf("%s: %v", name, err)
			}
			wantUsed(t, l, end.used)
			if err := end.end(r); !errors.Is(err, core.ErrEnded) {
				t.Errorf("%s again: %v", name, err)
			}
			wantUsed(t, l, end.used)
		}
	})
}

func TestACommittedReservationCountsAsMadeAtItsCommit(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		limit := as(core.PerMinute(10))
		l := limiterOn(t, c, limit)
		r := reserve(t, l, 6)
		c.at(40 * time.Second)
		if err := r.Commit(context.Background()); err != nil {
			t.Fatal(err)
		}
		wantUsed(t, l, 6)
		c.at(100*time.Second - time.Microsecond)
		wantUsed(t, l, 6)
		c.at(100*time.Second + slotOf(limit))
		wantUsed(t, l, 0)
	})
}

func TestCorrectSetsTheFinalCost(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		for _, test := range []struct{ cost, used int64 }{
			{0, 3}, {1, 4}, {6, 9}, {7, 10}, {9, 12}, {100, 103}, {core.MaxUnits, core.MaxUnits + 3},
		} {
			c := newHandClock()
			limit := as(core.PerMinute(10))
			l := limiterOn(t, c, limit)
			allow(t, l, 3)
			r := reserve(t, l, 6)
			c.at(30 * time.Second)
			if err := r.Correct(context.Background(), test.cost); err != nil {
				t.Fatal(err)
			}
			wantUsed(t, l, test.used)
			s := peekState(t, l)
			if want := max(0, 10-test.used); s.Remaining() != want {
				t.Errorf("corrected to %d: %d remaining, want %d", test.cost, s.Remaining(), want)
			}
			// What is above the limit is worked off before anything is admitted.
			c.at(60*time.Second + slotOf(limit))
			if d := allow(t, l, 1); d.Allowed != (test.cost < 10) {
				t.Errorf("corrected to %d, when the others have left: %+v", test.cost, d.Shown())
			}
			// What was corrected counts as made then.
			c.at(90*time.Second + slotOf(limit))
			wantUsed(t, l, map[bool]int64{true: 1, false: 0}[test.cost < 10])
			if err := r.Correct(context.Background(), 1); !errors.Is(err, core.ErrEnded) {
				t.Errorf("corrected again: %v", err)
			}
		}
	})
}

func peekState(t testing.TB, l *core.Limiter) core.LimitState {
	t.Helper()
	d := peek(t, l, 1)
	return d.Shown()
}

func TestCorrectRefusesWhatIsNoCost(t *testing.T) {
	ctx := context.Background()
	l := limiterOn(t, newHandClock(), core.PerMinute(10))
	r := reserve(t, l, 6)
	for cost, text := range map[int64]string{-1: "-1", core.MaxUnits + 1: "1000000000000000", -1 << 63: "-9223372036854775808"} {
		wantFault(t, r.Correct(ctx, cost), "cost", text)
	}
	if err := r.Correct(ctx, 2); err != nil {
		t.Errorf("a fault has ended the reservation: %v", err)
	}
	wantUsed(t, l, 2)
}

func TestCancelGivesBackItsOwnUnitsOnce(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		ctx := context.Background()
		c := newHandClock()
		l := limiterOn(t, c, as(core.PerMinute(10)))
		allow(t, l, 1)
		a, b := reserve(t, l, 3), reserve(t, l, 2) // of one instant
		c.advance(time.Second)
		later := reserve(t, l, 4)
		if err := a.Cancel(ctx); err != nil {
			t.Fatal(err)
		}
		wantUsed(t, l, 7)
		for range 3 {
			if err := a.Cancel(ctx); !errors.Is(err, core.ErrEnded) {
				t.Errorf("cancelled again: %v", err)
			}
		}
		wantUsed(t, l, 7)
		if err := later.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		if err := later.Cancel(ctx); !errors.Is(err, core.ErrEnded) {
			t.Errorf("cancelled after its commit: %v", err)
		}
		wantUsed(t, l, 7)
		if err := b.Cancel(ctx); err != nil {
			t.Fatal(err)
		}
		wantUsed(t, l, 5)
		if d := allow(t, l, 6); d.Allowed {
			t.Error("more than is free was admitted")
		}
		if d := allow(t, l, 5); !d.Allowed {
			t.Errorf("what was given back is not free: %+v", d.Shown())
		}
	})
}

func TestANilReservationHasEnded(t *testing.T) {
	var r *core.Reservation
	ctx := context.Background()
	for name, err := range map[string]error{"commit": r.Commit(ctx), "correct": r.Correct(ctx, 1), "wrong": r.Correct(ctx, -1), "cancel": r.Cancel(ctx)} {
		if !errors.Is(err, core.ErrEnded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOfConcurrentEndsExactlyOneWins(t *testing.T) {
	ctx := context.Background()
	for range 50 {
		l := limiterOn(t, newHandClock(), core.PerMinute(100))
		allow(t, l, 10)
		r := reserve(t, l, 20)
		ends := []struct {
			end  func() error
			used int64
		}{
			{func() error { return r.Commit(ctx) }, 30},
			{func() error { return r.Cancel(ctx) }, 10},
			{func() error { return r.Correct(ctx, 5) }, 15},
		}
		var group sync.WaitGroup
		results := make([]error, 30)
		for i := range results {
			group.Go(func() { results[i] = ends[i%3].end() })
		}
		group.Wait()
		won := -1
		for i, err := range results {
			switch {
			case err == nil && won < 0:
				won = i
			case err == nil:
				t.Errorf("ends %d and %d both won", won, i)
			case !errors.Is(err, core.ErrEnded):
				t.Errorf("end %d: %v", i, err)
			}
		}
		if won < 0 {
			t.Fatal("no end won")
		}
		wantUsed(t, l, ends[won%3].used)
	}
}

func TestReservationsOfSeveralLimits(t *testing.T) {
	ctx := context.Background()
	c := newHandClock()
	l := limiterOn(t, c, core.PerSecond(5), core.PerMinute(10).Slotted(6), core.PerHour(20).Key(keyfunc.ByIP()))
	own := core.ForLimit("1h", keyfunc.Name("address"))
	usedBy := func() (all [3]int64) {
		d := peek(t, l, 1, own)
		for i, name := range []string{"1s", "1m", "1h"} {
			s, _ := d.Limit(name)
			all[i] = s.Used
		}
		return all
	}
	r, _, err := l.Reserve(ctx, someone, 4, own)
	if err != nil || r == nil {
		t.Fatal(err)
	}
	if got := usedBy(); got != [3]int64{4, 4, 4} {
		t.Errorf("reserved: %v", got)
	}
	if refused, d, err := l.Reserve(ctx, someone, 2, own); refused != nil || err != nil || d.Shown().Name() != "1s" {
		t.Errorf("more than fits one: %v, %+v, %v", refused, d, err)
	}
	if got := usedBy(); got != [3]int64{4, 4, 4} {
		t.Errorf("after a refusal: %v", got)
	}
	// The shortest window lets go first; the others end all the same.
	c.advance(2 * time.Second)
	if err := r.Correct(ctx, 6); !errors.Is(err, core.ErrLapsed) {
		t.Errorf("partly lapsed: %v", err)
	}
	if got := usedBy(); got != [3]int64{2, 6, 6} {
		t.Errorf("corrected after one has lapsed: %v", got)
	}
	r, _, err = l.Reserve(ctx, someone, 3, own)
	if err != nil || r == nil {
		t.Fatal(err)
	}
	if err := r.Cancel(ctx); err != nil {
		t.Fatal(err)
	}
	if got := usedBy(); got != [3]int64{2, 6, 6} {
		t.Errorf("cancelled: %v", got)
	}
}

// A reply that got lost may have been carried out: the end is not sent again.
func TestAnEndIsSentOnceWhateverTheReply(t *testing.T) {
	ctx := context.Background()
	lost := errors.New("lost reply")
	for name, end := range map[string]func(*core.Reservation) error{
		"commit":  func(r *core.Reservation) error { return r.Commit(ctx) },
		"correct": func(r *core.Reservation) error { return r.Correct(ctx, 2) },
		"cancel":  func(r *core.Reservation) error { return r.Cancel(ctx) },
	} {
		store := &scripted{}
		l := limiterWith(t, core.Config{Name: "test", Store: store, Limits: []core.Limit{core.PerMinute(5), core.PerHour(50)}})
		r := reserve(t, l, 3)
		store.answer = func(context.Context, *core.Call) error { return lost }
		if err := end(r); !errors.Is(err, core.ErrNoDecision) || !errors.Is(err, lost) {
			t.Errorf("%s: %v", name, err)
		}
		if err := end(r); !errors.Is(err, core.ErrEnded) {
			t.Errorf("%s again: %v", name, err)
		}
		calls := store.seen()
		if len(calls) != 2 {
			t.Fatalf("%s: the store was asked %d times", name, len(calls))
		}
		taken, ended := calls[0], calls[1]
		if taken.Op != core.OpReserve || taken.ID == (core.ReservationID{}) || ended.ID != taken.ID || ended.Op.String() != name {
			t.Errorf("%s: %v %x, then %v %x", name, taken.Op, taken.ID, ended.Op, ended.ID)
		}
		for i, p := range ended.Parts {
			want := int64(3)
			if name == "correct" {
				want = 2
			}
			if p.Key != someone || p.Reserved != 3 || p.ReservedAt != start || p.Cost != want || p.Counter != taken.Parts[i].Counter {
				t.Errorf("%s: the store was asked %+v", name, p)
			}
		}
	}
}

func TestReservationsHaveNamesOfTheirOwn(t *testing.T) {
	store := &scripted{}
	l := limiterWith(t, core.Config{Name: "test", Store: store, Limits: []core.Limit{core.PerMinute(5)}})
	for range 1000 {
		reserve(t, l, 1)
	}
	seen := map[core.ReservationID]bool{}
	for _, c := range store.seen() {
		if seen[c.ID] {
			t.Fatalf("%x was given twice", c.ID)
		}
		seen[c.ID] = true
	}
}
