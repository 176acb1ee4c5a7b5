package redisstore_test

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core/redisstore"
)

// quiet keeps go-redis from printing each failed dial.
func init() { redis.SetLogger(noLogger{}) }

type noLogger struct{}

func (noLogger) Printf(context.Context, string, ...any) {}

type closer interface {
	redisstore.Client
	io.Closer
}

// clients are those that go-redis makes by default, each for one server.
var clients = []struct {
	name string
	open func(addr string) closer
}{
	{"Client", func(addr string) closer { return redis.NewClient(&redis.Options{Addr: addr}) }},
	{"ClusterClient", func(addr string) closer {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, MaxRetries: 3})
	}},
	{"Ring", func(addr string) closer {
		return redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": addr}})
	}},
}

var keys = []string{"{k}:1", "{k}:2"}

func args(words ...string) []any {
	list := make([]any, len(words))
	for i := range words {
		list[i] = &words[i]
	}
	return list
}

func TestScriptIsSentWithItsKeysAndArguments(t *testing.T) {
	s := redisstore.NewScript("return 1")
	if want := fmt.Sprintf("%x", sha1.Sum([]byte("return 1"))); s.SHA() != want {
		t.Errorf("SHA-1 %s, want %s", s.SHA(), want)
	}
	for _, kind := range clients {
		t.Run(kind.name, func(t *testing.T) {
			fake := serve(t, always(three))
			c := kind.open(fake.addr)
			defer c.Close()
			reply, err := s.Run(t.Context(), c, keys, append(args("a", ""), "b", 7))
			if want := []int64{1, -2, 9007199254740993}; err != nil || !slices.Equal(reply, want) {
				t.Errorf("got %v, %v, want %v", reply, err, want)
			}
			want := []string{"evalsha", s.SHA(), "2", "{k}:1", "{k}:2", "a", "", "b", "7"}
			// One command alone: a ClusterClient asks no COMMAND first.
			if got := fake.words(); len(got) != 1 || !slices.Equal(got[0], want) {
				t.Errorf("the server saw %q, want %q", got, want)
			}
		})
	}
}

func TestScriptAnswersIntegersInBothProtocols(t *testing.T) {
	m := miniredis.RunT(t)
	s := redisstore.NewScript(`return {tonumber(ARGV[1]) + 1, -1, #KEYS}`)
	for protocol := 2; protocol <= 3; protocol++ {
		c := redis.NewClient(&redis.Options{Addr: m.Addr(), Protocol: protocol})
		defer c.Close()
		for _, k := range [][]string{keys, nil} {
			reply, err := s.Run(t.Context(), c, k, args("41"))
			if want := []int64{42, -1, int64(len(k))}; err != nil || !slices.Equal(reply, want) {
				t.Errorf("protocol %d, %d keys: got %v, %v, want %v", protocol, len(k), reply, err, want)
			}
		}
	}
}

func TestScriptForgottenByTheServerIsSentWhole(t *testing.T) {
	m := miniredis.RunT(t)
	c := redis.NewClient(&redis.Options{Addr: m.Addr()})
	defer c.Close()
	h := &counting{}
	c.AddHook(h)
	s := redisstore.NewScript(`return {redis.call("INCR", KEYS[1])}`)
	for round := range 3 {
		if err := c.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		h.names = nil
		for i, want := range []string{"evalsha eval", "evalsha eval evalsha"} {
			reply, err := s.Run(t.Context(), c, keys[:1], nil)
			if n := int64(2*round + i + 1); err != nil || !slices.Equal(reply, []int64{n}) {
				t.Errorf("got %v, %v, want %d", reply, err, n)
			}
			if got := strings.Join(h.names, " "); got != want {
				t.Errorf("sent %q, want %q", got, want)
			}
		}
	}
}

// counting is a hook that counts the commands, and keeps them.
type counting struct {
	redis.Hook
	names []string
	cmds  []redis.Cmder
}

func (h *counting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.names, h.cmds = append(h.names, cmd.Name()), append(h.cmds, cmd)
		return next(ctx, cmd)
	}
}

func TestServerThatNeverKnowsTheScriptIsAskedTwice(t *testing.T) {
	for _, kind := range clients {
		for _, text := range []string{"NOSCRIPT No matching script.", "ERR NOSCRIPT from something else than Redis"} {
			fake := serve(t, always("-"+text+"\r\n"))
			c := kind.open(fake.addr)
			defer c.Close()
			reply, err := redisstore.NewScript("return 1").Run(t.Context(), c, keys, nil)
			if reply != nil || !redis.HasErrorPrefix(err, "NOSCRIPT") {
				t.Errorf("%s: got %v, %v, want the error of the server", kind.name, reply, err)
			}
			if got := fake.asked(); !slices.Equal(got, []string{"evalsha", "eval"}) {
				t.Errorf("%s: sent %q, want EVALSHA and EVAL", kind.name, got)
			}
		}
	}
}

func TestFirstCommandStaysAsItWasWhenTheScriptIsSentWhole(t *testing.T) {
	fake := serve(t, always("-NOSCRIPT\r\n"))
	c := redis.NewClient(&redis.Options{Addr: fake.addr})
	defer c.Close()
	h := &counting{}
	c.AddHook(h)
	s := redisstore.NewScript("return 1")
	_, _ = s.Run(t.Context(), c, keys, nil)
	// Between them the hook saw the handshake.
	first, second := h.cmds[0], h.cmds[len(h.cmds)-1]
	if first.Name() != "evalsha" || second.Name() != "eval" {
		t.Errorf("the hook holds %v and %v, want EVALSHA and EVAL", first, second)
	}
	for _, cmd := range []redis.Cmder{first, second} {
		if !cmd.NoRetry() || !cmd.Clone().NoRetry() {
			t.Errorf("%s or its clone may be repeated", cmd.Name())
		}
	}
}

func TestErrorOfTheServerEndsTheCall(t *testing.T) {
	for _, text := range []string{
		"LOADING Redis is loading the dataset in memory", "CLUSTERDOWN The cluster is down",
		"TRYAGAIN Multiple keys request during rehashing of slot", "MASTERDOWN Link with MASTER is down",
		"NOREPLICAS Not enough good replicas to write.", "ERR max number of clients reached",
		"OOM command not allowed when used memory > 'maxmemory'.", "BUSY Redis is busy running a script.",
		"WRONGTYPE Operation against a key", "CROSSSLOT Keys in request", "ERR user_script:1: attempt to index",
		"NOPERM this user has no permissions", "NOAUTH Authentication required.",
	} {
		for _, kind := range clients {
			fake := serve(t, always("-"+text+"\r\n"))
			c := kind.open(fake.addr)
			defer c.Close()
			_, err := redisstore.NewScript("return 1").Run(t.Context(), c, keys, nil)
			var answered redis.Error
			if !errors.As(err, &answered) || answered.Error() != text {
				t.Errorf("%s, %s: got %v", kind.name, text, err)
			}
			if got := fake.asked(); len(got) != 1 {
				t.Errorf("%s, %s: sent %d times", kind.name, text, len(got))
			}
		}
	}
}

// A replica that refuses has run nothing, so that the next may be asked.
func TestReadOnlyReplicaIsTheOnlyOneAskedAgain(t *testing.T) {
	for _, kind := range clients {
		refusals := 1
		fake := serve(t, func([]string) string {
			if refusals--; refusals >= 0 {
				return "-READONLY You can't write against a read only replica.\r\n"
			}
			return three
		})
		c := kind.open(fake.addr)
		defer c.Close()
		_, err := redisstore.NewScript("return 1").Run(t.Context(), c, keys, nil)
		if follows := kind.name == "ClusterClient"; follows != (err == nil) || len(fake.asked()) != 1+map[bool]int{true: 1}[follows] {
			t.Errorf("%s: got %v after %q", kind.name, err, fake.asked())
		}
	}
}

func TestLostReplyIsNotAskedForAgain(t *testing.T) {
	s := redisstore.NewScript("return 1")
	for _, kind := range clients {
		t.Run(kind.name, func(t *testing.T) {
			fake := serve(t, always(lost))
			c := kind.open(fake.addr)
			defer c.Close()
			if reply, err := s.Run(t.Context(), c, keys, nil); err == nil {
				t.Errorf("got %v of a lost reply", reply)
			}
			if got := fake.asked(); len(got) != 1 {
				t.Errorf("sent %d times: %q", len(got), got)
			}
			// This is what it is about: go-redis's own command is sent again.
			if c.EvalSha(t.Context(), s.SHA(), keys); len(fake.asked()) < 3 {
				t.Errorf("EvalSha was sent %d times: this test shows nothing", len(fake.asked())-1)
			}
		})
	}
}

func TestReplyThatComesTooLateIsNotAskedForAgain(t *testing.T) {
	over := make(chan struct{})
	fake := serve(t, func([]string) string { <-over; return lost })
	defer close(over)
	const wait = 20 * time.Millisecond
	for i, c := range []closer{
		redis.NewClient(&redis.Options{Addr: fake.addr, ReadTimeout: wait}),
		redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{fake.addr}, ReadTimeout: wait, MaxRetries: 3}),
		redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": fake.addr}, ReadTimeout: wait}),
	} {
		defer c.Close()
		if _, err := redisstore.NewScript("return 1").Run(t.Context(), c, keys, nil); err == nil {
			t.Error("no error of a reply that never came")
		}
		if got := fake.asked(); len(got) != i+1 {
			t.Errorf("%T: sent %d times", c, len(got)-i)
		}
	}
}

func TestReplyThatIsNoListOfIntegersIsAnError(t *testing.T) {
	s := redisstore.NewScript("return 1")
	for _, odd := range []string{
		":1\r\n", "+OK\r\n", "$-1\r\n", "_\r\n", "*-1\r\n", "$2\r\nok\r\n",
		"*2\r\n:1\r\n$2\r\nok\r\n", "*2\r\n*1\r\n:1\r\n:2\r\n", "*3\r\n:1\r\n-ERR in the middle\r\n:3\r\n",
	} {
		replies := []string{odd, three}
		fake := serve(t, func([]string) string {
			reply := replies[0]
			replies = replies[1:]
			return reply
		})
		c := redis.NewClient(&redis.Options{Addr: fake.addr, PoolSize: 1})
		defer c.Close()
		if reply, err := s.Run(t.Context(), c, keys, nil); err == nil {
			t.Errorf("%q: got %v, want an error", odd, reply)
		}
		// What was left of the reply must not answer the next call.
		if reply, err := s.Run(t.Context(), c, keys, nil); err != nil || len(reply) != 3 {
			t.Errorf("after %q: got %v, %v", odd, reply, err)
		}
	}
}

func TestEmptyReplyIsNoFailure(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: serve(t, always("*0\r\n")).addr})
	defer c.Close()
	if reply, err := redisstore.NewScript("return {}").Run(t.Context(), c, keys, nil); err != nil || len(reply) != 0 {
		t.Errorf("got %v, %v", reply, err)
	}
}

func TestClientThatRunsNothingIsFoundOut(t *testing.T) {
	fake := serve(t, always(three))
	c := redis.NewClient(&redis.Options{Addr: fake.addr})
	never := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{fake.addr}, MaxRedirects: -2})
	nor := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": fake.addr}, MaxRetries: -2})
	defer c.Close()
	defer never.Close()
	defer nor.Close()
	for _, c := range []redisstore.Client{c.Pipeline(), never, nor} {
		reply, err := redisstore.NewScript("return 1").Run(t.Context(), c, keys, nil)
		if err == nil || !strings.Contains(err.Error(), "Pipeliner") {
			t.Errorf("%T: got %v, %v, want an error that says so", c, reply, err)
		}
	}
}

func TestClientThatAnswersLaterIsWaitedFor(t *testing.T) {
	m := miniredis.RunT(t)
	c := redis.NewClient(&redis.Options{Addr: m.Addr()})
	defer c.Close()
	direct, err1 := c.AutoPipeline()
	async, err2 := c.AsyncAutoPipeline()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	s := redisstore.NewScript(`return {redis.call("INCR", KEYS[1])}`)
	var all sync.WaitGroup
	for _, c := range []redisstore.Client{direct, async} {
		for range 16 {
			all.Go(func() {
				if reply, err := s.Run(t.Context(), c, keys[:1], nil); err != nil || len(reply) != 1 {
					t.Errorf("%T: got %v, %v", c, reply, err)
				}
			})
		}
	}
	all.Wait()
	if n, _ := m.Get(keys[0]); n != "32" {
		t.Errorf("counted %s of 32", n)
	}
}

// noServer is a client that has the reply at hand.
type noServer struct {
	redis.Scripter
	reply []int64
}

func (c noServer) Process(_ context.Context, cmd redis.Cmder) error {
	cmd.(interface{ SetVal([]int64) }).SetVal(c.reply)
	return nil
}

func TestScriptCostsTwoAllocationsAndItsReply(t *testing.T) {
	s, c, words := redisstore.NewScript("return 1"), redisstore.Client(noServer{reply: []int64{1}}), args("a", "b")
	ctx := t.Context()
	if got := testing.AllocsPerRun(100, func() { _, _ = s.Run(ctx, c, keys, words) }); got != 2 {
		t.Errorf("%v allocations, want 2", got)
	}
}
