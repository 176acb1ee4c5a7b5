package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
	"github.com/slidegate/slidegate/keyfunc"
)

// reply is an error that Redis replies with.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestFailuresOfRedisAreNamed(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, test := range []struct {
		err  error
		want core.Failure
	}{
		{context.DeadlineExceeded, core.FailureTimeout},
		{fmt.Errorf("late: %w", errors.Join(context.DeadlineExceeded, os.ErrDeadlineExceeded)), core.FailureTimeout},
		{redis.ErrPoolTimeout, core.FailurePool},
		{redis.ErrPoolExhausted, core.FailurePool},
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), core.FailureRefused},
		{dial(os.NewSyscallError("connect", syscall.ENOENT)), core.FailureRefused},
		{dial(errors.New("no route to host")), core.FailureRefused},
		{&net.DNSError{Err: "no such host", Name: "redis"}, core.FailureRefused},
		{io.EOF, core.FailureReset},
		{io.ErrUnexpectedEOF, core.FailureReset},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, core.FailureReset},
		{&net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}, core.FailureReset},
		{net.ErrClosed, core.FailureReset},
		{reply("OOM command not allowed when used memory > 'maxmemory'. script: 5f, on @user_script:9."), core.FailureMemory},
		{reply("LOADING Redis is loading the dataset in memory"), core.FailureLoading},
		{reply("READONLY You can't write against a read only replica. script: 5f"), core.FailureReadOnly},
		{reply("CLUSTERDOWN Hash slot not served"), core.FailureClusterDown},
		{reply("MOVED 7 127.0.0.1:7001"), core.FailureClusterDown},
		{reply("ASK 7 127.0.0.1:7001"), core.FailureClusterDown},
		{reply("TRYAGAIN Multiple keys request during rehashing of slot"), core.FailureClusterDown},
		{reply("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), core.FailureMasterDown},
		{reply("NOREPLICAS Not enough good replicas to write."), core.FailureNoReplicas},
		{reply("ERR max number of clients reached"), core.FailureClients},
		{reply("BUSY Redis is busy running a script."), core.FailureOther},
		{reply("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), core.FailureOther},
		{reply("WRONGTYPE Operation against a key holding the wrong kind of value"), core.FailureValue},
		{reply("SLIDEGATE a total that is not whole"), core.FailureValue},
		{reply("NOPERM this user has no permissions to run the 'evalsha' command"), core.FailureDenied},
		{reply("NOAUTH Authentication required."), core.FailureDenied},
		{reply("WRONGPASS invalid username-password pair or user is disabled."), core.FailureDenied},
		{reply("ERR The user executing the script can't access at least one of the keys mentioned in the script"), core.FailureDenied},
		{reply("ERR The user executing the script can't run this command or subcommand"), core.FailureDenied},
		{reply("ERR user_script:7: attempt to index a nil value"), core.FailureScript},
		{errors.New("something else"), core.FailureOther},
		{errors.Join(nil, reply("LOADING again")), core.FailureLoading},
	} {
		if got := redisstore.FailureOf(test.err); got != test.want {
			t.Errorf("%v: %v, want %v", test.err, got, test.want)
		}
	}
}

// What cannot be sent, or is answered with something odd, is a fault of the program.
func TestErrorsSayWhy(t *testing.T) {
	fake := serve(t, always("*1\r\n:7\r\n"))
	c := redis.NewClient(&redis.Options{Addr: fake.addr})
	t.Cleanup(func() { _ = c.Close() })
	err := storeOn(t, c).Do(t.Context(), call(core.OpTake, counter("limit", core.Exact, time.Minute, 0), 1, 1))
	if core.FailureOf(err) != core.FailureScript || !strings.Contains(err.Error(), "rewriting replies") {
		t.Errorf("%v: %v", core.FailureOf(err), err)
	}
}

// The lane of a call follows the slot that a real cluster tells.
func TestLanesFollowTheSlots(t *testing.T) {
	server := redistest.NeedCluster(t, 1, 0)
	c := redis.NewClient(&redis.Options{Addr: server.Addrs()[0]})
	t.Cleanup(func() { _ = c.Close() })
	seen := uint64(0)
	for i := range 200 {
		x := part(counter("limit", core.Exact, time.Minute, 0), 1, 1)
		x.Key = keyfunc.User("user " + strconv.Itoa(i) + " {}:%é")
		one := &core.Call{Parts: []core.Part{x}}
		tag := "test:" + x.Key.String()
		slot, err := c.ClusterKeySlot(t.Context(), "slidegate:{"+tag+"}:x").Result()
		if err != nil {
			t.Fatal(err)
		}
		if got := redisstore.SlotOf(tag); got != int(slot) {
			t.Errorf("%q: slot %d, want %d", tag, got, slot)
		}
		if got := redisstore.LanesOf(one); got != 1<<(slot>>8) {
			t.Errorf("%q: lanes %b, slot %d", tag, got, slot)
		}
		seen |= redisstore.LanesOf(one)
	}
	if bits.OnesCount64(seen) < 50 {
		t.Errorf("200 keys lie in %d lanes", bits.OnesCount64(seen))
	}
	for lane := range 64 {
		if got := redisstore.LanesOf(redisstore.ProbeCall(lane)); got != 1<<lane {
			t.Errorf("the probe of lane %d is in %b", lane, got)
		}
	}
}

func TestLanesOfSeveralKeys(t *testing.T) {
	x, y := part(counter("a", core.Exact, time.Minute, 0), 1, 1), part(counter("b", core.Exact, time.Minute, 0), 1, 1)
	same := redisstore.LanesOf(&core.Call{Parts: []core.Part{x, y}})
	y.Key = keyfunc.User("another one")
	apart := redisstore.LanesOf(&core.Call{Parts: []core.Part{x, y, x}})
	if bits.OnesCount64(same) != 1 || apart&same != same || bits.OnesCount64(apart) != 2 {
		t.Errorf("lanes %b and %b", same, apart)
	}
}
