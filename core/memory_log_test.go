package core

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// plainLog is what a log must be equal to: records with their weights.
type plainLog []struct {
	release Instant
	units   uint64
}

func (p plainLog) after(lo int, t Instant) int {
	for lo < len(p) && p[lo].release <= t {
		lo++
	}
	return lo
}

func (p plainLog) units(i int) (sum uint64) {
	for _, r := range p[min(i, len(p)):] {
		sum += r.units
	}
	return sum
}

func (p plainLog) reached(lo int, units uint64) int {
	sum := uint64(0)
	for i := lo; ; i++ {
		if sum += p[i].units; sum >= units {
			return i
		}
	}
}

// logUnderTest is a log in an arena beside its model.
type logUnderTest struct {
	log   log
	model plainLog
}

func (u *logUnderTest) add(a *arena, release Instant, units uint64) {
	a.add(&u.log, release, units)
	if n := len(u.model); n > 0 && u.model[n-1].release == release {
		u.model[n-1].units += units
		return
	}
	u.model = append(u.model, plainLog{{release, units}}...)
}

func (u *logUnderTest) newest() Instant {
	if len(u.model) == 0 {
		return 1
	}
	return u.model[len(u.model)-1].release
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// check compares all that a log tells with its model.
func (u *logUnderTest) check(t failer, a *arena) {
	t.Helper()
	l, m := &u.log, u.model
	if int(l.n) != len(m) {
		t.Fatalf("the log has %d records, want %d", l.n, len(m))
	}
	total := l.base
	for i, r := range m {
		total += r.units
		if got := *a.at(l, uint32(i)); got != (record{r.release, total}) {
			t.Fatalf("record %d is %+v, want %+v", i, got, record{r.release, total})
		}
	}
	want := Instant(0)
	if len(m) > 0 {
		want = m[len(m)-1].release
	}
	if got := l.newest(); got != want {
		t.Fatalf("newest is %d, want %d", got, want)
	}
	if want = 0; len(m) > 0 {
		want = m[0].release
	}
	if l.oldest != want {
		t.Fatalf("oldest is %d, want %d", l.oldest, want)
	}
}

// ask compares the answers of a log with those of its model.
func (u *logUnderTest) ask(t *rapid.T, a *arena) {
	l, m := &u.log, u.model
	lo := rapid.IntRange(0, len(m)).Draw(t, "lo")
	when := Instant(rapid.Int64Range(0, int64(u.newest())+1).Draw(t, "when"))
	if got, want := a.after(l, uint32(lo), when), m.after(lo, when); int(got) != want {
		t.Fatalf("after(%d, %d) is %d, want %d", lo, when, got, want)
	}
	if got, want := a.units(l, uint32(lo)), m.units(lo); got != want {
		t.Fatalf("units(%d) is %d, want %d", lo, got, want)
	}
	if lo == len(m) {
		return
	}
	units := rapid.Uint64Range(1, m.units(lo)).Draw(t, "units")
	if got, want := a.reached(l, uint32(lo), units), m.reached(lo, units); int(got) != want {
		t.Fatalf("reached(%d, %d) is %d, want %d", lo, units, got, want)
	}
}

func TestLogsAreWhatTheirRecordsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := new(arena)
		logs := make([]logUnderTest, 3)
		for i := range logs {
			// Totals that soon wrap.
			logs[i].log.base = math.MaxUint64 - rapid.Uint64Range(0, 1000).Draw(t, "base")
		}
		pick := func() *logUnderTest { return &logs[rapid.IntRange(0, len(logs)-1).Draw(t, "log")] }
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				u := pick()
				u.add(a, u.newest()+Instant(rapid.IntRange(0, 2).Draw(t, "later")), rapid.Uint64Range(1, 5).Draw(t, "units"))
			},
			"add many": func(t *rapid.T) {
				u := pick()
				for range rapid.IntRange(1, 1600).Draw(t, "records") {
					u.add(a, u.newest()+1, 2)
				}
			},
			"drop": func(t *rapid.T) {
				u := pick()
				i := rapid.IntRange(0, len(u.model)).Draw(t, "records")
				a.drop(&u.log, uint32(i))
				u.model = u.model[i:]
			},
			"drop all but few": func(t *rapid.T) {
				u := pick()
				i := max(0, len(u.model)-rapid.IntRange(0, 140).Draw(t, "left"))
				a.drop(&u.log, uint32(i))
				u.model = u.model[i:]
			},
			"remove": func(t *rapid.T) {
				for u := pick(); len(u.model) > 0; {
					i := rapid.IntRange(0, len(u.model)-1).Draw(t, "record")
					units := rapid.Uint64Range(1, u.model[i].units).Draw(t, "units")
					a.remove(&u.log, uint32(i), units)
					if u.model[i].units -= units; u.model[i].units == 0 {
						u.model = slices.Delete(u.model, i, i+1)
					}
					if rapid.Bool().Draw(t, "enough") {
						return
					}
				}
			},
			"clear": func(t *rapid.T) {
				u := pick()
				a.clear(&u.log)
				u.model = nil
			},
			"copy": func(t *rapid.T) {
				from := a
				a = new(arena)
				for i := range logs {
					logs[i].log = a.copied(from, &logs[i].log)
				}
			},
			"ask": func(t *rapid.T) { pick().ask(t, a) },
			"": func(t *rapid.T) {
				all := make([]*log, len(logs))
				for i := range logs {
					logs[i].check(t, a)
					all[i] = &logs[i].log
				}
				checkBlocks(t, a, all...)
			},
		})
	})
}

// fillLog adds n records of one unit, released from the newest on.
func (u *logUnderTest) fill(a *arena, n int) {
	for range n {
		u.add(a, u.newest()+1, 1)
	}
}

func TestLogGrowsThroughAllClassesAndShrinksBack(t *testing.T) {
	a := new(arena)
	u := logUnderTest{log: log{base: math.MaxUint64 - 700}}
	seen := map[uint8]bool{}
	for range 3 * maxBlock {
		u.fill(a, 1)
		seen[u.log.class] = true
	}
	u.check(t, a)
	for class := uint8(2); class <= longClass; class++ {
		if !seen[class] && class != 3 {
			t.Errorf("class %d was never used on the way up", class)
		}
	}
	clear(seen)
	for len(u.model) > 0 {
		a.drop(&u.log, 1)
		u.model = u.model[1:]
		u.check(t, a)
		checkBlocks(t, a, &u.log)
		seen[u.log.class] = true
		if c := capacity(min(u.log.class, maxClass)); c > 1 && u.log.n-1 <= c/4 {
			t.Fatalf("%d records stay in a block of %d", u.log.n, c)
		}
	}
	for _, class := range []uint8{longClass, 9, 5, 2, 0} {
		if !seen[class] {
			t.Errorf("class %d was never used on the way down", class)
		}
	}
	if a.used != 0 || u.log != (log{}) {
		t.Errorf("an empty log keeps %d records of storage: %+v", a.used, u.log)
	}
}

func TestRemovingFromAnEndOfALongLogTakesNoWalk(t *testing.T) {
	a := new(arena)
	var u logUnderTest
	u.fill(a, 4*maxBlock)
	// Records in the middle must not be touched: give them a mark that any sum
	// over them would change.
	before := *a.at(&u.log, 2*maxBlock)
	a.remove(&u.log, 3, 1)
	if got := *a.at(&u.log, 2*maxBlock-1); got != before {
		t.Errorf("taking out record 3 changed one in the middle from %+v to %+v", before, got)
	}
	a.remove(&u.log, u.log.n-3, 1)
	if got := *a.at(&u.log, 2*maxBlock-1); got != before {
		t.Errorf("taking out one of the last records changed one in the middle from %+v to %+v", before, got)
	}
	u.model = slices.Delete(u.model, len(u.model)-3, len(u.model)-2)
	u.model = slices.Delete(u.model, 3, 4)
	u.check(t, a)
}

func TestUnitsAreReachedByTheRecordThatCompletesThem(t *testing.T) {
	a := new(arena)
	l := log{base: math.MaxUint64 - 10}
	for i := range Instant(100) {
		a.add(&l, i+1, 3)
	}
	for _, lo := range []uint32{0, 1, 40} {
		for units := uint64(1); units <= a.units(&l, lo); units++ {
			if got, want := a.reached(&l, lo, units), lo+uint32(units-1)/3; got != want {
				t.Fatalf("from record %d, %d units are reached by record %d, want %d", lo, units, got, want)
			}
		}
	}
}
