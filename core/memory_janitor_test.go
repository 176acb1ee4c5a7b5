package core

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/keyfunc"
)

func openMemory(t testing.TB, cfg MemoryConfig) *Memory {
	t.Helper()
	m, err := NewMemory(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// takeKeys counts one unit for each of keys from to to-1.
func takeKeys(t testing.TB, m *Memory, counter *Counter, from, to int) {
	t.Helper()
	c := Call{Parts: []Part{{Counter: counter, N: 10, Cost: 1}}}
	for i := from; i < to; i++ {
		c.Parts[0].Key = keyfunc.User("user " + strconv.Itoa(i))
		if err := m.Do(context.Background(), &c); err != nil {
			t.Fatal(err)
		}
	}
}

// checkMemory makes sure that all parts of a store agree.
func checkMemory(t failer, m *Memory) {
	t.Helper()
	keys := 0
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		checkShard(t, sh)
		keys += sh.live - sh.cells
		sh.mu.Unlock()
	}
	if keys != m.Len() {
		t.Fatalf("%d keys, Len is %d", keys, m.Len())
	}
}

// storage returns how many entries and records m has room for.
func storage(m *Memory) (entries, records int) {
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		entries += sh.table.slots
		records += sh.records.held
		sh.mu.Unlock()
	}
	return entries, records
}

func (j *janitor) pending() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.timer != nil && j.timer.Stop()
}

func TestIdleKeysGoWithoutAnyCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := openMemory(t, MemoryConfig{})
		takeKeys(t, m, NewCounter("l", "10s", 10*time.Second, Exact, 0), 0, 20_000)
		time.Sleep(10*time.Second - time.Microsecond)
		synctest.Wait()
		if got := m.Len(); got != 20_000 {
			t.Fatalf("%d keys while all have live units, want 20000", got)
		}
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		if got := m.Len(); got != 0 {
			t.Fatalf("%d keys a second after the last unit has left", got)
		}
		if e, r := storage(m); e+r != 0 {
			t.Errorf("an empty store has room for %d entries, %d records", e, r)
		}
		if m.awake.Load() || m.janitor.pending() {
			t.Error("the timer of an empty store runs on")
		}

		takeKeys(t, m, NewCounter("l", "1s", time.Second, Slotted, 10), 0, 5)
		if !m.awake.Load() {
			t.Error("no timer for new keys after the store was empty")
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if m.Len() != 0 || m.awake.Load() {
			t.Errorf("%d keys, timer %t, after the store has filled and emptied again", m.Len(), m.awake.Load())
		}
	})
}

func TestStorageShrinksAfterAFloodOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := openMemory(t, MemoryConfig{})
		hour := NewCounter("l", "1h", time.Hour, Exact, 0)
		takeKeys(t, m, NewCounter("l", "1s", time.Second, Exact, 0), 0, 200_000)
		takeKeys(t, m, hour, 0, 1000)
		entries, records := storage(m)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if got := m.Len(); got != 1000 {
			t.Fatalf("%d keys, want the 1000 that are live", got)
		}
		e, r := storage(m)
		if e > entries/20 || r > records/10 {
			t.Errorf("room for %d of %d entries, %d of %d records", e, entries, r, records)
		}
		checkMemory(t, m)
		// They are still counted: of ten units each, nine are left.
		c := Call{Parts: []Part{{Counter: hour, N: 10, Cost: 10}}}
		for i := range 1000 {
			c.Parts[0].Key = keyfunc.User("user " + strconv.Itoa(i))
			if err := m.Do(t.Context(), &c); err != nil || c.Parts[0].Done || c.Parts[0].Used != 1 {
				t.Fatalf("key %d has %d units after the move (%v)", i, c.Parts[0].Used, err)
			}
		}
	})
}

func TestFullStoreOfIdleKeysTakesUnknownOnesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := openMemory(t, MemoryConfig{MaxKeys: 20_000})
		counter := NewCounter("l", "100ms", 100*time.Millisecond, Exact, 0)
		takeKeys(t, m, counter, 0, 20_000)
		// Long before the timer looks.
		time.Sleep(100 * time.Millisecond)
		takeKeys(t, m, counter, 20_000, 40_000)
		if m.Overflow() != 0 || m.Len() > 20_000 {
			t.Errorf("%d keys, %d cells: idle keys kept new ones out", m.Len(), m.Overflow())
		}
	})
}

func TestOldKeysGoAsFastAsNewOnesCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := openMemory(t, MemoryConfig{})
		counter := NewCounter("l", "100ms", 100*time.Millisecond, Exact, 0)
		takeKeys(t, m, counter, 0, 10_000)
		time.Sleep(100 * time.Millisecond)
		takeKeys(t, m, counter, 10_000, 15_000)
		if got := m.Len(); got > 7000 {
			t.Errorf("%d keys, 5000 of them live", got)
		}
	})
}

func TestOverflowCellsGoByThemselvesToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := openMemory(t, MemoryConfig{MaxKeys: 2})
		takeKeys(t, m, NewCounter("l", "1s", time.Second, Exact, 0), 0, 100)
		if m.Len() != 2 || m.Overflow() == 0 {
			t.Fatalf("%d keys and %d cells, want 2 and some", m.Len(), m.Overflow())
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if m.Len() != 0 || m.Overflow() != 0 || m.awake.Load() {
			t.Errorf("%d keys, %d cells, timer %t, after all units have left", m.Len(), m.Overflow(), m.awake.Load())
		}
	})
}

func TestKeysThatComeWhileTheLastOnesGoAreNotForgottenByTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := openMemory(t, MemoryConfig{MaxKeys: 20})
		counter := NewCounter("l", "1ms", time.Millisecond, Exact, 0)
		for round := range 300 {
			var all sync.WaitGroup
			for g := range 3 {
				// At the same instants as the timer, which looks once a second.
				all.Go(func() {
					time.Sleep(time.Duration(g+1) * time.Second)
					takeKeys(t, m, counter, round*90+g*30, round*90+g*30+30)
				})
			}
			all.Wait()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if m.Len() != 0 || m.Overflow() != 0 || m.awake.Load() {
				t.Fatalf("round %d: %d keys, %d cells, timer %t", round, m.Len(), m.Overflow(), m.awake.Load())
			}
		}
	})
}

func TestTimerDoesNotEndWhileAnythingIsThere(t *testing.T) {
	m := openMemory(t, MemoryConfig{MaxKeys: 1})
	counter := NewCounter("l", "1h", time.Hour, Exact, 0)
	reset := func(user int) {
		c := Call{Op: OpReset, Parts: []Part{{Counter: counter, Key: keyfunc.User("user " + strconv.Itoa(user))}}}
		if err := m.Do(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
	}
	takeKeys(t, m, counter, 0, 1)
	if m.sleep() || !m.awake.Load() {
		t.Error("it ends though there is a key")
	}
	takeKeys(t, m, counter, 1, 2)
	reset(0)
	if m.Len() != 0 || m.Overflow() != 1 {
		t.Fatalf("%d keys, %d cells, want one cell", m.Len(), m.Overflow())
	}
	if m.sleep() || !m.awake.Load() {
		t.Error("it ends though there is a cell")
	}
	for i := range m.shards {
		m.shards[i].forget()
	}
	if !m.sleep() || m.awake.Load() {
		t.Error("it goes on though there is nothing")
	}
}

func TestLooksAtManyKeysAreFollowedByLongPauses(t *testing.T) {
	for looked, want := range map[int]time.Duration{
		0: time.Second, 800_000: time.Second, 1_600_000: 2 * time.Second, 160_000_000: 200 * time.Second,
	} {
		if got := pauseAfter(looked); got != want {
			t.Errorf("%v after %d slots, want %v", got, looked, want)
		}
	}
	m := openMemory(t, MemoryConfig{MaxKeys: 100})
	sh := &m.shards[0]
	fillShard(sh, 10*sweepPerLock)
	slots := sh.table.slots
	looked, left := m.passShard(sh)
	if looked < slots || looked >= slots+sweepPerLock || left != 0 {
		t.Errorf("%d slots were looked at and %d entries are left, want %d and none", looked, left, slots)
	}
}

func TestTimerRestsAfterALookAtManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := openMemory(t, MemoryConfig{})
		const many = 750_000 // one to two seconds of rest
		sh := &m.shards[0]
		for i := range many {
			sh.records.add(&sh.insert(testID(i), keyEntry).units, m.now().Add(time.Hour), 1)
		}
		rest := pauseAfter(sh.table.slots)
		m.keys.Add(many)
		m.awake.Store(true)
		m.pass()
		takeKeys(t, m, NewCounter("l", "1ms", time.Millisecond, Exact, 0), 0, 1)
		time.Sleep(rest - time.Millisecond)
		synctest.Wait()
		if got := m.Len(); got != many+1 {
			t.Errorf("%d keys before the timer may look, want %d", got, many+1)
		}
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if got := m.Len(); got != many {
			t.Errorf("%d keys after the timer has looked, want %d", got, many)
		}
	})
}

func TestDroppedStoreIsCollectedThoughItsKeysAreLive(t *testing.T) {
	collected := make(chan struct{})
	func() {
		m, err := NewMemory(MemoryConfig{})
		if err != nil {
			t.Fatal(err)
		}
		runtime.AddCleanup(m, func(done chan struct{}) { close(done) }, collected)
		takeKeys(t, m, NewCounter("l", "1h", time.Hour, Exact, 0), 0, 100)
	}()
	for range 100 {
		runtime.GC()
		select {
		case <-collected:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("a store that nobody uses is kept by its timer")
}

func TestTimerOfADroppedStoreEndsQuietly(t *testing.T) {
	var j janitor
	func() {
		m, err := NewMemory(MemoryConfig{})
		if err != nil {
			t.Fatal(err)
		}
		j.schedule(m, time.Hour)
	}()
	runtime.GC()
	runtime.GC()
	j.timer.Reset(0)
	for end := time.Now().Add(5 * time.Second); j.pending(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the timer goes on")
		}
	}
}

func TestThousandLimitersLeaveNoGoroutineAndNoTimer(t *testing.T) {
	before := runtime.NumGoroutine()
	for i := range 1000 {
		l, err := New(Config{Limits: []Limit{PerMinute(10), PerDay(100).Slotted(24)}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Allow(t.Context(), keyfunc.User(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		m := l.store.(*Memory)
		if m.janitor.timer == nil {
			t.Fatal("a store in use has no timer")
		}
		if m.janitor.pending() {
			t.Fatal("a closed store has a timer")
		}
		m.janitor.schedule(m, time.Hour)
		if m.janitor.pending() {
			t.Fatal("a closed store gets a new timer")
		}
		if e, r := storage(m); e+r != 0 || m.Len() != 0 {
			t.Fatalf("a closed store keeps %d keys, room for %d entries", m.Len(), e)
		}
	}
	for wait := time.Now(); runtime.NumGoroutine() > before; {
		if time.Since(wait) > time.Second {
			t.Fatalf("%d goroutines, before %d", runtime.NumGoroutine(), before)
		}
		time.Sleep(time.Millisecond)
	}
}
