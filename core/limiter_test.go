package core_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// scripted is a store that answers as a test tells it, and writes down what it
// was asked. Without an answer it admits everything.
type scripted struct {
	answer func(context.Context, *core.Call) error

	mu     sync.Mutex
	calls  []core.Call
	closed int
}

func (s *scripted) Do(ctx context.Context, c *core.Call) error {
	asked := *c
	asked.Parts = slices.Clone(c.Parts)
	s.mu.Lock()
	s.calls = append(s.calls, asked)
	s.mu.Unlock()
	if s.answer != nil {
		return s.answer(ctx, c)
	}
	for i := range c.Parts {
		p := &c.Parts[i]
		p.At, p.Used, p.OldestLeaves, p.FitsAt, p.Done = start, p.Cost, start+1, start, true
	}
	return nil
}

func (s *scripted) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

func (s *scripted) seen() []core.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func TestAllowTakesOneUnitAtATime(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		limit := as(core.PerMinute(3))
		l := limiterOn(t, newHandClock(), limit)
		for i := int64(1); i <= 3; i++ {
			d, err := l.Allow(context.Background(), someone)
			s := d.Shown()
			if err != nil || !d.Allowed || d.Reason != core.Admitted || d.Cost != 1 || d.RetryAfter() != 0 {
				t.Fatalf("call %d: %+v, %v", i, d, err)
			}
			if s.N != 3 || s.Used != i || s.Remaining() != 3-i || s.Violated || s.At != start || s.FitsAt != start {
				t.Fatalf("call %d: %+v", i, s)
			}
			if late := s.OldestLeaves.Sub(start) - time.Minute; late < 0 || late > slotOf(limit) {
				t.Fatalf("call %d: the oldest leaves %v late", i, late)
			}
		}
		d, err := l.Allow(context.Background(), someone)
		s := d.Shown()
		if err != nil || d.Allowed || d.Reason != core.Refused || d.Cost != 1 {
			t.Fatalf("one too many: %+v, %v", d, err)
		}
		if s.Used != 3 || s.Remaining() != 0 || !s.Violated || s.At != start || d.At() != start {
			t.Fatalf("one too many: %+v", s)
		}
		if late := d.RetryAfter() - time.Minute; late < 0 || late > slotOf(limit) || s.Wait() != d.RetryAfter() {
			t.Fatalf("one too many: it fits %v after a minute", late)
		}
	})
}

func TestAllowNTakesAllOrNothing(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		l := limiterOn(t, newHandClock(), as(core.PerMinute(10)))
		for _, test := range []struct {
			cost    int64
			allowed bool
			used    int64
		}{{8, true, 8}, {3, false, 8}, {2, true, 10}, {1, false, 10}} {
			d := allow(t, l, test.cost)
			if d.Allowed != test.allowed || d.Shown().Used != test.used || d.Cost != test.cost {
				t.Errorf("cost %d: %+v", test.cost, d)
			}
		}
	})
}

func TestACostAboveNNeverFits(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		l := limiterOn(t, newHandClock(), as(core.PerMinute(10)), core.PerHour(100))
		for _, cost := range []int64{11, 12, core.MaxUnits} {
			d := allow(t, l, cost)
			s := d.Shown()
			if d.Allowed || d.Reason != core.NeverFits || d.RetryAfter() != 0 || s.Name() != "1m" {
				t.Errorf("cost %d: %+v", cost, d)
			}
			if !s.Violated || s.FitsAt != 0 || s.Wait() != 0 || s.Used != 0 || !s.OldestLeaves.IsZero() {
				t.Errorf("cost %d: %+v", cost, s)
			}
		}
		if d := allow(t, l, 10); !d.Allowed {
			t.Errorf("what fits exactly: %+v", d)
		}
	})
}

func TestPeekCountsNothing(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		ctx := context.Background()
		l := limiterOn(t, newHandClock(), as(core.PerMinute(3)))
		for range 5 {
			d, err := l.Peek(ctx, someone)
			if err != nil || !d.Allowed || d.Reason != core.Admitted || d.Cost != 1 || d.Shown().Used != 0 || d.Shown().OldestLeaves != 0 {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		allow(t, l, 2)
		for cost, want := range map[int64]core.Reason{1: core.Admitted, 2: core.Refused, 3: core.Refused, 4: core.NeverFits} {
			looked := peek(t, l, cost)
			if looked.Reason != want || looked.Allowed != (want == core.Admitted) || looked.Shown().Used != 2 || looked.Cost != cost {
				t.Errorf("cost %d: %+v, want %v", cost, looked, want)
			}
			if want == core.Admitted {
				continue
			}
			if taken := allow(t, l, cost); taken.Shown() != looked.Shown() || taken.RetryAfter() != looked.RetryAfter() {
				t.Errorf("cost %d: peek said %+v, allow %+v", cost, looked, taken)
			}
		}
	})
}

func TestResetForgetsOneKeyInAllLimits(t *testing.T) {
	ctx := context.Background()
	l := limiterOn(t, newHandClock(), core.PerMinute(3), core.PerHour(5).Slotted(6), core.PerDay(7).Hybrid(24, 0.3).Key(keyfunc.ByIP()))
	other := keyfunc.User("other")
	own := core.ForLimit("24h", keyfunc.Name("address"))
	allowKey(t, l, other, 2, own)
	allow(t, l, 3, own)
	r, _, err := l.Reserve(ctx, other, 1, own)
	if err != nil || r == nil {
		t.Fatal(err)
	}
	if err := l.Reset(ctx, other, own); err != nil {
		t.Fatal(err)
	}
	if err := r.Commit(ctx); !errors.Is(err, core.ErrLapsed) {
		t.Errorf("a reservation that was reset: %v", err)
	}
	d, err := l.Peek(ctx, other, own)
	if err != nil {
		t.Fatal(err)
	}
	for s := range d.Limits() {
		if s.Used != 0 || s.OldestLeaves != 0 {
			t.Errorf("after the reset: %+v", s)
		}
	}
	// The address was counted for both; someone's own limits were not touched.
	d = peek(t, l, 1, own)
	for name, want := range map[string]int64{"1m": 3, "1h": 3, "24h": 0} {
		if s, _ := d.Limit(name); s.Used != want {
			t.Errorf("%s: %d used, want %d", name, s.Used, want)
		}
	}
	if err := l.Reset(ctx, keyfunc.User("nobody"), own); err != nil {
		t.Errorf("a key that is not known: %v", err)
	}
}

func TestResetNeedsKeysAndAStore(t *testing.T) {
	ctx := context.Background()
	broken := errors.New("store on fire")
	store := &scripted{answer: func(context.Context, *core.Call) error { return broken }}
	l := limiterWith(t, core.Config{Name: "test", Limits: []core.Limit{core.PerMinute(1)}, Store: store})
	if err := l.Reset(ctx, keyfunc.Key{}); !errors.Is(err, keyfunc.ErrMissing) || len(store.seen()) != 0 {
		t.Errorf("without a key: %v", err)
	}
	if err := l.Reset(ctx, someone); !errors.Is(err, core.ErrNoDecision) || !errors.Is(err, broken) {
		t.Errorf("the store fails: %v", err)
	}
	asked := store.seen()
	if len(asked) != 1 || asked[0].Op != core.OpReset {
		t.Errorf("the store was asked %+v", asked)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := l.Reset(ended, someone); err != context.Canceled || len(store.seen()) != 1 {
		t.Errorf("after the end of the context: %v", err)
	}
}

// A full store counts new keys in shared cells, and tells when a reset would
// free the units of others.
func TestResetOfAKeyThatIsCountedWithOthers(t *testing.T) {
	c := newHandClock()
	m, err := core.NewMemory(core.MemoryConfig{MaxKeys: 1, Clock: c.now})
	if err != nil {
		t.Fatal(err)
	}
	l := limiterWith(t, core.Config{Name: "test", Limits: []core.Limit{core.PerMinute(3)}, Store: m})
	allowKey(t, l, keyfunc.User("first"), 1)
	allow(t, l, 2)
	if err := l.Reset(context.Background(), someone); !errors.Is(err, core.ErrShared) {
		t.Errorf("got %v", err)
	}
	if got := used(t, l); got != 2 {
		t.Errorf("%d units are left, want 2", got)
	}
	if err := l.Reset(context.Background(), keyfunc.User("first")); err != nil {
		t.Errorf("a key of its own: %v", err)
	}
}

func TestCostsThatAreNone(t *testing.T) {
	ctx := context.Background()
	store := &scripted{}
	l := limiterWith(t, core.Config{Name: "test", Limits: []core.Limit{core.PerMinute(10)}, Store: store})
	for cost, text := range map[int64]string{
		0: "0", -1: "-1", -5: "-5", -1 << 63: "-9223372036854775808",
		core.MaxUnits + 1: "1000000000000000", 1<<63 - 1: "9223372036854775807",
	} {
		d, err := l.AllowN(ctx, someone, cost)
		wantFault(t, err, "cost", text)
		if d.Allowed || d.Shown() != (core.LimitState{}) {
			t.Errorf("cost %d: %+v beside the error", cost, d)
		}
		_, err = l.PeekN(ctx, someone, cost)
		wantFault(t, err, "cost", text)
		r, _, err := l.Reserve(ctx, someone, cost)
		wantFault(t, err, "cost", text)
		if r != nil {
			t.Errorf("cost %d was reserved", cost)
		}
		_, err = l.WaitN(ctx, someone, cost)
		wantFault(t, err, "cost", text)
	}
	if calls := store.seen(); len(calls) != 0 {
		t.Errorf("the store was asked %d times", len(calls))
	}
	for _, cost := range []int64{1, core.MaxUnits} {
		if _, err := l.AllowN(ctx, someone, cost); err != nil {
			t.Errorf("cost %d: %v", cost, err)
		}
	}
}

func TestLimitsWithKeysOfTheirOwn(t *testing.T) {
	l := limiterOn(t, newHandClock(), core.PerMinute(5), core.PerMinute(3).Named("address").Key(keyfunc.ByIP()))
	a, b := core.ForLimit("address", keyfunc.Name("a")), core.ForLimit("address", keyfunc.Name("b"))
	for i, want := range []struct {
		own     core.LimitKey
		allowed bool
		shown   string
		user    int64
		address int64
	}{
		{a, true, "address", 1, 1},
		{a, true, "address", 2, 2},
		{a, true, "address", 3, 3},
		{a, false, "address", 3, 3},
		{b, true, "1m", 4, 1},
		{b, true, "1m", 5, 2},
		{b, false, "1m", 5, 2},
		{a, false, "1m", 5, 3}, // both: the first of those that wait alike
	} {
		d := allow(t, l, 1, want.own)
		user, _ := d.Limit("1m")
		address, _ := d.Limit("address")
		if d.Allowed != want.allowed || d.Shown().Name() != want.shown || user.Used != want.user || address.Used != want.address {
			t.Errorf("call %d: %v, %s, %d and %d used; want %+v", i, d.Allowed, d.Shown().Name(), user.Used, address.Used, want)
		}
	}
}

func TestKeysThatAreMissingUnknownOrNotNeeded(t *testing.T) {
	ctx := context.Background()
	store := &scripted{}
	ip := keyfunc.ByIP()
	mixed := limiterWith(t, core.Config{Name: "mixed", Store: store, Limits: []core.Limit{core.PerMinute(5), core.PerHour(3).Named("address").Key(ip)}})
	address := core.ForLimit("address", keyfunc.Name("a"))
	for _, test := range []struct {
		name  string
		key   keyfunc.Key
		own   []core.LimitKey
		text  string
		field bool // a FieldError, not a MissingError
	}{
		{"no key at all", keyfunc.Key{}, nil, "the one given is empty", false},
		{"empty key", keyfunc.User(""), []core.LimitKey{address}, "the one given is empty", false},
		{"own key missing", someone, nil, `the key of limit "address": pass core.ForLimit("address", key)`, false},
		{"own key empty", someone, []core.LimitKey{core.ForLimit("address", keyfunc.Key{})}, `the key of limit "address"`, false},
		{"unknown limit", someone, []core.LimitKey{address, core.ForLimit("adress", someone)}, `ForLimit = adress: the limiter has no such limit`, true},
		{"key not needed", someone, []core.LimitKey{core.ForLimit("1m", someone), address}, `ForLimit = 1m: the limit has no key of its own`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			check := func(op string, err error) {
				t.Helper()
				missing, isMissing := errors.AsType[*keyfunc.MissingError](err)
				if isMissing == test.field || isMissing && (missing.Required || !errors.Is(err, keyfunc.ErrMissing)) {
					t.Errorf("%s: %T %v", op, err, err)
				}
				if test.field {
					checkFaults(t, err)
				}
				if err == nil || !strings.Contains(err.Error(), test.text) {
					t.Errorf("%s: %v, want …%s…", op, err, test.text)
				}
			}
			d, err := mixed.Allow(ctx, test.key, test.own...)
			check("allow", err)
			if d.Allowed {
				t.Error("allowed beside an error")
			}
			_, err = mixed.AllowN(ctx, test.key, 2, test.own...)
			check("allow n", err)
			_, err = mixed.Peek(ctx, test.key, test.own...)
			check("peek", err)
			_, err = mixed.PeekN(ctx, test.key, 2, test.own...)
			check("peek n", err)
			_, err = mixed.Wait(ctx, test.key, test.own...)
			check("wait", err)
			_, err = mixed.WaitN(ctx, test.key, 2, test.own...)
			check("wait n", err)
			r, _, err := mixed.Reserve(ctx, test.key, 2, test.own...)
			check("reserve", err)
			if r != nil {
				t.Error("reserved beside an error")
			}
			check("reset", mixed.Reset(ctx, test.key, test.own...))
		})
	}
	if calls := store.seen(); len(calls) != 0 {
		t.Errorf("the store was asked %d times", len(calls))
	}
	if _, err := mixed.Allow(ctx, someone, address); err != nil {
		t.Errorf("with all keys: %v", err)
	}
	own := limiterWith(t, core.Config{Name: "own", Store: store, Limits: []core.Limit{core.PerHour(3).Named("address").Key(ip)}})
	if _, err := own.Allow(ctx, keyfunc.Key{}, address); err != nil {
		t.Errorf("a limiter whose only limit has a key of its own needs no other: %v", err)
	}
	calls := store.seen()
	if calls[0].Parts[0].Key != someone || calls[0].Parts[1].Key != address.Key || calls[1].Parts[0].Key != address.Key {
		t.Errorf("the store was asked for %v, %v and %v", calls[0].Parts[0].Key, calls[0].Parts[1].Key, calls[1].Parts[0].Key)
	}
}

// What reaches the store says nothing about who is counted to those who do not
// know the secret.
func TestKeysAreSealedBeforeTheyReachTheStore(t *testing.T) {
	ctx := context.Background()
	store := &scripted{}
	build := func(secret string) *core.Limiter {
		return limiterWith(t, core.Config{
			Name: "sealed", Store: store, Secret: []byte(secret),
			Limits: []core.Limit{core.PerMinute(5), core.PerHour(3).Named("address").Key(keyfunc.ByIP())},
		})
	}
	address := core.ForLimit("address", keyfunc.Name("203.0.113.9"))
	const secret = "a secret of 16 b or more"
	use := func(l *core.Limiter) {
		allow(t, l, 1, address)
		if _, err := l.Peek(ctx, someone, address); err != nil {
			t.Error(err)
		}
		if err := l.Reset(ctx, someone, address); err != nil {
			t.Error(err)
		}
		r, _, err := l.Reserve(ctx, someone, 1, address)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Commit(ctx); err != nil {
			t.Error(err)
		}
	}
	use(build(secret))
	use(build(secret))
	alike := store.seen()
	use(build("another secret of 16 b or more"))
	for i, c := range store.seen() {
		for k, p := range c.Parts {
			plain := []keyfunc.Key{someone, address.Key}[k]
			if p.Key == plain || p.Key.IsZero() || strings.Contains(p.Key.String(), "someone") || strings.Contains(p.Key.String(), "203") {
				t.Errorf("call %d (%v): the store saw %v", i, c.Op, p.Key)
			}
			if same := p.Key == alike[0].Parts[k].Key; same != (i < len(alike)) {
				t.Errorf("call %d (%v): sealed like the first: %v", i, c.Op, same)
			}
		}
	}
}

func TestLimitersOfOneStore(t *testing.T) {
	c := newHandClock()
	m := memoryOn(t, c)
	build := func(name string, limits ...core.Limit) *core.Limiter {
		return limiterWith(t, core.Config{Name: name, Limits: limits, Store: m})
	}
	first, second := build("api", core.PerMinute(5)), build("api", core.PerMinute(5))
	allow(t, first, 2)
	if d := allow(t, second, 1); d.Shown().Used != 3 {
		t.Errorf("limiters of one identity count apart: %+v", d.Shown())
	}
	for what, other := range map[string]*core.Limiter{
		"another name":         build("web", core.PerMinute(5)),
		"another limit name":   build("api", core.PerMinute(5).Named("x")),
		"another window":       build("api", core.PerMinute(5), core.PerHour(9)),
		"another algorithm":    build("api", core.PerMinute(5).Slotted(6)),
		"other slots":          build("api", core.PerMinute(5).Slotted(12)),
		"counted in two ways":  build("api", core.PerMinute(5).Hybrid(6, 0)),
		"the name of a window": build("1m", core.PerMinute(5).Named("api")),
	} {
		d := peek(t, other, 1)
		s, _ := d.Limit("1h")
		if what != "another window" {
			s = d.Shown()
		}
		if s.Used != 0 {
			t.Errorf("%s: %d used", what, s.Used)
		}
	}
	if d := peek(t, build("api", core.PerMinute(7)), 1); d.Shown().Used != 3 || d.Shown().Remaining() != 4 {
		t.Errorf("another N starts anew: %+v", d.Shown())
	}
}

// Random calls against several limits: a refusal changes no count, and names
// every limit that has no room and no other.
func TestARefusalByOneLimitChangesNoOther(t *testing.T) {
	for name, limits := range map[string][]core.Limit{
		"two":   {core.PerSecond(10), core.PerMinute(120).Slotted(12)},
		"three": {core.PerSecond(10).Hybrid(10, 0.5), core.Per(25, 5*time.Second), core.PerMinute(150).Slotted(20)},
		"five":  {core.PerSecond(9), core.Per(14, 2*time.Second), core.Per(22, 4*time.Second).Slotted(8), core.Per(33, 8*time.Second).Hybrid(8, 0.5), core.PerMinute(200)},
	} {
		t.Run(name, func(t *testing.T) {
			c := newHandClock()
			l := limiterOn(t, c, limits...)
			random := rand.New(rand.NewPCG(1, uint64(len(limits))))
			byOne, byMore, admitted := 0, 0, 0
			for i := range 10_000 {
				c.advance(time.Duration(random.IntN(150_000)) * time.Microsecond)
				cost := 1 + random.Int64N(4)
				before := slices.Collect(limitsOf(peek(t, l, cost)))
				d := allow(t, l, cost)
				after := slices.Collect(d.Limits())
				if !d.Allowed { // what was counted meanwhile, not what the answer says
					after = slices.Collect(limitsOf(peek(t, l, 1)))
				}
				violated := 0
				for k, s := range slices.Collect(d.Limits()) {
					fits := before[k].Used+cost <= s.N
					if !fits {
						violated++
					}
					want := before[k].Used
					if d.Allowed {
						want += cost
					}
					if s.Violated == fits || s.Used != want || after[k].Used != want || before[k].Violated == fits {
						t.Fatalf("call %d of %d: %s had %d of %d used: %+v, then %d used", i, cost, s.Name(), before[k].Used, s.N, s, after[k].Used)
					}
				}
				if d.Allowed != (violated == 0) {
					t.Fatalf("call %d: allowed %v with %d violated", i, d.Allowed, violated)
				}
				switch violated {
				case 0:
					admitted++
				case 1:
					byOne++
				default:
					byMore++
				}
			}
			if admitted < 500 || byOne < 500 || byMore < 50 {
				t.Errorf("too few of one kind: %d admitted, %d refused by one limit, %d by several", admitted, byOne, byMore)
			}
		})
	}
}

// The wait is exact: at the instant it names, the same request passes; a
// microsecond before, it does not.
func TestARefusedRequestPassesAtTheInstantItWasTold(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		for name, limits := range map[string][]core.Limit{
			"one":   {as(core.Per(20, time.Second))},
			"three": {as(core.Per(10, 500*time.Millisecond)), as(core.Per(30, 2*time.Second)), core.Per(60, 7*time.Second)},
		} {
			t.Run(name, func(t *testing.T) {
				c := newHandClock()
				l := limiterOn(t, c, limits...)
				random := rand.New(rand.NewPCG(2, 3))
				for refusals := 0; refusals < 1000; {
					c.advance(time.Duration(random.IntN(50_000)) * time.Microsecond)
					cost := 1 + random.Int64N(8)
					d := allow(t, l, cost)
					if d.Allowed {
						continue
					}
					refusals++
					fits := d.Shown().FitsAt
					if wait := d.RetryAfter(); wait <= 0 || d.At().Add(wait) != fits || d.At() != core.InstantOf(c.now()) {
						t.Fatalf("at %d: fits at %d, wait %v", d.At(), fits, wait)
					}
					if random.IntN(3) == 0 {
						continue // come back at another time
					}
					c.set(fits - 1)
					if early := allow(t, l, cost); early.Allowed || early.RetryAfter() != time.Microsecond {
						t.Fatalf("a microsecond early: allowed %v, wait %v", early.Allowed, early.RetryAfter())
					}
					c.set(fits)
					if again := allow(t, l, cost); !again.Allowed {
						t.Fatalf("refused at the instant: %+v", again.Shown())
					}
				}
			})
		}
	})
}

// Calls are reused. What a store is asked must not depend on who asked before.
func TestACallCarriesNothingOverFromTheOneBefore(t *testing.T) {
	ctx := context.Background()
	store := &scripted{}
	l := limiterWith(t, core.Config{Name: "test", Limits: []core.Limit{core.PerMinute(10).Hybrid(6, 0.5), core.PerHour(50)}, Store: store})
	for range 20 {
		if err := reserve(t, l, 7).Correct(ctx, 3); err != nil {
			t.Fatal(err)
		}
		allow(t, l, 2)
		peek(t, l, 4)
		if err := l.Reset(ctx, someone); err != nil {
			t.Fatal(err)
		}
	}
	costs := map[core.Op]int64{core.OpReserve: 7, core.OpCorrect: 3, core.OpTake: 2, core.OpPeek: 4, core.OpReset: 1}
	for _, c := range store.seen() {
		for i, p := range c.Parts {
			want := core.Part{Counter: p.Counter, Key: someone, N: []int64{10, 50}[i], HotFrom: []int64{5, 0}[i], Cost: costs[c.Op]}
			if c.Op == core.OpCorrect {
				want.Reserved, want.ReservedAt = 7, start
			}
			if p != want || p.Counter == nil || p.Counter.Limit != []string{"1m", "1h"}[i] || p.Counter.Limiter != "test" {
				t.Fatalf("%v: the store was asked %+v, want %+v", c.Op, p, want)
			}
		}
	}
}

// Up to its share hot of N a Hybrid limit counts by slots, and exactly above it.
func TestAHybridLimitCountsExactlyOnceItIsHot(t *testing.T) {
	for _, test := range []struct {
		n    int64
		hot  float64
		cold int64 // units that are counted by slots
	}{{10, 0.5, 5}, {10, 0, 8}, {10, 0.01, 0}, {10, 0.99, 9}, {7, 0.8, 5}, {10, 0.7, 7}, {1000, 0.8, 800}} {
		c := newHandClock()
		l := limiterOn(t, c, core.PerMinute(test.n).Hybrid(6, test.hot)) // slots of 10 s
		c.at(time.Second)
		for range test.n {
			allow(t, l, 1)
		}
		c.at(61*time.Second - time.Microsecond)
		wantUsed(t, l, test.n)
		c.at(61 * time.Second)
		wantUsed(t, l, test.cold)
		c.at(70*time.Second - time.Microsecond)
		wantUsed(t, l, test.cold)
		c.at(70 * time.Second)
		wantUsed(t, l, 0)
	}
}

func TestOpNames(t *testing.T) {
	for op, want := range map[core.Op]string{
		core.OpTake: "take", core.OpPeek: "peek", core.OpReserve: "reserve", core.OpCommit: "commit",
		core.OpCorrect: "correct", core.OpCancel: "cancel", core.OpReset: "reset", 7: "Op(7)",
	} {
		if got := op.String(); got != want {
			t.Errorf("Op %d is called %q, want %q", uint8(op), got, want)
		}
	}
}
