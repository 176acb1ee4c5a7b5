package core_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

func TestAttackerCannotEvictHisOwnBlock(t *testing.T) {
	b := newMemoryBench(t, 1000)
	for i := range 6 {
		if got := b.take("attacker", 5); got != (i < 5) {
			t.Fatalf("call %d is admitted: %t", i+1, got)
		}
	}
	for i := range 2000 {
		b.take("fresh "+strconv.Itoa(i), 5)
		if got := b.Len(); got > 1000 {
			t.Fatalf("%d keys after %d fresh ones, want at most 1000", got, i+1)
		}
		if i%100 == 0 && b.take("attacker", 5) {
			t.Fatalf("admitted after %d fresh keys", i+1)
		}
	}
	if b.take("attacker", 5) {
		t.Error("admitted after 2000 fresh keys")
	}
	if got := b.Len(); got != 1000 {
		t.Errorf("%d keys, want 1000", got)
	}
}

func TestFloodNeverFreesAKeyThatHasLiveUnits(t *testing.T) {
	b := newMemoryBench(t, 1000)
	const n = 50
	for range n - 1 {
		b.take("regular", n)
	}
	b.flood("flood ", 10_000)
	b.at(10*time.Second - time.Microsecond)
	b.flood("late ", 1000)
	admitted := 0
	for range n - 1 {
		if b.take("regular", n) {
			admitted++
		}
	}
	if admitted != 1 {
		t.Errorf("%d more of 50 were admitted after 49, want 1", admitted)
	}
}

func TestEntriesNeverExceedMaxKeysDuringAFlood(t *testing.T) {
	m, err := core.NewMemory(core.MemoryConfig{MaxKeys: 500})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var done atomic.Bool
	var all, watch sync.WaitGroup
	watch.Go(func() {
		for !done.Load() {
			if got := m.Len(); got > 500 || got < 0 {
				t.Errorf("%d keys, want at most 500", got)
				return
			}
		}
	})
	brief := core.NewCounter("test", "2ms", 2*time.Millisecond, core.Exact, 0)
	for g := range 8 {
		all.Go(func() {
			c := core.Call{Parts: []core.Part{{Counter: brief, N: 5, Cost: 1}}}
			for i := range 5000 {
				c.Parts[0].Key = keyfunc.User(fmt.Sprint(g, "/", i))
				if err := m.Do(context.Background(), &c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	done.Store(true)
	watch.Wait()
}

func TestKeysInOverflowCellsAreCountedAndCollisionsOnlyRefuseEarly(t *testing.T) {
	b := newMemoryBench(t, 10)
	b.flood("resident ", 10)
	const keys, n = 3000, 5
	full, early := 0, 0
	for i := range keys {
		key := "visitor " + strconv.Itoa(i)
		admitted := 0
		for range n + 3 {
			p := b.ask(core.OpTake, tenSeconds, key, n, 1)
			if p.Done {
				admitted++
			} else if p.Used != n || p.FitsAt != benchZero.Add(10*time.Second) {
				t.Fatalf("refused with %d of %d used, until %d", p.Used, n, p.FitsAt-benchZero)
			}
		}
		switch {
		case admitted > n:
			t.Fatalf("%d of %d units were admitted", admitted, n)
		case admitted == n:
			full++
		default:
			early++
		}
	}
	if full < keys/2 || early == 0 {
		t.Errorf("%d of %d keys got their quota and %d were refused early: want most, and some", full, keys, early)
	}
	if b.Len() != 10 || b.Overflow() == 0 || b.Overflow() > full {
		t.Errorf("%d keys, %d cells for %d that were filled", b.Len(), b.Overflow(), full)
	}
}

func TestOverflowTableHasAFixedSize(t *testing.T) {
	b := newMemoryBench(t, 1)
	b.flood("a ", 40_000)
	full := b.Overflow()
	if full < 4000 || full > 4096 {
		t.Errorf("%d cells after a flood, want about 4096", full)
	}
	b.flood("b ", 5000)
	if got := b.Overflow(); got > 4096 {
		t.Errorf("%d cells after a second flood, want at most 4096", got)
	}
	// Another counter has cells of its own: sharing them would mix two windows.
	if p := b.ask(core.OpTake, oneHour, "c", 1, 1); !p.Done || p.Used != 1 {
		t.Errorf("another counter starts with %d units used", p.Used)
	}
}

func TestKeyStaysInItsCellUntilTheCellIsIdle(t *testing.T) {
	b := newMemoryBench(t, 1)
	b.take("first", 5)
	b.at(5 * time.Second)
	for range 5 {
		b.take("second", 5)
	}
	if b.Len() != 1 || b.Overflow() != 1 {
		t.Fatalf("%d keys and %d cells, want one each", b.Len(), b.Overflow())
	}
	// There is room again, and an entry of its own would let the key start anew.
	b.at(11 * time.Second)
	b.ask(core.OpReset, tenSeconds, "first", 5, 1)
	if b.Len() != 0 {
		t.Fatalf("%d keys of their own after a reset", b.Len())
	}
	p := b.ask(core.OpTake, tenSeconds, "second", 5, 1)
	if p.Done || p.Used != 5 || p.FitsAt != benchZero.Add(15*time.Second) {
		t.Errorf("admitted %t with %d used, fits at %d", p.Done, p.Used, p.FitsAt-benchZero)
	}
	b.at(15*time.Second - time.Microsecond)
	if b.take("second", 5) {
		t.Error("admitted a microsecond before the units in the cell leave")
	}
	b.at(15 * time.Second)
	if p := b.ask(core.OpTake, tenSeconds, "second", 5, 1); !p.Done || p.Used != 1 {
		t.Errorf("admitted %t with %d used after the cell is idle", p.Done, p.Used)
	}
	if b.Len() != 1 || b.Overflow() != 0 {
		t.Errorf("%d keys and %d cells, want the key in an entry of its own", b.Len(), b.Overflow())
	}
}

func TestResetOfASharedKeyIsRefusedAndFreesNothing(t *testing.T) {
	b := newMemoryBench(t, 1)
	b.take("first", 5)
	lim, err := core.New(core.Config{Name: "test", Limits: []core.Limit{core.Per(5, 10*time.Second)}, Store: b.Memory})
	if err != nil {
		t.Fatal(err)
	}
	second := keyfunc.User("second")
	for range 5 {
		if d, err := lim.Allow(t.Context(), second); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	if err := lim.Reset(t.Context(), second); !errors.Is(err, core.ErrShared) {
		t.Errorf("reset of a key in a cell: %v, want ErrShared", err)
	}
	if d, err := lim.Allow(t.Context(), second); err != nil || d.Allowed || d.Shown().Used != 5 {
		t.Errorf("after the reset: allowed %t with %d used, %v", d.Allowed, d.Shown().Used, err)
	}
	if err := lim.Reset(t.Context(), keyfunc.User("first")); err != nil {
		t.Errorf("reset of a key in an entry of its own: %v", err)
	}
	if p := b.ask(core.OpPeek, tenSeconds, "first", 5, 1); p.Used != 0 || b.Len() != 0 {
		t.Errorf("%d units and %d keys after a reset", p.Used, b.Len())
	}
	b.at(10 * time.Second)
	if err := lim.Reset(t.Context(), second); err != nil {
		t.Errorf("reset after the cell is idle: %v", err)
	}
	if err := lim.Reset(t.Context(), keyfunc.User("never seen")); err != nil {
		t.Errorf("reset of an unknown key: %v", err)
	}
}

func TestReservationsInOverflowCellsEndOnce(t *testing.T) {
	b := newMemoryBench(t, 1)
	b.take("first", 5)
	reservation := func(op core.Op, id byte, cost int64, at core.Instant) core.Part {
		t.Helper()
		c := core.Call{Op: op, ID: core.ReservationID{id}, Parts: []core.Part{{
			Counter: tenSeconds, Key: keyfunc.User("second"), N: 10, Cost: cost, Reserved: 4, ReservedAt: at,
		}}}
		if err := b.Do(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
		return c.Parts[0]
	}
	first := reservation(core.OpReserve, 1, 4, 0)
	other := reservation(core.OpReserve, 2, 4, 0)
	if !first.Done || !other.Done || other.Used != 8 || b.Overflow() != 1 {
		t.Fatalf("%+v, %d cells", other, b.Overflow())
	}
	if p := reservation(core.OpCancel, 1, 4, first.At); !p.Done || p.Used != 4 {
		t.Errorf("cancel: %t with %d used", p.Done, p.Used)
	}
	if p := reservation(core.OpCancel, 1, 4, first.At); p.Done || p.Used != 4 {
		t.Errorf("second cancel: %t with %d used", p.Done, p.Used)
	}
	b.at(time.Second)
	if p := reservation(core.OpCorrect, 2, 12, other.At); !p.Done || p.Used != 12 || p.OldestLeaves != benchZero.Add(11*time.Second) {
		t.Errorf("correct: %t with %d used", p.Done, p.Used)
	}
	b.at(11 * time.Second)
	if p := reservation(core.OpCorrect, 2, 7, other.At); p.Done || p.Used != 3 {
		t.Errorf("late correction: %t with %d used, want the 3 units that exceed what had been reserved", p.Done, p.Used)
	}
}
