package redisstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// hung returns the address of a server that takes connections and never answers.
func hung(tb testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			tb.Cleanup(func() { _ = c.Close() })
		}
	}()
	return l.Addr().String()
}

// A client with go-redis's default options looks at no deadline while it reads, and
// would dial for minutes. The caller must not wait for it.
func TestNoCallWaitsLongerThanItsBudget(t *testing.T) {
	for name, addr := range map[string]string{"hung": hung(t), "nothing listens": "127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			c := redis.NewClient(&redis.Options{Addr: addr})
			t.Cleanup(func() { _ = c.Close() })
			s := storeOn(t, c)
			x := call(core.OpTake, counter("limit", core.Exact, time.Minute, 0), 10, 1)
			x.Budget = 50 * time.Millisecond
			began := time.Now()
			err := s.Do(t.Context(), x)
			if took := time.Since(began); err == nil || took > 2*time.Second {
				t.Errorf("error %v after %v, want one after 50 ms", err, took)
			}
			if name == "hung" && (!errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 5")) {
				t.Errorf("error %v, want one that names the budget", err)
			}
		})
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: hung(t)})
	t.Cleanup(func() { _ = c.Close() })
	s := storeOn(t, c)
	x := call(core.OpTake, counter("limit", core.Exact, time.Minute, 0), 10, 1)

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := s.Do(ctx, x); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while under way: %v", err)
	}
	if err := s.Do(ctx, x); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Do(ctx, x); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
}

// gate holds back what a client does after the server has answered it.
type gate struct {
	redisstore.Client
	closed atomic.Bool
	open   chan struct{}
	passed atomic.Int32
}

func (g *gate) Process(ctx context.Context, cmd redis.Cmder) error {
	err := g.Client.Process(context.WithoutCancel(ctx), cmd)
	if g.closed.Load() {
		<-g.open
	}
	g.passed.Add(1)
	return err
}

// What nobody waits for any more: a take stays counted, a reservation is given back.
func TestAnAnswerThatComesTooLate(t *testing.T) {
	for op, left := range map[core.Op]int64{core.OpTake: 3, core.OpReserve: 0, core.OpPeek: 0} {
		st := newStage(t)
		g := &gate{Client: st.client(t), open: make(chan struct{})}
		s := storeOn(t, g)
		c := counter("limit", core.Exact, time.Minute, 0)
		g.closed.Store(true)
		x := call(op, c, 10, 3)
		x.ID[0] = 1
		x.Budget = 100 * time.Millisecond
		if err := s.Do(t.Context(), x); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s: %v", op, err)
		}
		if x.Parts[0].Used != 0 || x.Parts[0].Done {
			t.Errorf("%s: an answer in a call that was given up: %+v", op, x.Parts[0])
		}
		x.Parts[0].N = 0 // the call is the caller's again
		g.closed.Store(false)
		close(g.open)
		// How many commands a call takes depends on whether the server knows the script.
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if g.passed.Load() > 0 && used(t, s, c) == left {
				break
			}
		}
		if got := used(t, s, c); got != left {
			t.Errorf("%s: %d used, want %d", op, got, left)
		}
	}
}

// The reply to a reservation is lost: with a server that hangs for a while, nobody
// knows whether it was made. It is given back once the server answers.
func TestALostReservationIsGivenBack(t *testing.T) {
	server := redistest.Need(t)
	s, err := redisstore.Open("redis://"+server.Addr(), quiet, redisstore.NoFallback())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	eachAlgorithm(t, func(t *testing.T, c *core.Counter) {
		take(t, s, c, 1000, 1)
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
		r := call(core.OpReserve, c, 1000, 500)
		r.ID[0], r.Budget = 1, 50*time.Millisecond
		if err := s.Do(t.Context(), r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want that the budget is spent", err)
		}
		if err := server.Resume(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(5 * time.Second); used(t, s, c) != 1; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d used, want 1", used(t, s, c))
			}
		}
	})
}

func TestAClosedStore(t *testing.T) {
	st := newStage(t)
	client := st.client(t)
	s := storeOn(t, client)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Do(t.Context(), call(core.OpTake, counter("limit", core.Exact, time.Minute, 0), 1, 1)); !errors.Is(err, core.ErrClosed) {
		t.Errorf("error %v", err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the caller's client was closed too: %v", err)
	}
}

func TestAClientMustBeGiven(t *testing.T) {
	for _, c := range []redisstore.Client{nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil), (*redis.Ring)(nil)} {
		var field *redisstore.FieldError
		if s, err := redisstore.New(c); s != nil || !errors.As(err, &field) || field.Field != "client" {
			t.Errorf("%T: %v, %v", c, s, err)
		}
	}
	if s, err := redisstore.New(newStage(t).client(t), nil, redisstore.Logger(nil)); s == nil || err != nil {
		t.Errorf("nil options: %v", err)
	}
}

// A limiter leaves the budget to the store and makes no timer of its own.
func TestTheStoreKeepsTheBudget(t *testing.T) {
	var s core.Store = newStage(t).store(t)
	if b, ok := s.(core.Budgeted); !ok || !b.KeepsBudget() {
		t.Error("the store does not keep the budget")
	}
}

// rewriter answers scripts with a reply of its own.
type rewriter struct {
	redisstore.Client
	reply []int64
	err   error
	sent  atomic.Int32
}

func (r *rewriter) Process(_ context.Context, cmd redis.Cmder) error {
	r.sent.Add(1)
	if r.err != nil {
		cmd.SetErr(r.err)
		return r.err
	}
	cmd.(interface{ SetVal([]int64) }).SetVal(r.reply)
	return nil
}

func TestAReplyThatIsNoneIsAnError(t *testing.T) {
	for _, reply := range [][]int64{{}, {1, 2, 3}, {1, 2, 3, 4, 5}} {
		s := storeOn(t, &rewriter{Client: newStage(t).client(t), reply: reply})
		wantError(t, s, call(core.OpTake, counter("limit", core.Exact, time.Minute, 0), 10, 1), "want 4")
	}
}

// Nothing goes on behind a store that was closed.
func TestCloseEndsTheGivingBack(t *testing.T) {
	r := &rewriter{Client: newStage(t).client(t), err: errors.New("connection lost")}
	s := storeOn(t, r)
	x := call(core.OpReserve, counter("limit", core.Exact, time.Minute, 0), 10, 1)
	x.ID[0] = 1
	wantError(t, s, x, "connection lost")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(250 * time.Millisecond) // the first try would come after 100 ms
	if n := r.sent.Load(); n != 1 {
		t.Errorf("%d commands, want none after the store was closed", n)
	}
}

func TestCloseSaysWhatTheClientSays(t *testing.T) {
	s, err := redisstore.Open("redis://127.0.0.1:1", quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := redisstore.ClientIn(s).(interface{ Close() error }).Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err == nil || !strings.HasPrefix(err.Error(), "slidegate: ") {
		t.Errorf("error %v", err)
	}
}
