package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
	"github.com/slidegate/slidegate/keyfunc"
)

// turnstile is a hook that holds back one command of a client, and counts the scripts.
type turnstile struct {
	scripts atomic.Int64
	texts   atomic.Int64 // of them those that brought their text
	held    chan chan struct{}
	armed   atomic.Bool
	spoil   func(redis.Cmder)
}

func newTurnstile() *turnstile { return &turnstile{held: make(chan chan struct{}, 1)} }

func (h *turnstile) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h *turnstile) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.pass(cmd)
		return next(ctx, cmd)
	}
}

func (h *turnstile) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.pass(cmds...)
		return next(ctx, cmds)
	}
}

func (h *turnstile) pass(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if !strings.HasPrefix(cmd.Name(), "eval") {
			return
		}
		h.scripts.Add(1)
		if cmd.Name() == "eval" {
			h.texts.Add(1)
		}
		if h.spoil != nil {
			h.spoil(cmd)
		}
	}
	if h.armed.CompareAndSwap(true, false) {
		open := make(chan struct{})
		h.held <- open
		<-open
	}
}

// station is a store with one line to a server, at which calls gather.
type station struct {
	testing.TB
	*redisstore.Store
	*turnstile
	client *redis.Client
}

func newStation(tb testing.TB, addr string, opts ...redisstore.Option) *station {
	tb.Helper()
	s := &station{TB: tb, turnstile: newTurnstile(), client: redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1})}
	tb.Cleanup(func() { _ = s.client.Close() })
	s.client.AddHook(s.turnstile)
	s.Store = storeOn(tb, s.client, opts...)
	for _, op := range []core.Op{core.OpTake, core.OpReset} { // from here on the server knows these scripts
		do(tb, s.Store, keyed(call(op, counter("warm-up", core.Exact, time.Minute, 0), 1, 1), "nobody"))
	}
	return s
}

// gather has all calls wait for the line, in this order, and meanwhile has happen what is
// to; then it lets them go, and returns how each has ended.
func (s *station) gather(calls []*core.Call, meanwhile func()) []error {
	s.Helper()
	s.armed.Store(true)
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.Do(context.Background(), keyed(call(core.OpPeek, counter("blocker", core.Exact, time.Minute, 0), 1, 1), "nobody")); err != nil {
			s.Error(err)
		}
	})
	open := <-s.held
	errs := make([]error, len(calls))
	for i, c := range calls {
		all.Go(func() { errs[i] = s.Do(context.Background(), c) })
		s.waiting(i + 1)
	}
	if meanwhile != nil {
		meanwhile()
	}
	close(open)
	all.Wait()
	return errs
}

// waiting waits until n calls do.
func (s *station) waiting(n int) {
	s.Helper()
	for end := time.Now().Add(5 * time.Second); redisstore.Waiting(s.Store) != n; runtime.Gosched() {
		if time.Now().After(end) {
			s.Fatalf("%d calls wait for the line, want %d", redisstore.Waiting(s.Store), n)
		}
	}
}

func keyed(c *core.Call, key string) *core.Call {
	for i := range c.Parts {
		c.Parts[i].Key = keyfunc.User(key)
	}
	return c
}

// none fails for each error.
func none(tb testing.TB, errs []error) {
	tb.Helper()
	for i, err := range errs {
		if err != nil {
			tb.Errorf("call %d: %v", i, err)
		}
	}
}

// Calls on one key that gather are one script call, which admits the first that fit, in
// the order in which they came.
func TestCallsOnOneKeyMerge(t *testing.T) {
	server := redistest.Need(t)
	eachAlgorithm(t, func(t *testing.T, c *core.Counter) {
		s := newStation(t, server.Addr())
		var calls []*core.Call
		for i := range 50 {
			calls = append(calls, keyed(call(core.OpTake, c, 30, 1+int64(i%3/2)), "ada")) // 1, 1, 2, 1, 1, 2 …
		}
		before := s.scripts.Load()
		none(t, s.gather(calls, nil))
		if n := s.scripts.Load() - before; n != 2 {
			t.Errorf("%d scripts for 50 calls and the one they waited for", n)
		}
		var used int64
		for i, x := range calls {
			fits := used+x.Parts[0].Cost <= 30
			if x.Parts[0].Done != fits {
				t.Errorf("call %d of cost %d with %d used: %+v", i, x.Parts[0].Cost, used, x.Parts[0])
			}
			if fits {
				used += x.Parts[0].Cost
			}
			if x.Parts[0].Used != used {
				t.Errorf("call %d: %d used, want %d", i, x.Parts[0].Used, used)
			}
		}
	})
}

// Exact limits of many keys share a script; what else there is goes beside it.
func TestManyKeysShareAScript(t *testing.T) {
	s := newStation(t, redistest.Need(t).Addr())
	exact := counter("limit", core.Exact, time.Minute, 0)
	var calls []*core.Call
	for i := range 200 {
		calls = append(calls, keyed(call(core.OpTake, exact, 2, 1), fmt.Sprint(i%40)))
	}
	for i := range 10 {
		calls = append(calls, keyed(call(core.OpTake, counter("slots", core.Slotted, time.Minute, 10), 2, 1), fmt.Sprint(i)))
	}
	before := s.scripts.Load()
	none(t, s.gather(calls, nil))
	if n := s.scripts.Load() - before; n > 1+1+1+10 { // the last: many.lua is not known yet
		t.Errorf("%d scripts", n)
	}
	admitted := map[string]int{}
	for _, x := range calls {
		if x.Parts[0].Done {
			admitted[x.Parts[0].Key.String()+x.Parts[0].Counter.Limit]++
		}
	}
	for key, n := range admitted {
		if want := map[bool]int{true: 2, false: 1}[strings.HasSuffix(key, "limit")]; n != want {
			t.Errorf("%s: %d admitted, want %d", key, n, want)
		}
	}
	if len(admitted) != 50 {
		t.Errorf("%d keys", len(admitted))
	}
}

// Each keeps its own time, and the others are answered.
func TestEachCallOfABatchKeepsItsBudget(t *testing.T) {
	s := newStation(t, redistest.Need(t).Addr())
	c := counter("limit", core.Exact, time.Minute, 0)
	var calls []*core.Call
	for i := range 10 {
		x := keyed(call(core.OpTake, c, 100, 1), "ada")
		x.Budget = time.Minute
		if i%2 == 0 {
			x.Budget = 300 * time.Millisecond
		}
		calls = append(calls, x)
	}
	gone := keyed(call(core.OpReserve, c, 100, 50), "ada")
	gone.ID[0], gone.Budget = 7, 300*time.Millisecond
	calls = append(calls, gone)
	errs := s.gather(calls, func() { time.Sleep(500 * time.Millisecond) })
	for i, err := range errs {
		// The first of the short ones to give up has the others sent by another line: they may
		// have their answers just in time.
		if long := calls[i].Budget > time.Second; err != nil && (long || !errors.Is(err, context.DeadlineExceeded)) {
			t.Errorf("call %d with %v: %v", i, calls[i].Budget, err)
		}
	}
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		t.Error("none has given up")
	}
	if errs[10] == nil {
		end := keyed(call(core.OpCancel, c, 100, 50), "ada")
		end.ID, end.Parts[0].Reserved, end.Parts[0].ReservedAt = gone.ID, 50, gone.Parts[0].At
		do(t, s.Store, end)
	}
	// Those that waited for a connection may be counted, the reservation may not.
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		x := keyed(call(core.OpPeek, c, 100, 1), "ada")
		if do(t, s.Store, x); x.Parts[0].Used >= 5 && x.Parts[0].Used <= 10 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d used, want 5 to 10", x.Parts[0].Used)
		}
	}
}

// Whose context ends leaves the queue, and is not counted; the others are answered.
func TestCancelledCallersLeaveTheQueue(t *testing.T) {
	s := newStation(t, redistest.Need(t).Addr())
	c := counter("limit", core.Exact, time.Minute, 0)
	ctx, cancel := context.WithCancel(context.Background())
	x := keyed(call(core.OpTake, c, 100, 1), "ada")
	none(t, s.gather([]*core.Call{x}, func() {
		left := make(chan error)
		for i := range 5 {
			go func() { left <- s.Do(ctx, keyed(call(core.OpTake, c, 100, 1), "ada")) }()
			s.waiting(2 + i)
		}
		cancel()
		for range 5 {
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		}
	}))
	if got := x.Parts[0].Used; got != 1 {
		t.Errorf("%d used", got)
	}
	again := keyed(call(core.OpPeek, c, 100, 1), "ada")
	if do(t, s.Store, again); again.Parts[0].Used != 1 {
		t.Errorf("%d used, want 1", again.Parts[0].Used)
	}
}

// A server that has forgotten the scripts gets each of them once for a batch.
func TestForgottenScriptsAreSentOnce(t *testing.T) {
	s := newStation(t, redistest.Need(t).Addr())
	var calls []*core.Call
	for i := range 30 {
		calls = append(calls, keyed(call(core.OpTake, counter("limit", core.Exact, time.Minute, 0), 5, 1), fmt.Sprint(i)))
		calls = append(calls, keyed(call(core.OpTake, counter("slots", core.Slotted, time.Minute, 6), 5, 1), fmt.Sprint(i)))
	}
	before := s.texts.Load()
	none(t, s.gather(calls, func() {
		if err := scriptFlush(s.client); err != nil {
			t.Fatal(err)
		}
	}))
	// The blocker's own, many.lua's and decide.lua's.
	if n := s.texts.Load() - before; n > 3 {
		t.Errorf("%d times the text of a script", n)
	}
	for i, x := range calls {
		if x.Parts[0].Used != 1 {
			t.Errorf("call %d: %+v", i, x.Parts[0])
		}
	}
}

// scriptFlush has a server forget all scripts, on a connection of its own.
func scriptFlush(like *redis.Client) error {
	c := redis.NewClient(&redis.Options{Addr: like.Options().Addr})
	defer func() { _ = c.Close() }()
	return c.ScriptFlush(context.Background()).Err()
}

// What one key holds stays with its callers: the others have their answers.
func TestAnErrorStaysWithItsKey(t *testing.T) {
	server := redistest.Need(t)
	s := newStation(t, server.Addr())
	exact := counter("limit", core.Exact, time.Minute, 0)
	batch := func() (calls []*core.Call) {
		for i := range 20 {
			calls = append(calls, keyed(call(core.OpTake, exact, 100, 1), fmt.Sprint(i)))
		}
		return calls
	}
	none(t, s.gather(batch(), nil))
	for i, words := range [][]any{
		3: {"SET", s.Keys(batch()[3])[0], "a string"},
		8: {"ZADD", s.Keys(batch()[8])[0], "1", "no entry"},
	} {
		if words == nil {
			continue
		}
		if words[0] == "ZADD" {
			words[2] = fmt.Sprint(time.Now().UnixMicro())
		}
		for _, command := range [][]any{{"DEL", words[1]}, words} {
			if err := s.client.Do(t.Context(), command...).Err(); err != nil {
				t.Fatal(i, err)
			}
		}
	}
	calls := batch()
	for i, err := range s.gather(calls, nil) {
		if bad := i == 3 || i == 8; bad != (core.FailureOf(err) == core.FailureValue) || !bad && calls[i].Parts[0].Used != 2 {
			t.Errorf("call %d: %v, %+v", i, err, calls[i].Parts[0])
		}
	}
}

// A hook of the user's that panics costs the calls that it was about, and not the service.
func TestAPanicInAHookIsAnError(t *testing.T) {
	s := newStation(t, redistest.Need(t).Addr())
	c := counter("limit", core.Exact, time.Minute, 0)
	s.spoil = func(redis.Cmder) { panic("a bug of the user's") }
	if err := s.Do(t.Context(), call(core.OpTake, c, 5, 1)); err == nil || !strings.Contains(err.Error(), "a bug of the user's") {
		t.Errorf("%v", err)
	}
	s.spoil = nil
	if x := take(t, s.Store, c, 5, 1); x.Used != 1 {
		t.Errorf("%+v", x)
	}
}

// Trips that never come back keep nobody waiting who comes later.
func TestATripThatIsLostHoldsUpNoOther(t *testing.T) {
	server := redistest.Need(t)
	for name, open := range map[string]func(addr string) (*redisstore.Store, error){
		"Open": func(addr string) (*redisstore.Store, error) {
			return redisstore.Open("redis://"+addr+"?pool_size=8", quiet, redisstore.NoFallback(), redisstore.NoRefusalCache())
		},
		"go-redis's own options": func(addr string) (*redisstore.Store, error) {
			c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 8})
			t.Cleanup(func() { _ = c.Close() })
			return redisstore.New(c, quiet, redisstore.NoFallback(), redisstore.NoRefusalCache())
		},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := redistest.NeedProxy(t, server.Addr())
			s, err := open(proxy.Addr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			c := counter("lost "+name, core.Exact, time.Minute, 0)
			ask := func(budget time.Duration) error {
				x := call(core.OpTake, c, 1000, 1)
				x.Budget = budget
				return s.Do(context.Background(), x)
			}
			if err := ask(2 * time.Second); err != nil {
				t.Fatal(err)
			}
			// Half of the pool: by default go-redis keeps its connections busy for 5 s.
			const lines = 4
			proxy.BlackHole() // what is sent now is lost, on connections that look whole
			time.AfterFunc(20*time.Millisecond, func() {
				if err := proxy.Heal(); err != nil {
					t.Error(err)
				}
			})
			var all sync.WaitGroup
			for range lines {
				all.Go(func() {
					if err := ask(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v", err)
					}
				})
			}
			all.Wait()
			for range 2 * lines {
				if err := ask(2 * time.Second); err != nil {
					t.Errorf("after those were lost: %v", err)
				}
			}
		})
	}
}

// Close lets calls that wait be answered, and leaves no goroutine.
func TestCloseDrains(t *testing.T) {
	s := newStation(t, redistest.Need(t).Addr())
	before := runtime.NumGoroutine()
	c := counter("limit", core.Exact, time.Minute, 0)
	var calls []*core.Call
	for i := range 20 {
		calls = append(calls, keyed(call(core.OpTake, c, 100, 1), fmt.Sprint(i%7)))
	}
	closed := make(chan error, 1)
	none(t, s.gather(calls, func() {
		go func() { closed <- s.Close() }()
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		for !errors.Is(s.Do(gone, keyed(call(core.OpPeek, c, 100, 1), "late")), core.ErrClosed) {
			runtime.Gosched()
		}
	}))
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// In a cluster the way to a node is known once a call has found it, and calls on the
// keys of a node then travel together.
func TestBatchesInACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.NeedCluster(t, 3, 0)
	s, err := redisstore.Open("redis-cluster://"+strings.Join(nodes.Addrs(), ","), quiet, redisstore.NoFallback(), redisstore.NoRefusalCache())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := counter("limit", core.Exact, time.Minute, 0)
	ask := func(key int) *core.Call {
		x := keyed(call(core.OpTake, c, 20, 1), fmt.Sprint(key))
		x.Budget = 5 * time.Second
		if err := s.Do(context.Background(), x); err != nil {
			t.Error(err)
		}
		return x
	}
	for key := range 8 {
		if x := ask(key); !redisstore.Known(s, x) {
			t.Errorf("key %d: the way is not known after a call", key)
		}
	}
	var admitted atomic.Int64
	var all sync.WaitGroup
	for g := range 64 {
		all.Go(func() {
			for i := range 50 {
				if ask((g + i) % 8).Parts[0].Done {
					admitted.Add(1)
				}
			}
		})
	}
	all.Wait()
	if got := admitted.Load(); got != 8*19 {
		t.Errorf("%d admitted, want 19 more of each of 8 keys", got)
	}
}

// Whatever comes as a reply, there is an error or an answer.
func TestRepliesOfManyKeys(t *testing.T) {
	c := counter("limit", core.Exact, time.Minute, 0)
	rapid.Check(t, func(t *rapid.T) {
		var calls [][]*core.Call
		want := 1
		for range rapid.IntRange(1, 5).Draw(t, "keys") {
			list := make([]*core.Call, rapid.IntRange(1, 4).Draw(t, "calls"))
			for i := range list {
				list[i] = call(core.OpTake, c, 10, 1)
			}
			calls, want = append(calls, list), want+2+len(list)
		}
		reply := rapid.SliceOfN(rapid.Int64Range(-1, 1<<52), 0, 40).Draw(t, "reply")
		alone, err := redisstore.ReadMany(reply, calls)
		if (err == nil) != (len(reply) == want) {
			t.Fatalf("%d numbers, want %d: %v", len(reply), want, err)
		}
		if err != nil {
			return
		}
		at := 1
		for i, list := range calls {
			if alone[i] != (reply[at] < 0) {
				t.Fatalf("key %d: %d units used, alone %v", i, reply[at], alone[i])
			}
			at += 2 + len(list)
		}
	})
}
