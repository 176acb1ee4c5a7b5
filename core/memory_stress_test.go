package core

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/keyfunc"
)

// checkTime makes sure that the units of each key were admitted in the order of
// time, and that no key has ever seen the monotonic clock go back: it would, if
// a call read the clock before it had the lock.
func checkTime(t failer, m *Memory) {
	t.Helper()
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		for e := range sh.table.entries {
			if x := sh.extra(e); x != nil && x.offset != 0 {
				t.Fatalf("a key has seen the clock go back by %d", x.offset)
			}
			for k := uint32(1); k < e.units.n; k++ {
				if sh.records.at(&e.units, k).release <= sh.records.at(&e.units, k-1).release {
					t.Fatalf("record %d leaves before record %d", k, k-1)
				}
			}
		}
		sh.mu.Unlock()
	}
}

// TestCallsSweepsAndCloseDoNotLockEachOtherOut runs all that takes locks at once.
func TestCallsSweepsAndCloseDoNotLockEachOtherOut(t *testing.T) {
	for _, maxKeys := range []int{0, 40} {
		t.Run(strconv.Itoa(maxKeys), func(t *testing.T) {
			m := openMemory(t, MemoryConfig{MaxKeys: maxKeys})
			var calls atomic.Int64
			stop, closed := make(chan struct{}), make(chan struct{})
			var all sync.WaitGroup
			for g := range 64 {
				all.Go(func() { callAll(t, m, uint64(g), &calls, closed) })
			}
			var sweeper sync.WaitGroup
			sweeper.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						m.pass()
					}
				}
			})
			for range 5 {
				before := calls.Load()
				time.Sleep(100 * time.Millisecond)
				// Far more than a hundred go through on a machine with time to spare.
				for wait := time.Now(); calls.Load() == before; time.Sleep(time.Millisecond) {
					if time.Since(wait) > 10*time.Second {
						t.Fatal("nothing moves any more")
					}
				}
				if got := m.Len(); maxKeys > 0 && got > maxKeys {
					t.Errorf("%d keys, want at most %d", got, maxKeys)
				}
				checkTime(t, m)
			}
			m.Close()
			close(closed)
			done := make(chan struct{})
			go func() { all.Wait(); close(stop); sweeper.Wait(); close(done) }()
			select {
			case <-done:
			case <-time.After(10 * time.Second):
				t.Fatal("calls do not end after Close")
			}
			if m.Len() != 0 || m.Overflow() != 0 {
				t.Errorf("%d keys and %d cells after Close", m.Len(), m.Overflow())
			}
			checkMemory(t, m)
		})
	}
}

// callAll makes calls of all kinds, with one to four keys in any order, until
// the store is closed.
func callAll(t *testing.T, m *Memory, seed uint64, calls *atomic.Int64, closed chan struct{}) {
	random := rand.New(rand.NewPCG(seed, 1))
	counters := []*Counter{
		NewCounter("l", "1ms", time.Millisecond, Exact, 0),
		NewCounter("l", "5ms", 5*time.Millisecond, Slotted, 5),
		NewCounter("l", "1s", time.Second, Hybrid, 10),
		NewCounter("l", "1h", time.Hour, Exact, 0),
	}
	for i := uint64(0); ; i++ {
		c := Call{Op: []Op{OpTake, OpTake, OpTake, OpPeek, OpReserve, OpReset}[random.IntN(6)]}
		c.ID = ReservationID{byte(seed), byte(i), byte(i >> 8), byte(i >> 16)}
		order := random.Perm(len(counters))[:1+random.IntN(4)]
		for _, k := range order {
			c.Parts = append(c.Parts, Part{
				Counter: counters[k], Key: keyfunc.User(strconv.Itoa(random.IntN(100))),
				N: 50, HotFrom: 20, Cost: 1 + random.Int64N(3),
			})
		}
		err := m.Do(context.Background(), &c)
		if err == nil && c.Op == OpReserve && c.Parts[0].Done {
			c.Op = []Op{OpCommit, OpCorrect, OpCancel}[random.IntN(3)]
			for k := range c.Parts {
				c.Parts[k].Reserved, c.Parts[k].ReservedAt = c.Parts[k].Cost, c.Parts[k].At
			}
			err = m.Do(context.Background(), &c)
		}
		calls.Add(1)
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		<-closed // nothing but Close ends the calls
		return
	}
}
