package storetest_test

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// reference is a store that is right and slow: one lock, one list of entries
// per count. Each fault that it can be given makes it wrong in one way.
type reference struct {
	mu     sync.Mutex
	now    func() core.Instant
	counts map[countKey]*count
	names  map[*core.Counter]string
	closed bool
	fault  string
}

type countKey struct {
	counter string
	key     keyfunc.Key
}

type count struct {
	entries []entry
	ahead   core.Instant
	newest  core.Instant
}

type entry struct {
	made, leaves core.Instant
	units        int64
	id           core.ReservationID
}

func newReference(now func() core.Instant, fault string) *reference {
	return &reference{now: now, counts: make(map[countKey]*count), names: make(map[*core.Counter]string), fault: fault}
}

func (r *reference) has(fault string) bool { return r.fault == fault }

// place finds the count of a part.
func (r *reference) place(x *core.Part) *count {
	if _, ok := r.names[x.Counter]; !ok {
		r.names[x.Counter] = x.Counter.Identity()
	}
	k := countKey{r.names[x.Counter], x.Key}
	switch r.fault {
	case "N is part of the identity":
		k.counter += string(rune(x.N % 1000))
	case "the window is no part of the identity":
		k.counter = x.Counter.Limiter + x.Counter.Limit
	case "the limit's name is no part of the identity":
		k.counter = x.Counter.Limiter + string(rune(x.Counter.Window))
	case "the limiter's name is no part of the identity":
		k.counter = x.Counter.Limit + string(rune(x.Counter.Window))
	case "the key is ignored":
		k.key = keyfunc.Key{}
	}
	c := r.counts[k]
	if c == nil {
		c = new(count)
		r.counts[k] = c
	}
	return c
}

func (r *reference) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return nil
}

func (r *reference) Do(_ context.Context, c *core.Call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed && !r.has("a closed store answers") {
		return core.ErrClosed
	}
	now := r.now()
	for i := range c.Parts {
		x := &c.Parts[i]
		r.place(x).judge(r, c, x, now)
	}
	if r.has("reading and booking are separate steps") {
		r.mu.Unlock()
		runtime.Gosched()
		r.mu.Lock()
	}
	admitted := !slices.ContainsFunc(c.Parts, func(x core.Part) bool {
		return !x.Done && (!x.Watched || r.has("a watched limit refuses"))
	})
	for i := range c.Parts {
		x := &c.Parts[i]
		r.place(x).book(r, c, x, r.admits(c, i, admitted))
		if !admitted && r.has("limits that fit are not done in a refused call") {
			x.Done = false
		}
	}
	return nil
}

// admits says whether part i is to be booked, where nothing but a fault makes
// that differ from one limit to the next.
func (r *reference) admits(c *core.Call, i int, admitted bool) bool {
	switch r.fault {
	case "the limits before the refusing one are charged":
		return !slices.ContainsFunc(c.Parts[:i], func(x core.Part) bool { return !x.Done && !x.Watched })
	case "limits that fit are charged in a refused call":
		return true
	case "a watched limit takes in a refused call":
		return admitted || c.Parts[i].Watched
	}
	return admitted
}

// judge fills in what is true before the call.
func (k *count) judge(r *reference, c *core.Call, x *core.Part, now core.Instant) {
	at := now + k.ahead
	if at < k.newest && !r.has("the clock runs backwards") {
		at = k.newest
		keep := !r.has("the clock stands still") && (!r.has("a peek forgets the difference") || c.Op != core.OpPeek)
		if keep && (!r.has("a refusal forgets the difference") || x.Cost <= x.N-k.sum(r, at)) {
			k.ahead = at - now
		}
	}
	if r.has("the clock runs backwards") {
		at = now
	}
	x.At = at
	k.forget(r, x)
	used := k.sum(r, at)
	x.Done = fits(r, x, used)
	x.FitsAt = at
	if !x.Done {
		x.FitsAt = k.wait(r, x)
	}
	if c.Op > core.OpReserve {
		x.FitsAt = at
	}
}

// forget is what some faulty stores do of themselves before they look.
func (k *count) forget(r *reference, x *core.Part) {
	if len(k.entries) == 0 {
		return
	}
	last, first := k.entries[len(k.entries)-1].made, k.entries[0].made
	switch {
	case r.has("the key expires one window after its last unit") && x.At >= last+core.Instant(x.Counter.Window),
		r.has("the key expires one window after its first unit") && x.At >= first+core.Instant(x.Counter.Window):
		k.entries = nil
	case r.has("slots modulo n") && x.Counter.Algorithm != core.Exact:
		size, n := core.Instant(x.Counter.SlotSize), core.Instant(x.Counter.Slots+1)
		for i, e := range k.entries {
			if e.leaves <= x.At && e.made/size%n == x.At/size%n {
				k.entries[i].leaves = (x.At/size + n) * size
			}
		}
	}
}

func fits(r *reference, x *core.Part, used int64) bool {
	switch r.fault {
	case "the cost is ignored":
		return used < x.N
	case "the sum is a float32":
		return float32(used)+float32(x.Cost) <= float32(x.N)
	case "the sum is an int32":
		return int32(used)+int32(x.Cost) <= int32(x.N)
	case "room is unsigned":
		return uint64(x.Cost) <= uint64(x.N-used)
	case "one too many":
		return x.Cost <= x.N-used+1
	}
	return x.Cost <= x.N-used
}

func (r *reference) isLive(e entry, at core.Instant) bool {
	switch r.fault {
	case "a unit counts at its release instant":
		return e.leaves >= at
	case "a unit leaves 1 µs early":
		return e.leaves > at+1
	case "a lapsed reservation stays":
		return e.leaves > at || e.id != core.ReservationID{}
	case "dead units never leave":
		return true
	}
	return e.leaves > at
}

func (k *count) sum(r *reference, at core.Instant) int64 {
	var sum int64
	for _, e := range k.entries {
		if !r.isLive(e, at) || r.has("pending units do not count") && e.id != (core.ReservationID{}) {
			continue
		}
		sum += e.units
		if r.has("totals are float64") {
			sum = int64(float64(sum))
		}
		if r.has("totals have 53 bits") {
			sum &= 1<<53 - 1
		}
	}
	return sum
}

// wait goes through the entries in the order in which they leave.
func (k *count) wait(r *reference, x *core.Part) core.Instant {
	if x.Cost > x.N && !r.has("a cost above N is told a wait") {
		return 0
	}
	byLeaving := slices.SortedFunc(slices.Values(k.entries), func(a, b entry) int { return int(a.leaves - b.leaves) })
	left := k.sum(r, x.At)
	for _, e := range byLeaving {
		if !r.isLive(e, x.At) {
			continue
		}
		left -= e.units
		if x.Cost > x.N-left && !r.has("the wait is that of the oldest unit") && e != byLeaving[len(byLeaving)-1] {
			continue
		}
		switch r.fault {
		case "the wait is 1 µs too long":
			return e.leaves + 1
		case "the wait is 1 µs too short":
			return e.leaves - 1
		case "the wait is the whole window":
			return x.At + core.Instant(x.Counter.Window)
		}
		return e.leaves
	}
	return 0
}

// book does what the call wants, and fills in what is true after it.
func (k *count) book(r *reference, c *core.Call, x *core.Part, admitted bool) {
	switch c.Op {
	case core.OpTake, core.OpReserve:
		k.take(r, c, x, admitted)
	case core.OpPeek:
		if r.has("a peek counts") && x.Done {
			k.add(r, x, x.Cost)
		}
	case core.OpReset:
		k.reset(r, c, x)
	default:
		k.end(r, c, x)
	}
	x.Used = k.sum(r, x.At)
	var oldest core.Instant
	for _, e := range k.entries {
		skip := r.has("the oldest ignores pending units") && e.id != core.ReservationID{}
		if r.isLive(e, x.At) && !skip && (oldest == 0 || e.leaves < oldest) {
			oldest = e.leaves
		}
	}
	if oldest != 0 || !r.has("a field of the answer is left as it was") {
		x.OldestLeaves = oldest
	}
}

func (k *count) take(r *reference, c *core.Call, x *core.Part, admitted bool) {
	switch {
	case admitted && (x.Done || r.has("a watched limit takes what does not fit")):
		if c.Op == core.OpTake || r.has("a reservation is a take") {
			k.add(r, x, x.Cost)
			return
		}
		lapses := x.At + core.Instant(x.Counter.Window)
		if r.has("a reservation lapses with its slot") {
			lapses = x.Counter.Release(x.At, x.CountsExactly(k.sum(r, x.At)+x.Cost))
		}
		k.entries = append(k.entries, entry{x.At, lapses, x.Cost, c.ID})
		if !r.has("a reservation does not move the key's time") {
			k.newest = x.At
		}
	case !admitted && r.has("a refusal counts"):
		k.add(r, x, x.Cost)
	case !admitted && r.has("a refusal moves the key's time"):
		k.newest = x.At
	case !admitted && r.has("a refusal prolongs what is there"):
		for i := range k.entries {
			if k.entries[i].leaves > x.At {
				k.entries[i].leaves++
			}
		}
	}
}

// add books final units.
func (k *count) add(r *reference, x *core.Part, units int64) {
	if units == 0 {
		return
	}
	if r.has("a unit is an int32") {
		units = int64(int32(units))
	}
	used := k.sum(r, x.At) + units
	exact := x.CountsExactly(used)
	switch {
	case r.has("hybrid always uses slots") && x.Counter.Algorithm == core.Hybrid:
		exact = false
	case r.has("hybrid is hot from its threshold on") && x.Counter.Algorithm == core.Hybrid:
		exact = used >= x.HotFrom
	case r.has("hybrid forgets the cost at its threshold") && x.Counter.Algorithm == core.Hybrid:
		exact = used-units > x.HotFrom
	}
	leaves := x.Counter.Release(x.At, exact)
	if !exact && r.has("one slot too few") {
		leaves -= core.Instant(x.Counter.SlotSize)
	}
	if r.has("units of one instant are merged into one") {
		k.entries = slices.DeleteFunc(k.entries, func(e entry) bool { return e.made == x.At && e.leaves == leaves })
	}
	if !r.has("slots modulo n") {
		k.entries = slices.DeleteFunc(k.entries, func(e entry) bool { return !r.isLive(e, x.At) })
	}
	k.entries = append(k.entries, entry{made: x.At, leaves: leaves, units: units})
	k.newest = x.At
}

func (k *count) reset(r *reference, c *core.Call, x *core.Part) {
	x.Done = true
	switch {
	case r.has("a reset forgets the first limit alone") && x != &c.Parts[0]:
	case r.has("a reset keeps reservations"):
		k.entries = slices.DeleteFunc(k.entries, func(e entry) bool { return e.id == core.ReservationID{} })
	case r.has("a reset keeps the difference"):
		k.entries = nil
	default:
		*k = count{}
	}
}

func (k *count) end(r *reference, c *core.Call, x *core.Part) {
	i := slices.IndexFunc(k.entries, func(e entry) bool { return e.id == c.ID && r.isLive(e, x.At) })
	x.Done = i >= 0
	if i < 0 {
		k.lateEnd(r, c, x)
		return
	}
	held := k.entries[i]
	if !(c.Op == core.OpCommit && r.has("a commit keeps the pending units too")) {
		k.entries = slices.Delete(slices.Clone(k.entries), i, i+1)
	}
	switch {
	case c.Op == core.OpCommit && r.has("a commit counts from the reservation"):
		held.id = core.ReservationID{}
		k.entries = append(k.entries, held)
	case c.Op == core.OpCommit:
		k.add(r, x, x.Reserved)
	case c.Op == core.OpCorrect && r.has("a correction above N is refused") && x.Cost > x.N-k.sum(r, x.At):
		k.entries = append(k.entries, held)
	case c.Op == core.OpCorrect && r.has("a correction never gives back"):
		k.add(r, x, max(x.Cost, x.Reserved))
	case c.Op == core.OpCorrect:
		k.add(r, x, x.Cost)
	}
}

func (k *count) lateEnd(r *reference, c *core.Call, x *core.Part) {
	switch {
	case r.has("a cancel subtracts twice") && c.Op == core.OpCancel:
		k.entries = append(k.entries, entry{x.At, x.Counter.Release(x.At, true), -x.Reserved, core.ReservationID{}})
	case r.has("a late commit counts") && c.Op == core.OpCommit:
		k.add(r, x, x.Reserved)
	case c.Op != core.OpCorrect || r.has("a late correction loses the excess"):
	case r.has("a late correction counts in full"):
		k.add(r, x, x.Cost)
	default:
		k.add(r, x, max(0, x.Cost-x.Reserved))
	}
}
