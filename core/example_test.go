package core_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// The whole of it: a limiter with two limits, a key, a decision.
func Example() {
	lim, err := core.New(core.Config{
		Limits: []core.Limit{core.PerSecond(2), core.PerDay(100_000).Slotted(48)},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer lim.Close()

	for range 3 {
		d, err := lim.Allow(context.Background(), keyfunc.User("42"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Allowed, d.Shown().Name(), d.Shown().Remaining())
	}
	// Output:
	// true 1s 1
	// true 1s 0
	// false 1s 0
}

func ExamplePer() {
	limit := core.Per(300, 90*time.Second)
	fmt.Println(limit.N(), limit.Window(), limit.Name(), limit.Algorithm())
	// Output: 300 1m30s 1m30s exact
}

func ExamplePerDay() {
	fmt.Println(core.PerSecond(10), core.PerMinute(100), core.PerHour(1000), core.PerDay(10_000))
	// Output: 10/1s 100/1m 1000/1h 10000/24h
}

func ExampleLimit_Named() {
	// Two limits of one window need names to be told apart.
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{
		core.PerMinute(100),
		core.PerMinute(5).Named("login"),
	}}))
	defer lim.Close()
	for _, limit := range lim.Limits() {
		fmt.Println(limit.Name(), limit.N())
	}
	// Output:
	// 1m 100
	// login 5
}

func ExampleLimit_Slotted() {
	// A hundred thousand units a day in 48 counters instead of a log: a unit
	// leaves up to half an hour late, and never early.
	limit := core.PerDay(100_000).Slotted(48)
	fmt.Println(limit, limit.Algorithm(), limit.Slots())
	fmt.Println(limit.Exact())
	// Output:
	// 100000/24h slotted=48 slotted 48
	// 100000/24h
}

func ExampleLimit_Hybrid() {
	// Counters while a key has used at most 80 % of its quota, a log above.
	limit := core.PerHour(1000).Hybrid(60, 0)
	fmt.Println(limit, limit.Algorithm(), limit.Slots(), limit.Hot())
	// Output: 1000/1h hybrid=60 hot=0.8 hybrid 60 0.8
}

func ExampleLimit_Key() {
	// Per user and, in the same decision, per address.
	limits := []core.Limit{
		core.PerMinute(100),
		core.PerMinute(300).Named("address").Key(keyfunc.ByIP()),
	}
	for _, limit := range limits {
		fmt.Println(limit.Name(), limit.OwnKey())
	}
	// Output:
	// 1m false
	// address true
}

func ExampleParseLimit() {
	for _, text := range []string{"100/1m", "10/s", "100000/24h slotted=48", "5/1m name=login", "ten per minute"} {
		limit, err := core.ParseLimit(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(limit.N(), limit.Window(), limit.Algorithm(), limit.Name())
	}
	// Output:
	// 100 1m0s exact 1m
	// 10 1s exact 1s
	// 100000 24h0m0s slotted 24h
	// 5 1m0s exact login
	// slidegate: limit = ten per minute: there is no slash between the units and the window; write it like "100/1m", "10/s", "100000/24h slotted=48" or "1000/1h hybrid=60 hot=0.8 name=api"
}

func ExampleLimit_String() {
	text := core.PerHour(1000).Hybrid(60, 0.9).Named("api").String()
	limit, err := core.ParseLimit(text)
	fmt.Println(text, err, limit.String() == text)
	// Output: 1000/1h hybrid=60 hot=0.9 name=api <nil> true
}

func ExampleNew() {
	// Everything that is wrong is told at once.
	_, err := core.New(core.Config{
		Name:   "my api",
		Limits: []core.Limit{core.PerMinute(0), core.PerHour(100).Slotted(-1)},
		Secret: []byte("too short"),
	})
	fmt.Println(err)
	// Output:
	// slidegate: Name = my api: not a name; use 1 to 64 characters of A-Z a-z 0-9 . _ / -
	// slidegate: Limits[0].N = 0: a limit lets at least 1 unit through; use 1 to 999999999999999; to exempt requests, use Config.Skip
	// slidegate: Limits[1].Slots = -1: not a number of slots; use 1 to 10000; 10 to 60 suit most limits
	// slidegate: Secret = 9 bytes: too short to keep keys from being guessed; use at least 16 random bytes, or nil to leave keys as they are
}

func ExampleFaults() {
	_, err := core.New(core.Config{
		Limits:    []core.Limit{core.Per(100, time.Microsecond), core.PerMinute(5), core.PerMinute(9)},
		OnFailure: 9,
	})
	for fault := range core.Faults(err) {
		fmt.Printf("%s: %s\n", fault.Field, fault.Remedy)
	}
	// Output:
	// Limits[0].Window: use 1ms to 8784h (366 days)
	// Limits[2].Name: give one of them another name with Named("…")
	// OnFailure: use Local, Open or Closed
}

func ExampleMust() {
	// For limits that are written in the program: a fault in them is found by
	// the first run.
	lim := core.Must(core.New(core.Config{Name: "mail", Limits: []core.Limit{core.PerMinute(100)}}))
	defer lim.Close()
	fmt.Println(lim.Name())
	// Output: mail
}

func ExampleLimiter_Allow() {
	// Virtual time, so that the output is always the same. Leave Store out for
	// the real one.
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	store, err := core.NewMemory(core.MemoryConfig{Clock: func() time.Time { return now }})
	if err != nil {
		log.Fatal(err)
	}
	lim := core.Must(core.New(core.Config{Name: "jobs", Limits: []core.Limit{core.PerMinute(2)}, Store: store}))

	ctx := context.Background()
	for range 4 {
		d, err := lim.Allow(ctx, keyfunc.User("42"))
		if err != nil {
			log.Fatal(err) // no decision: the store failed, or ctx ended
		}
		if d.Allowed {
			fmt.Println("go ahead,", d.Shown().Remaining(), "left")
		} else {
			fmt.Println("come back in", d.RetryAfter())
		}
		now = now.Add(20 * time.Second)
	}
	// Output:
	// go ahead, 1 left
	// go ahead, 0 left
	// come back in 20s
	// go ahead, 0 left
}

func ExampleLimiter_AllowN() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerHour(100)}}))
	defer lim.Close()

	ctx := context.Background()
	for _, cost := range []int64{60, 50, 40, 101} {
		d, err := lim.AllowN(ctx, keyfunc.User("42"), cost)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(cost, d.Reason, d.Shown().Remaining())
	}
	// Output:
	// 60 admitted 40
	// 50 refused 40
	// 40 admitted 0
	// 101 never_fits 0
}

func ExampleLimiter_Peek() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerHour(3)}}))
	defer lim.Close()

	ctx, user := context.Background(), keyfunc.User("42")
	for range 2 {
		d, err := lim.Peek(ctx, user)
		fmt.Println(d.Allowed, d.Shown().Used, err)
	}
	d, err := lim.PeekN(ctx, user, 4)
	fmt.Println(d.Reason, err)
	// Output:
	// true 0 <nil>
	// true 0 <nil>
	// never_fits <nil>
}

func ExampleLimiter_Reset() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerHour(1)}}))
	defer lim.Close()

	ctx, user := context.Background(), keyfunc.User("42")
	for range 2 {
		d, err := lim.Allow(ctx, user)
		fmt.Println(d.Allowed, err)
	}
	fmt.Println(lim.Reset(ctx, user))
	d, err := lim.Allow(ctx, user)
	fmt.Println(d.Allowed, err)
	// Output:
	// true <nil>
	// false <nil>
	// <nil>
	// true <nil>
}

func ExampleForLimit() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{
		core.PerMinute(100), // counts users
		core.PerMinute(2).Named("address").Key(keyfunc.ByIP()),
	}}))
	defer lim.Close()

	ctx := context.Background()
	address := keyfunc.IP(netip.MustParseAddr("203.0.113.9"))
	for _, user := range []string{"ann", "bob", "eve"} {
		d, err := lim.Allow(ctx, keyfunc.User(user), core.ForLimit("address", address))
		fmt.Println(user, d.Allowed, d.Shown().Name(), err)
	}
	_, err := lim.Allow(ctx, keyfunc.User("ann"))
	fmt.Println(errors.Is(err, keyfunc.ErrMissing))
	// Output:
	// ann true address <nil>
	// bob true address <nil>
	// eve false address <nil>
	// true
}

func ExampleLimiter_Reserve() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerHour(10_000).Named("tokens")}}))
	defer lim.Close()
	ctx, user := context.Background(), keyfunc.User("42")
	remaining := func() int64 {
		d, err := lim.Peek(ctx, user)
		if err != nil {
			log.Fatal(err)
		}
		return d.Shown().Remaining()
	}

	r, d, err := lim.Reserve(ctx, user, 4000) // the most it can cost
	if err != nil || !d.Allowed {
		return
	}
	defer r.Cancel(ctx) // gives everything back, unless the reservation has ended
	fmt.Println("while at work:", remaining())

	if err := r.Correct(ctx, 1234); err != nil { // what it did cost
		log.Fatal(err)
	}
	fmt.Println("afterwards:", remaining())
	// Output:
	// while at work: 6000
	// afterwards: 8766
}

func ExampleReservation_Commit() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerHour(10)}}))
	defer lim.Close()

	ctx := context.Background()
	r, _, err := lim.Reserve(ctx, keyfunc.User("42"), 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Commit(ctx)) // as expected: the units are final
	fmt.Println(errors.Is(r.Cancel(ctx), core.ErrEnded))
	// Output:
	// <nil>
	// true
}

func ExampleReservation_Cancel() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerHour(10)}}))
	defer lim.Close()

	ctx, user := context.Background(), keyfunc.User("42")
	r, d, err := lim.Reserve(ctx, user, 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Shown().Used, r.Cancel(ctx))
	d, err = lim.Peek(ctx, user)
	fmt.Println(d.Shown().Used, err)
	// Output:
	// 3 <nil>
	// 0 <nil>
}

func ExampleReservation_Correct() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerHour(10)}}))
	defer lim.Close()

	ctx, user := context.Background(), keyfunc.User("42")
	r, _, err := lim.Reserve(ctx, user, 3)
	if err != nil {
		log.Fatal(err)
	}
	// It came to more than there is: that is counted all the same, and worked off
	// before anything else is admitted.
	fmt.Println(r.Correct(ctx, 12))
	d, err := lim.Peek(ctx, user)
	fmt.Println(d.Allowed, d.Shown().Used, d.Shown().Remaining(), err)
	// Output:
	// <nil>
	// false 12 0 <nil>
}

func ExampleLimiter_Wait() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.Per(2, 50*time.Millisecond)}}))
	defer lim.Close()

	ctx := context.Background()
	began := time.Now()
	for range 5 {
		if _, err := lim.Wait(ctx, keyfunc.Name("mail-queue")); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(time.Since(began) >= 100*time.Millisecond)
	// Output: true
}

func ExampleLimiter_WaitN() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerMinute(10)}}))
	defer lim.Close()

	queue := keyfunc.Name("mail-queue")
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := lim.WaitN(ctx, queue, 8)
	fmt.Println(err)
	_, err = lim.WaitN(ctx, queue, 8) // fits in a minute: no use in waiting a second
	fmt.Println(errors.Is(err, core.ErrTooLate))
	_, err = lim.WaitN(ctx, queue, 11)
	fmt.Println(errors.Is(err, core.ErrNeverFits))
	// Output:
	// <nil>
	// true
	// true
}

func ExampleLimiter_Close() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerMinute(10)}}))
	fmt.Println(lim.Close(), lim.Close())
	_, err := lim.Allow(context.Background(), keyfunc.User("42"))
	fmt.Println(errors.Is(err, core.ErrClosed))
	// Output:
	// <nil> <nil>
	// true
}

func ExampleDecision_Limits() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{
		core.PerSecond(5), core.PerMinute(6), core.PerHour(100),
	}}))
	defer lim.Close()

	ctx, user := context.Background(), keyfunc.User("42")
	if _, err := lim.AllowN(ctx, user, 5); err != nil {
		log.Fatal(err)
	}
	d, err := lim.AllowN(ctx, user, 2)
	if err != nil {
		log.Fatal(err)
	}
	for s := range d.Limits() {
		fmt.Println(s.Name(), s.Used, "of", s.N, "violated:", s.Violated)
	}
	fmt.Println("headers show", d.Shown().Name())
	// Output:
	// 1s 5 of 5 violated: true
	// 1m 5 of 6 violated: true
	// 1h 5 of 100 violated: false
	// headers show 1m
}

func ExampleDecision_Limit() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerSecond(5), core.PerDay(100).Named("daily")}}))
	defer lim.Close()

	d, err := lim.Allow(context.Background(), keyfunc.User("42"))
	if err != nil {
		log.Fatal(err)
	}
	if s, ok := d.Limit("daily"); ok {
		fmt.Println(s.Remaining(), s.Window())
	}
	// Output: 99 24h0m0s
}

func ExampleDecision_Shown() {
	lim := core.Must(core.New(core.Config{Limits: []core.Limit{core.PerSecond(3), core.PerHour(4)}}))
	defer lim.Close()

	// The limit that is closest to exhaustion; on a refusal, the violated one
	// with the longest wait.
	for _, cost := range []int64{1, 2, 1} {
		d, err := lim.AllowN(context.Background(), keyfunc.User("42"), cost)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Allowed, d.Shown().Name(), d.Shown().Remaining())
	}
	// Output:
	// true 1s 2
	// true 1s 0
	// false 1s 0
}

func ExampleLimitState() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	store, err := core.NewMemory(core.MemoryConfig{Clock: func() time.Time { return now }})
	if err != nil {
		log.Fatal(err)
	}
	lim := core.Must(core.New(core.Config{Name: "jobs", Limits: []core.Limit{core.PerMinute(10)}, Store: store}))

	ctx, user := context.Background(), keyfunc.User("42")
	var s core.LimitState
	for _, cost := range []int64{4, 5, 6} {
		d, err := lim.AllowN(ctx, user, cost)
		if err != nil {
			log.Fatal(err)
		}
		s = d.Shown()
		now = now.Add(10 * time.Second)
	}
	clock := func(t core.Instant) string { return t.Time().UTC().Format(time.TimeOnly) }
	fmt.Println(s.Name(), s.Window(), s.Used, s.N, s.Remaining(), s.Violated)
	fmt.Println("decided at", clock(s.At))
	fmt.Println("oldest unit leaves at", clock(s.OldestLeaves))
	fmt.Println("six units fit at", clock(s.FitsAt), "that is in", s.Wait())
	// Output:
	// 1m 1m0s 9 10 1 true
	// decided at 12:00:20
	// oldest unit leaves at 12:01:00
	// six units fit at 12:01:10 that is in 50s
}

func ExampleDecision_RetryAfter() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	store, err := core.NewMemory(core.MemoryConfig{Clock: func() time.Time { return now }})
	if err != nil {
		log.Fatal(err)
	}
	lim := core.Must(core.New(core.Config{Name: "jobs", Limits: []core.Limit{core.PerMinute(10)}, Store: store}))

	ctx, user := context.Background(), keyfunc.User("42")
	for range 10 {
		if _, err := lim.Allow(ctx, user); err != nil {
			log.Fatal(err)
		}
		now = now.Add(2 * time.Second)
	}
	for _, cost := range []int64{1, 3, 10, 11} {
		d, err := lim.PeekN(ctx, user, cost)
		fmt.Println(cost, d.Reason, d.RetryAfter(), err)
	}
	// Output:
	// 1 refused 40s <nil>
	// 3 refused 44s <nil>
	// 10 refused 58s <nil>
	// 11 never_fits 0s <nil>
}

func ExampleInstant() {
	t := core.InstantOf(time.Date(2026, 1, 1, 12, 0, 0, 999, time.UTC))
	fmt.Println(t, t.Time().UTC().Format(time.RFC3339Nano))
	later := t.Add(90 * time.Second)
	fmt.Println(later.Sub(t), later.IsZero(), core.Instant(0).IsZero())
	// Output:
	// 1767268800000000 2026-01-01T12:00:00Z
	// 1m30s false true
}

// metered is a store in front of a store: it counts what passes.
type metered struct {
	core.Store
	calls map[core.Op]int
}

func (m *metered) Do(ctx context.Context, c *core.Call) error {
	m.calls[c.Op]++
	return m.Store.Do(ctx, c)
}

func ExampleStore() {
	memory, err := core.NewMemory(core.MemoryConfig{})
	if err != nil {
		log.Fatal(err)
	}
	store := &metered{Store: memory, calls: map[core.Op]int{}}
	defer store.Close()
	lim := core.Must(core.New(core.Config{Name: "api", Limits: []core.Limit{core.PerMinute(10)}, Store: store}))

	ctx, user := context.Background(), keyfunc.User("42")
	for range 3 {
		if _, err := lim.Allow(ctx, user); err != nil {
			log.Fatal(err)
		}
	}
	err = lim.Reset(ctx, user)
	fmt.Println(store.calls, err)
	// Output: map[take:3 reset:1] <nil>
}

// unreachable is a store that never answers.
type unreachable struct{}

func (unreachable) Do(context.Context, *core.Call) error { return errors.New("connection refused") }
func (unreachable) Close() error                         { return nil }

func ExamplePolicy() {
	for _, policy := range []core.Policy{core.Open, core.Closed} {
		lim := core.Must(core.New(core.Config{
			Name: "api", Limits: []core.Limit{core.PerMinute(10)}, Store: unreachable{}, OnFailure: policy,
			Logger: slog.New(slog.DiscardHandler), // else a warning: once when it fails, once when it answers again
		}))
		d, err := lim.Allow(context.Background(), keyfunc.User("42"))
		fmt.Println(policy, d.Allowed, errors.Is(err, core.ErrNoDecision))
	}
	// Output:
	// open true false
	// closed false true
}

func ExampleConfig() {
	lim, err := core.New(core.Config{
		Name:   "api",
		Limits: []core.Limit{core.PerSecond(10), core.PerDay(100_000).Slotted(48)},
		Key:    keyfunc.First(keyfunc.ByAPIKey("X-API-Key"), keyfunc.ByIP()),
		Secret: []byte("the same 16 or more bytes on all instances"),
		Cost: func(r *http.Request) (int64, error) {
			if r.Method == http.MethodPost {
				return 5, nil
			}
			return 1, nil
		},
		Skip: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer lim.Close()
	fmt.Println(lim.Name(), lim.Limits())
	// Output: api [10/1s 100000/24h slotted=48]
}
