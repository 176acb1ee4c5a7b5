// Package storetest is the conformance suite that every slidegate store must
// pass. It drives a store through [core.Store.Do], as a limiter would, and
// compares each field of each answer with an [Oracle]: a plain list of units
// with their release instants.
//
// A store's author writes one test:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(tb testing.TB) *storetest.Harness {
//			clock := storetest.NewClock(core.InstantOf(time.Now()))
//			store := mystore.New(mystore.Config{Clock: clock.Now})
//			tb.Cleanup(func() { store.Close() })
//			return &storetest.Harness{
//				Open:    func(testing.TB) core.Store { return store },
//				Now:     clock.Now,
//				Advance: clock.Advance,
//				Step:    clock.Step,
//			}
//		})
//	}
//
// # What is checked
//
//   - Random traces: takes, peeks, reservations and their ends, resets and
//     changed limits over one to three limits per call and several instances,
//     with time moved to release instants exactly, one microsecond before and
//     one after, and with clock steps.
//   - Known faults of limiters, one named check for each, for each algorithm.
//   - Many goroutines on one key: exactly N are admitted.
//   - The wait: at [core.Part].FitsAt a refused call passes, one microsecond
//     before it does not.
//   - Counts far above 2^53, and running totals beyond 2^64.
//
// # What a store may choose
//
// A key lives while a unit in it is live. After that a store may forget the key
// or keep it, and whenever it sees dead units it may drop them or keep them.
// This shows only when the clock steps back afterwards: the key's time then goes
// on from the last booked instant, or it starts anew. Both are right, and the
// oracle accepts both: it follows every past that the answers allow.
//
// The answer of a reset need not fill FitsAt, and its At may be the key's own time
// or the clock's. A call names each counter and key at most once.
package storetest
