package fallback_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/fallback"
	"github.com/slidegate/slidegate/core/storetest"
	"github.com/slidegate/slidegate/keyfunc"
)

// primary is a store that can be broken.
type primary struct {
	core.Store
	asked  atomic.Int64
	broken atomic.Pointer[error]
	closed atomic.Int64
	before func() // what happens while it is asked
}

func (p *primary) Do(ctx context.Context, c *core.Call) error {
	p.asked.Add(1)
	if p.before != nil {
		p.before()
	}
	if err := p.broken.Load(); err != nil {
		return *err
	}
	return p.Store.Do(ctx, c)
}

func (p *primary) Close() error {
	p.closed.Add(1)
	return p.Store.Close()
}

func (p *primary) fail(err error) { p.broken.Store(&err) }
func (p *primary) mend()          { p.broken.Store(nil) }

func outage(f core.Failure) error {
	return &core.StoreError{Failure: f, Err: errors.New("the text of " + f.String())}
}

// house is a primary store and a Store in front of it, on one clock.
type house struct {
	*testing.T
	clock   *storetest.Clock
	primary *primary
	*fallback.Store
	log *logged
}

// logged takes log lines.
type logged struct {
	mu   sync.Mutex
	b    strings.Builder
	slow func() // what happens while a line is written
}

func (l *logged) Write(b []byte) (int, error) {
	if l.slow != nil {
		l.slow()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var start = core.InstantOf(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))

func newHouse(t *testing.T, cfg fallback.Config) *house {
	t.Helper()
	h := &house{T: t, clock: storetest.NewClock(start), log: new(logged)}
	clock := func() time.Time { return h.clock.Now().Time() }
	m, err := core.NewMemory(core.MemoryConfig{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	h.primary = &primary{Store: m}
	cfg.Clock, cfg.Logger = clock, slog.New(slog.NewTextHandler(h.log, nil))
	if h.Store, err = fallback.New(h.primary, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Store.Close() })
	return h
}

var counter = core.NewCounter("api", "1m", time.Minute, core.Exact, 0)

func call(op core.Op, n, cost int64) *core.Call {
	return &core.Call{Op: op, Budget: time.Minute, Parts: []core.Part{{Counter: counter, Key: keyfunc.User("ada"), N: n, Cost: cost}}}
}

// do has the store answer a call that must not fail.
func (h *house) do(c *core.Call) *core.Call {
	h.Helper()
	if err := h.Store.Do(h.Context(), c); err != nil {
		h.Fatalf("%s: %v", c.Op, err)
	}
	return c
}

// admits returns how many of n units are admitted one by one, of a limit of N.
func (h *house) admits(n, limit int64) (admitted int64) {
	h.Helper()
	for range n {
		if h.do(call(core.OpTake, limit, 1)).Parts[0].Done {
			admitted++
		}
	}
	return admitted
}

func TestWhatThePrimaryDecidesStands(t *testing.T) {
	h := newHouse(t, fallback.Config{})
	for i := range 6 {
		c := h.do(call(core.OpTake, 3, 1))
		if c.Parts[0].Done != (i < 3) || c.Failure != core.NoFailure || c.Parts[0].N != 3 {
			t.Errorf("call %d: %+v", i, c)
		}
	}
	if st := h.Status(); !st.Healthy || len(st.Local)+len(st.Undecided) > 0 || !st.Since.IsZero() || h.primary.asked.Load() != 6 {
		t.Errorf("%+v after %d calls", st, h.primary.asked.Load())
	}
}

// The window slides over the outage: what the primary has admitted counts until it is a
// window old, and the waits are exact.
func TestTheLocalWindowIsWarmAndSlides(t *testing.T) {
	for cold, want := range map[bool]int64{false: 1, true: 10} {
		h := newHouse(t, fallback.Config{Cold: cold})
		h.clock.Advance(59 * time.Second)
		if got := h.admits(9, 10); got != 9 {
			t.Fatalf("%d admitted by the primary", got)
		}
		h.primary.fail(outage(core.FailureRefused))
		h.clock.Advance(2 * time.Second)
		if got := h.admits(12, 10); got != want {
			t.Errorf("cold %v: %d more, want %d", cold, got, want)
		}
		c := h.do(call(core.OpTake, 10, 1))
		wait := 58 * time.Second
		if cold {
			wait = time.Minute
		}
		if x := c.Parts[0]; c.Failure != core.FailureRefused || x.Done || x.FitsAt.Sub(x.At) != wait {
			t.Errorf("cold %v: refused for %v, %+v", cold, x.FitsAt.Sub(x.At), c)
		}
		h.clock.Advance(wait - time.Microsecond)
		if h.do(call(core.OpTake, 10, 1)).Parts[0].Done {
			t.Errorf("cold %v: admitted too early", cold)
		}
		h.clock.Advance(time.Microsecond)
		if !h.do(call(core.OpTake, 10, 1)).Parts[0].Done {
			t.Errorf("cold %v: refused at the announced instant", cold)
		}
	}
}

func TestEachInstanceHasItsShare(t *testing.T) {
	share := func(f float64) func() float64 { return func() float64 { return f } }
	for _, test := range []struct {
		cfg     fallback.Config
		n, want int64
	}{
		{fallback.Config{}, 100, 100},
		{fallback.Config{Replicas: 1}, 100, 100},
		{fallback.Config{Replicas: 4}, 100, 25},
		{fallback.Config{Replicas: 3}, 100, 33},
		{fallback.Config{Replicas: 1000}, 100, 1},
		{fallback.Config{Share: share(0.1)}, 100, 10},
		{fallback.Config{Share: share(0)}, 100, 1},
		{fallback.Config{Share: share(-3)}, 100, 1},
		{fallback.Config{Share: share(7)}, 100, 100},
		{fallback.Config{Share: share(math.NaN())}, 100, 100},
	} {
		h := newHouse(t, test.cfg)
		h.primary.fail(outage(core.FailureTimeout))
		if got := h.admits(test.n+1, test.n); got != test.want {
			t.Errorf("%d admitted, want %d", got, test.want)
		}
		if c := h.do(call(core.OpPeek, test.n, 1)); c.Parts[0].N != test.want {
			t.Errorf("the quota in force is %d, want %d", c.Parts[0].N, test.want)
		}
	}
}

func TestACostlyRequestPassesWhenNothingElseCounts(t *testing.T) {
	h := newHouse(t, fallback.Config{Replicas: 10})
	h.primary.fail(outage(core.FailureTimeout))
	for i, want := range []bool{true, false} {
		if c := h.do(call(core.OpTake, 100, 60)); c.Parts[0].Done != want || c.Parts[0].FitsAt == 0 {
			t.Errorf("call %d: %+v", i, c.Parts[0])
		}
	}
	if h.do(call(core.OpTake, 100, 1)).Parts[0].Done {
		t.Error("60 are counted of 10, and one more passes")
	}
	if c := h.do(call(core.OpTake, 100, 101)); c.Parts[0].Done || c.Parts[0].FitsAt != 0 {
		t.Errorf("a cost that never fits: %+v", c.Parts[0])
	}
}

// Algorithms share in their own ways.
func TestAllAlgorithmsStepIn(t *testing.T) {
	for _, limit := range []core.Limit{core.PerMinute(40), core.PerMinute(40).Slotted(6), core.PerMinute(40).Hybrid(6, 0.5)} {
		h := newHouse(t, fallback.Config{Replicas: 2})
		l, err := core.New(core.Config{Name: "api", Limits: []core.Limit{limit}, Store: h.Store})
		if err != nil {
			t.Fatal(err)
		}
		admitted := 0
		for i := range 50 {
			if i == 15 {
				h.primary.fail(outage(core.FailureTimeout))
			}
			d, err := l.Allow(t.Context(), keyfunc.User("ada"))
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				admitted++
			}
			if (d.Failure() == core.FailureTimeout) != (i >= 15) {
				t.Fatalf("call %d: failure %v", i, d.Failure())
			}
		}
		if admitted != 20 {
			t.Errorf("%v: %d admitted, want 15 and the rest of 20", limit, admitted)
		}
	}
}

func TestPoliciesWithoutALocalWindow(t *testing.T) {
	for policy, want := range map[core.Policy]bool{core.Open: true, core.Closed: false} {
		h := newHouse(t, fallback.Config{})
		l, err := core.New(core.Config{Name: "api", Limits: []core.Limit{core.PerMinute(1)}, Store: h.Store, OnFailure: policy})
		if err != nil {
			t.Fatal(err)
		}
		h.primary.fail(outage(core.FailureMemory))
		for range 8 { // three of them with the breaker open
			d, err := l.Allow(t.Context(), keyfunc.User("ada"))
			if d.Allowed != want || d.Reason != core.Undecided || d.Failure() != core.FailureMemory {
				t.Errorf("%v: %+v, %v", policy, d, err)
			}
			if policy == core.Closed && (!errors.Is(err, core.ErrNoDecision) || core.FailureOf(err) != core.FailureMemory) {
				t.Errorf("%v: %v", policy, err)
			}
		}
		if st := h.Status(); st.Undecided[core.FailureMemory] != 8 || len(st.Local) != 0 {
			t.Errorf("%v: %+v", policy, st)
		}
		h.wantLog("WARN gives no decision failure=oom policy=" + policy.String() + " the text of oom")
	}
}

// wantLog checks that each line has the words that are wanted of it, and that there are
// no others.
func (h *house) wantLog(lines ...string) {
	h.Helper()
	got := strings.Split(strings.TrimSpace(h.log.String()), "\n")
	if got[0] == "" {
		got = nil
	}
	if len(got) != len(lines) {
		h.Errorf("%d lines, want %d:\n%s", len(got), len(lines), h.log)
		return
	}
	for i, words := range lines {
		for word := range strings.FieldsSeq(words) {
			if !strings.Contains(got[i], word) {
				h.Errorf("no %q in %s", word, got[i])
			}
		}
	}
}

// What is wrong with the program or with one key is no outage: the others go on.
func TestFaultsDoNotOpenTheBreaker(t *testing.T) {
	for _, f := range []core.Failure{core.FailureValue, core.FailureScript, core.FailureDenied} {
		h := newHouse(t, fallback.Config{})
		h.primary.fail(outage(f))
		for range 50 {
			if c := h.do(call(core.OpTake, 100, 1)); c.Failure != f || !c.Parts[0].Done {
				t.Errorf("%+v", c)
			}
		}
		if n := h.primary.asked.Load(); n != 50 {
			t.Errorf("%v: asked %d times of 50", f, n)
		}
		if st := h.Status(); !st.Healthy || st.Local[f] != 50 {
			t.Errorf("%+v", st)
		}
		h.wantLog("ERROR failure=" + f.String())
	}
}

func TestWhoHasGoneIsNotAskedFor(t *testing.T) {
	h := newHouse(t, fallback.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Store.Do(ctx, call(core.OpTake, 1, 1)); !errors.Is(err, context.Canceled) || h.primary.asked.Load() > 0 {
		t.Errorf("%v, asked %d times", err, h.primary.asked.Load())
	}
}

// during is a store during whose answer the client goes away.
type during struct {
	core.Store
	leave context.CancelFunc
}

func (d during) Do(context.Context, *core.Call) error {
	d.leave()
	return context.Canceled
}

func TestAClientThatLeavesDuringACallChangesNothing(t *testing.T) {
	h := newHouse(t, fallback.Config{Failures: 1})
	ctx, cancel := context.WithCancel(t.Context())
	h.primary.Store = during{h.primary.Store, cancel}
	if err := h.Store.Do(ctx, call(core.OpTake, 1, 1)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if st := h.Status(); !st.Healthy || len(st.Local)+len(st.Undecided) > 0 {
		t.Errorf("%+v", st)
	}
	h.wantLog()
}

func TestOneLinePerChange(t *testing.T) {
	h := newHouse(t, fallback.Config{Failures: 3})
	h.primary.fail(outage(core.FailureTimeout))
	h.admits(10, 100)
	h.wantLog("WARN gives no decision failure=timeout policy=local the text")
	if st := h.Status(); st.Healthy || st.Failure != core.FailureTimeout || time.Since(st.Since) > time.Minute || st.Local[core.FailureTimeout] != 10 {
		t.Errorf("%+v", st)
	}
}

func TestReservationsEndWhereTheyWereMade(t *testing.T) {
	h := newHouse(t, fallback.Config{Failures: 100})
	reserve := func(id byte, cost int64) *core.Call {
		t.Helper()
		c := call(core.OpReserve, 100, cost)
		c.ID[0] = id
		if h.do(c); !c.Parts[0].Done {
			t.Fatalf("%+v", c)
		}
		c.Parts[0].Reserved, c.Parts[0].ReservedAt = cost, c.Parts[0].At
		return c
	}
	end := func(c *core.Call, op core.Op, cost int64) error {
		c.Op, c.Parts[0].Cost = op, cost
		return h.Store.Do(t.Context(), c)
	}
	used := func() int64 { return h.do(call(core.OpPeek, 100, 1)).Parts[0].Used }

	h.primary.fail(outage(core.FailureRefused))
	a, b, c, d, e := reserve(1, 10), reserve(2, 20), reserve(3, 30), reserve(4, 5), reserve(5, 5)
	for _, x := range []struct {
		c    *core.Call
		op   core.Op
		cost int64
		used int64
	}{{a, core.OpCancel, 10, 60}, {b, core.OpCommit, 20, 60}, {c, core.OpCorrect, 3, 33}} {
		if err := end(x.c, x.op, x.cost); err != nil || !x.c.Parts[0].Done || used() != x.used {
			t.Errorf("%s in the outage: %v, %+v, %d used, want %d", x.op, err, x.c.Parts[0], used(), x.used)
		}
	}
	h.primary.mend()
	if err := end(d, core.OpCancel, 5); err != nil || !d.Parts[0].Done {
		t.Errorf("a local reservation cancelled after the outage: %v, %+v", err, d.Parts[0])
	}
	if err := end(e, core.OpCorrect, 40); err != nil || !e.Parts[0].Done {
		t.Errorf("a local reservation corrected after the outage: %v, %+v", err, e.Parts[0])
	}
	if got := used(); got != 0 {
		t.Errorf("the primary counts %d of what it did not decide", got)
	}

	shared, also := reserve(6, 10), reserve(7, 10)
	if err := end(also, core.OpCorrect, 15); err != nil || !also.Parts[0].Done || used() != 25 {
		t.Errorf("corrected in the primary: %v, %d used", err, used())
	}
	h.primary.fail(outage(core.FailureRefused))
	if err := end(shared, core.OpCommit, 10); core.FailureOf(err) != core.FailureRefused {
		t.Errorf("a shared reservation ended in the outage: %v", err)
	}
	// 20 committed, 3 and 40 corrected here; 10 and 15 seen in the primary.
	if got := used(); got != 20+3+40+10+15 {
		t.Errorf("the local window holds %d", got)
	}
}

func TestResetInAnOutage(t *testing.T) {
	h := newHouse(t, fallback.Config{Failures: 100})
	h.admits(3, 3)
	h.primary.fail(outage(core.FailureRefused))
	if h.admits(1, 3) != 0 {
		t.Error("not warm")
	}
	if err := h.Store.Do(t.Context(), call(core.OpReset, 3, 1)); core.FailureOf(err) != core.FailureRefused {
		t.Errorf("the shared count is not reset, but %v", err)
	}
	if got := h.admits(5, 3); got != 3 {
		t.Errorf("the local window was not reset: %d admitted", got)
	}
	h.primary.mend()
	h.do(call(core.OpReset, 3, 1))
	if got := h.admits(3, 3); got != 3 {
		t.Errorf("the primary was not reset: %d", got)
	}
}

// A part that is only watched refuses nothing, and is counted where it fits.
func TestWatchedParts(t *testing.T) {
	h := newHouse(t, fallback.Config{})
	watched := core.NewCounter("api", "watched", time.Minute, core.Exact, 0)
	ask := func() *core.Call {
		c := call(core.OpTake, 5, 1)
		c.Parts = append(c.Parts, core.Part{Counter: watched, Key: keyfunc.User("ada"), N: 2, Cost: 1, Watched: true})
		return h.do(c)
	}
	for i := range 7 {
		if i == 3 {
			h.primary.fail(outage(core.FailureTimeout))
		}
		if c := ask(); c.Parts[0].Done != (i < 5) || c.Parts[1].Done != (i < 2) {
			t.Errorf("call %d: %+v", i, c.Parts)
		}
	}
}

func TestThePrimaryIsGivenItsBudget(t *testing.T) {
	h := newHouse(t, fallback.Config{})
	h.primary.Store = stuck{h.primary.Store}
	c := call(core.OpTake, 5, 1)
	c.Budget = 10 * time.Millisecond
	if h.do(c); c.Failure != core.FailureTimeout || !c.Parts[0].Done {
		t.Errorf("%+v", c)
	}
}

// stuck is a store that answers nobody.
type stuck struct{ core.Store }

func (stuck) Do(ctx context.Context, _ *core.Call) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestUnsupportedOperationsAreNoOutage(t *testing.T) {
	h := newHouse(t, fallback.Config{})
	if err := h.Store.Do(t.Context(), call(77, 1, 1)); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if !h.Status().Healthy {
		t.Error("an outage")
	}
	h.wantLog("ERROR failure=script policy=local")
}

func TestClosing(t *testing.T) {
	h := newHouse(t, fallback.Config{Probe: func(context.Context, int, time.Duration) error { return errors.New("still down") }})
	h.primary.fail(outage(core.FailureRefused))
	h.admits(8, 100)
	for range 2 {
		if err := h.Store.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := h.Store.Do(t.Context(), call(core.OpTake, 1, 1)); !errors.Is(err, core.ErrClosed) || h.primary.closed.Load() != 1 {
		t.Errorf("%v, closed %d times", err, h.primary.closed.Load())
	}
	g := newHouse(t, fallback.Config{})
	_ = g.primary.Store.Close()
	if err := g.Store.Do(t.Context(), call(core.OpTake, 1, 1)); !errors.Is(err, core.ErrClosed) {
		t.Errorf("the primary was closed: %v", err)
	}
}

func TestFaultsOfTheConfiguration(t *testing.T) {
	var none *core.Memory
	for _, test := range []struct {
		primary core.Store
		cfg     fallback.Config
		field   string
	}{
		{nil, fallback.Config{}, "primary"},
		{none, fallback.Config{}, "primary"},
		{stuck{}, fallback.Config{Replicas: -1}, "Config.Replicas"},
		{stuck{}, fallback.Config{Failures: -1}, "Config.Failures"},
		{stuck{}, fallback.Config{Replicas: 2, Share: func() float64 { return 1 }}, "Config.Share"},
		{stuck{}, fallback.Config{MaxKeys: -1}, "MemoryConfig.MaxKeys"},
	} {
		s, err := fallback.New(test.primary, test.cfg)
		fault, ok := errors.AsType[*core.FieldError](err)
		if s != nil || !ok || fault.Field != test.field || fault.Remedy == "" {
			t.Errorf("%+v: %v", test.cfg, err)
		}
	}
}

// In front of a store that answers, it is a store like any other.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(tb testing.TB) *storetest.Harness {
		clock := storetest.NewClock(start)
		now := func() time.Time { return clock.Now().Time() }
		m, err := core.NewMemory(core.MemoryConfig{Clock: now})
		if err != nil {
			tb.Fatal(err)
		}
		s, err := fallback.New(m, fallback.Config{Clock: now})
		if err != nil {
			tb.Fatal(err)
		}
		return &storetest.Harness{
			Open: func(testing.TB) core.Store { return s }, Now: clock.Now, Advance: clock.Advance, Step: clock.Step,
			Checks: 10, Steps: 30, Calls: 400, Filled: 1000,
		}
	})
}

// A correction of a local reservation frees nothing in between.
func TestACorrectionIsOneStep(t *testing.T) {
	h := newHouse(t, fallback.Config{Failures: 1})
	h.primary.fail(outage(core.FailureRefused))
	h.admits(1, 1) // opens the breaker
	stop := make(chan struct{})
	var taker sync.WaitGroup
	var over atomic.Int64
	taker.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			c := call(core.OpTake, 10, 10)
			c.Parts[0].Key = keyfunc.User("bob")
			if err := h.Store.Do(context.Background(), c); err == nil && c.Parts[0].Done {
				over.Add(1)
			}
		}
	})
	for range 3000 {
		r := call(core.OpReserve, 10, 10)
		r.Parts[0].Key, r.ID[0] = keyfunc.User("bob"), 1
		if h.do(r); !r.Parts[0].Done {
			h.clock.Advance(time.Minute)
			continue
		}
		before := over.Load()
		r.Op, r.Parts[0].Reserved, r.Parts[0].ReservedAt = core.OpCorrect, 10, r.Parts[0].At
		h.do(r)
		if over.Load() != before && r.Parts[0].Used > 10 {
			t.Fatalf("%d used of 10", r.Parts[0].Used)
		}
		h.clock.Advance(time.Minute)
	}
	close(stop)
	taker.Wait()
}

// One failed call on a service that nobody uses is history after a second.
func TestAQuietServiceIsHealthyAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, fallback.Config{})
		h.primary.fail(outage(core.FailureTimeout))
		h.admits(1, 10)
		if h.Status().Healthy {
			t.Error("healthy at once")
		}
		time.Sleep(1100 * time.Millisecond)
		if !h.Status().Healthy {
			t.Error("still failing, though nobody has asked since")
		}
	})
}

// A fault that lasts hides no other.
func TestEachFaultIsLogged(t *testing.T) {
	h := newHouse(t, fallback.Config{})
	for range 3 {
		for _, f := range []core.Failure{core.FailureValue, core.FailureDenied} {
			h.primary.fail(outage(f))
			h.admits(1, 100)
		}
	}
	h.wantLog("ERROR failure=wrong_value", "ERROR failure=denied")
}

// An impatient limiter does not keep a patient one from the store.
func TestTheMostPatientBudgetProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, fallback.Config{Failures: 1, Probe: func(_ context.Context, _ int, budget time.Duration) error {
			if budget < 20*time.Millisecond {
				return errors.New("too slow")
			}
			return nil
		}})
		h.primary.fail(outage(core.FailureTimeout))
		c := call(core.OpTake, 100, 1)
		c.Budget = 10 * time.Millisecond
		h.do(c)
		h.primary.mend()
		time.Sleep(5 * time.Second)
		c = call(core.OpTake, 100, 1)
		c.Budget = time.Second
		h.do(c) // says how patient it is
		time.Sleep(600 * time.Millisecond)
		if h.do(c); c.Failure != core.NoFailure {
			t.Errorf("still local: %v", c.Failure)
		}
	})
}

func TestPartsOfNAreExact(t *testing.T) {
	for replicas := 1; replicas <= 60; replicas++ {
		h := newHouse(t, fallback.Config{Replicas: replicas})
		h.primary.fail(outage(core.FailureTimeout))
		for _, n := range []int64{49, 98, 100, 999} {
			if c := h.do(call(core.OpPeek, n, 1)); c.Parts[0].N != max(n/int64(replicas), 1) {
				t.Errorf("%d of %d replicas: %d", n, replicas, c.Parts[0].N)
			}
		}
	}
}
