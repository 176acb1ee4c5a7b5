package core

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidegate/slidegate/keyfunc"
	"pgregory.net/rapid"
)

// naive counts one key as the words of Counter and Store say, over a plain list.
type naive struct {
	counter *Counter
	n, hot  int64
	offset  Instant
	seen    Instant
	units   []naiveUnits
}

type naiveUnits struct {
	release Instant
	units   int64
	pending byte // the reservation, 0 if the units are final
}

func (m *naive) now(clock Instant) Instant {
	if clock+m.offset < m.seen {
		m.offset = m.seen - clock
	}
	return clock + m.offset
}

func (m *naive) used(t Instant) (sum int64, oldest Instant) {
	for _, u := range m.units {
		if u.release <= t {
			continue
		}
		sum += u.units
		if oldest == 0 || u.release < oldest {
			oldest = u.release
		}
	}
	return sum, oldest
}

func (m *naive) fits(t Instant, cost int64) (first Instant) {
	if cost > m.n {
		return 0
	}
	if used, _ := m.used(t); used+cost <= m.n {
		return t
	}
	for _, u := range m.units {
		if used, _ := m.used(u.release); u.release > t && used+cost <= m.n && (first == 0 || u.release < first) {
			first = u.release
		}
	}
	return first
}

func (m *naive) book(t Instant, units int64) {
	used, _ := m.used(t)
	exact := m.counter.Algorithm == Exact || m.counter.Algorithm == Hybrid && used+units > m.hot
	m.units = append(m.units, naiveUnits{release: m.counter.Release(t, exact), units: units})
	m.seen = t
}

// end takes the pending units of a reservation away.
func (m *naive) end(t Instant, id byte) bool {
	for i, u := range m.units {
		if u.pending == id && u.release > t {
			m.units = append(m.units[:i:i], m.units[i+1:]...)
			return true
		}
	}
	return false
}

// do carries out an operation and returns what the part must answer.
func (m *naive) do(op Op, id byte, clock Instant, asked Part) Part {
	p, t := asked, m.now(clock)
	switch op {
	case OpTake, OpPeek, OpReserve:
		p.FitsAt = m.fits(t, p.Cost)
		p.Done = p.FitsAt == t
		if p.Done && op == OpTake {
			m.book(t, p.Cost)
		} else if p.Done && op == OpReserve {
			m.units = append(m.units, naiveUnits{t + Instant(m.counter.Window), p.Cost, id})
			m.seen = t
		}
	case OpReset:
		*m = naive{counter: m.counter, n: m.n, hot: m.hot}
		t = clock
		p.Done, p.FitsAt = true, t
	default:
		p.Done, p.FitsAt = m.end(t, id), t
		if op == OpCommit && p.Done {
			m.book(t, p.Reserved)
		}
		if units := p.Cost; op == OpCorrect {
			if !p.Done {
				units -= p.Reserved
			}
			if units > 0 {
				m.book(t, units)
			}
		}
	}
	p.At = t
	p.Used, p.OldestLeaves = m.used(t)
	return p
}

// sweepAll forgets all idle keys, as the timer does.
func sweepAll(m *Memory) {
	for i := range m.shards {
		m.passShard(&m.shards[i])
	}
}

func TestOneKeyIsCountedAsAPlainListOfUnitsSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window = 100 * time.Millisecond
		algorithm := rapid.SampledFrom([]Algorithm{Exact, Slotted, Hybrid}).Draw(t, "algorithm")
		model := &naive{
			counter: NewCounter("l", "x", window, algorithm, rapid.IntRange(1, 7).Draw(t, "slots")),
			n:       rapid.Int64Range(1, 30).Draw(t, "n"),
		}
		model.hot = rapid.Int64Range(0, model.n-1).Draw(t, "hot")
		clock := Instant(1_700_000_000_000_000)
		m, err := NewMemory(MemoryConfig{Clock: func() time.Time { return clock.Time() }})
		if err != nil {
			t.Fatal(err)
		}
		part := Part{Counter: model.counter, Key: keyfunc.User("someone"), N: model.n, HotFrom: model.hot}
		type reservation struct {
			id   byte
			at   Instant
			cost int64
		}
		var made []reservation
		do := func(t *rapid.T, op Op, id byte, asked Part) Part {
			c := Call{Op: op, ID: ReservationID{id}, Parts: []Part{asked}}
			if err := m.Do(context.Background(), &c); err != nil {
				t.Fatal(err)
			}
			if want := model.do(op, id, clock, asked); c.Parts[0] != want {
				t.Fatalf("%v at %d:\n got %+v\nwant %+v", op, clock, c.Parts[0], want)
			}
			return c.Parts[0]
		}
		t.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) { clock += Instant(rapid.Int64Range(0, 30_000).Draw(t, "micros")) },
			"wait long": func(t *rapid.T) {
				clock += Instant(rapid.Int64Range(90_000, 250_000).Draw(t, "micros"))
			},
			"set the clock back": func(t *rapid.T) {
				clock -= Instant(rapid.Int64Range(1, 300_000).Draw(t, "micros"))
			},
			"take": func(t *rapid.T) {
				p := part
				p.Cost = rapid.Int64Range(1, model.n+1).Draw(t, "cost")
				do(t, rapid.SampledFrom([]Op{OpTake, OpTake, OpPeek}).Draw(t, "op"), 0, p)
			},
			"take one": func(t *rapid.T) {
				p := part
				p.Cost = 1
				for range rapid.IntRange(1, 20).Draw(t, "times") {
					do(t, OpTake, 0, p)
					clock += 3
				}
			},
			"reserve": func(t *rapid.T) {
				p := part
				p.Cost = rapid.Int64Range(1, model.n).Draw(t, "cost")
				id := byte(len(made)%200 + 1)
				if answer := do(t, OpReserve, id, p); answer.Done {
					made = append(made, reservation{id, answer.At, p.Cost})
				}
			},
			"end": func(t *rapid.T) {
				if len(made) == 0 {
					return
				}
				r := made[max(0, len(made)-1-rapid.IntRange(0, 5).Draw(t, "back"))]
				p := part
				p.Reserved, p.ReservedAt, p.Cost = r.cost, r.at, r.cost
				op := rapid.SampledFrom([]Op{OpCommit, OpCorrect, OpCancel}).Draw(t, "op")
				if op == OpCorrect {
					p.Cost = rapid.Int64Range(0, 2*model.n).Draw(t, "cost")
				}
				do(t, op, r.id, p)
			},
			"reset": func(t *rapid.T) {
				p := part
				p.Cost = 1
				do(t, OpReset, 0, p)
			},
			"": func(t *rapid.T) { checkMemory(t, m) },
		})
	})
}

func TestManyReservationsOfOneKeyEndInAnyOrder(t *testing.T) {
	clock := Instant(1_700_000_000_000_000)
	m := openMemory(t, MemoryConfig{Clock: func() time.Time { return clock.Time() }})
	part := Part{Counter: NewCounter("l", "1h", time.Hour, Exact, 0), Key: keyfunc.User("a"), N: 1_000_000, Cost: 3, Reserved: 3}
	const all = 3000
	at := make([]Instant, all)
	do := func(op Op, i int) Part {
		p := part
		p.ReservedAt = at[i]
		c := Call{Op: op, ID: ReservationID{byte(i), byte(i >> 8)}, Parts: []Part{p}}
		if err := m.Do(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
		return c.Parts[0]
	}
	for i := range all {
		// Three of each instant.
		if i%3 == 0 {
			clock++
		}
		at[i] = do(OpReserve, i).At
	}
	left := all
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(all) {
		p := do(OpCancel, i)
		if left--; !p.Done || p.Used != int64(3*left) {
			t.Fatalf("reservation %d: %t, %d units used, want %d", i, p.Done, p.Used, 3*left)
		}
	}
	if sweepAll(m); m.Len() != 0 {
		t.Errorf("%d keys, although all units were given back", m.Len())
	}
	checkMemory(t, m)

	// Lapsed ones are forgotten, and their room with them.
	for i := range all {
		at[i] = do(OpReserve, i).At
	}
	clock += Instant(time.Hour.Microseconds()) - 1
	part.Cost = 1
	if p := do(OpTake, 0); p.Used != 3*all+1 {
		t.Errorf("%d units a microsecond before the reservations lapse", p.Used)
	}
	clock++
	if p := do(OpTake, 0); p.Used != 2 {
		t.Errorf("%d units after the reservations have lapsed, want 2", p.Used)
	}
	for i := range m.shards {
		for _, x := range m.shards[i].extras {
			if len(x.open) != 0 || cap(x.open) > keptOpen {
				t.Errorf("room for %d reservations is kept for none", cap(x.open))
			}
		}
	}
}

func TestCorrectionsWithoutEndDoNotOverflow(t *testing.T) {
	m := openMemory(t, MemoryConfig{})
	c := Call{Op: OpCorrect, Parts: []Part{{Counter: NewCounter("l", "1h", time.Hour, Slotted, 2), Key: keyfunc.User("a"), N: 1, Cost: MaxUnits}}}
	last := int64(0)
	for range maxUsed/MaxUnits + 10 {
		if err := m.Do(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
		if used := c.Parts[0].Used; used < last || used > maxUsed {
			t.Fatalf("%d units used after %d", used, last)
		}
		last = c.Parts[0].Used
	}
	if last != maxUsed {
		t.Errorf("%d units used, want them to stop at %d", last, int64(maxUsed))
	}
	c.Op, c.Parts[0].Cost = OpTake, 1
	if err := m.Do(t.Context(), &c); err != nil || c.Parts[0].Done || c.Parts[0].FitsAt <= c.Parts[0].At {
		t.Errorf("a unit on top: admitted %t, fits at %d (%v)", c.Parts[0].Done, c.Parts[0].FitsAt, err)
	}
}

func TestKeyStaysUntilItsLastUnitLeavesWhateverWasCountedLast(t *testing.T) {
	// A slot leaves later than a reservation that is made after it.
	clock := Instant(1_700_000_000_000_000)
	m := openMemory(t, MemoryConfig{Clock: func() time.Time { return clock.Time() }})
	counter := NewCounter("l", "1s", time.Second, Slotted, 1)
	do := func(op Op) Part {
		c := Call{Op: op, Parts: []Part{{Counter: counter, Key: keyfunc.User("a"), N: 2, Cost: 1}}}
		if err := m.Do(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
		return c.Parts[0]
	}
	do(OpTake)
	do(OpReserve)
	clock += 1_500_000
	for range 2 {
		sweepAll(m)
		if p := do(OpPeek); p.Used != 1 || m.Len() != 1 {
			t.Errorf("%d units in %d keys after the reservation has lapsed, want 1 in one", p.Used, m.Len())
		}
	}
}

func TestDeadUnitsAreForgottenWhileTheirKeyIsInUse(t *testing.T) {
	clock := Instant(1_700_000_000_000_000)
	m := openMemory(t, MemoryConfig{Clock: func() time.Time { return clock.Time() }})
	for i, part := range []Part{
		{Counter: NewCounter("l", "exact", 10*time.Millisecond, Exact, 0)},
		{Counter: NewCounter("l", "slotted", 10*time.Millisecond, Slotted, 10)},
		{Counter: NewCounter("l", "hybrid", 10*time.Millisecond, Hybrid, 10), HotFrom: 5},
	} {
		part.Key, part.N, part.Cost = keyfunc.User("a"), 1000, 1
		for k := range 10_000 {
			c := Call{Op: []Op{OpTake, OpReserve}[k%2], ID: ReservationID{byte(k), byte(k >> 8)}, Parts: []Part{part}}
			if err := m.Do(t.Context(), &c); err != nil || !c.Parts[0].Done {
				t.Fatal(c.Parts[0], err)
			}
			clock += 1000
		}
		if _, records := storage(m); records > 16*firstChunk || m.Len() != 1 {
			t.Errorf("counter %d: room for %d records of %d keys, 10 to 20 are live", i, records, m.Len())
		}
		clock += 100_000
	}
}
