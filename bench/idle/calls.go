package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate/bench/internal/record"
	"github.com/slidegate/slidegate/bench/internal/server"
	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// bench measures on one server.
type bench struct {
	server  *server.Server
	options options
}

// counter is an exact counter that fill has filled.
type counter struct {
	counter  *core.Counter
	key      keyfunc.Key
	n        int64
	redisKey string
	first    core.Instant // of the first unit; the others follow, one in each microsecond
}

func (x *counter) call(op core.Op, cost int64) *core.Call {
	return &core.Call{Op: op, Parts: []core.Part{{Counter: x.counter, Key: x.key, N: x.n, Cost: cost}}}
}

// highCost is the cost of the refusals at n units.
func highCost(n int) int64 { return int64(n) / 100 }

// fillScript writes entries as the store stores them (core/redisstore/counter.lua),
// which is faster than to have the store count them. The caller sees by a peek of
// the store that it takes them for its own.
const fillScript = `
local first, last, format = ARGV[1], ARGV[3] + 0, string.format
for from = ARGV[2] + 0, last, 1000 do
  local entries = {}
  for i = from, math.min(from + 999, last) do
    entries[#entries + 1] = format('%.0f', first + i - 1)
    entries[#entries + 1] = format('%.0f', i)
  end
  redis.call('ZADD', KEYS[1], unpack(entries))
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 0
`

// fill makes a counter that n units of n are used of, in the last n microseconds.
func (b *bench) fill(ctx context.Context, r *record.Recorder, name string, n int, window time.Duration) (*counter, error) {
	x := &counter{counter: core.NewCounter("api", "limit", window, core.Exact, 0), key: keyfunc.User(name), n: int64(n)}
	probe := x.call(core.OpPeek, 1)
	cmd, err := r.Do(ctx, probe)
	if err != nil {
		return nil, err
	}
	x.redisKey, x.first = cmd.Keys[0], probe.Parts[0].At-core.Instant(n)
	sha, err := b.server.ScriptLoad(ctx, fillScript).Result()
	if err != nil {
		return nil, err
	}
	const chunk = 20_000
	for from := 1; from <= n; from += chunk {
		err := b.server.EvalSha(ctx, sha, cmd.Keys, int64(x.first), from, min(from+chunk-1, n),
			(2*window + time.Millisecond).Milliseconds()).Err()
		if err != nil {
			return nil, err
		}
	}
	probe = x.call(core.OpPeek, 1)
	if _, err := r.Do(ctx, probe); err != nil {
		return nil, err
	}
	p := &probe.Parts[0]
	switch took := p.At.Sub(x.first); {
	case took >= window:
		return nil, fmt.Errorf("filling took %v, more than the window of %v: make the window longer", took, window)
	case p.Used != int64(n):
		return nil, fmt.Errorf("%d units are used after %d were written: is the format of counter.lua another now?", p.Used, n)
	}
	return x, nil
}

// refusals measures who wants more than the oldest entry frees: the store must find
// when that many units will have left.
func (b *bench) refusals(ctx context.Context) ([]time.Duration, error) {
	r, err := record.NewRecorder(b.server.Client)
	if err != nil {
		return nil, err
	}
	cost := highCost(b.options.full)
	var times []time.Duration
	for i := range b.options.repeats {
		x, err := b.fill(ctx, r, "full"+strconv.Itoa(i), b.options.full, time.Minute)
		if err != nil {
			return nil, err
		}
		c := x.call(core.OpTake, cost)
		took, err := b.timed(ctx, r, c)
		if err != nil {
			return nil, err
		}
		times = append(times, took)
		p := c.Parts[0]
		if want := x.counter.Release(x.first+core.Instant(cost-1), true); p.Done || p.FitsAt != want {
			return nil, fmt.Errorf("a cost of %d at %d units: done %t, fits at %d, want false, %d", cost, x.n, p.Done, p.FitsAt, want)
		}
	}
	return times, b.server.FlushDB(ctx).Err()
}

// wakes measures the first call after all units have left, while the keys are there.
func (b *bench) wakes(ctx context.Context) ([]time.Duration, error) {
	r, err := record.NewRecorder(b.server.Client)
	if err != nil {
		return nil, err
	}
	var list []*counter
	for i := range b.options.repeats {
		x, err := b.fill(ctx, r, "idle"+strconv.Itoa(i), b.options.idle, b.options.window)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	if err := pause(ctx, b.options.window+b.options.window/20); err != nil {
		return nil, err
	}
	var times []time.Duration
	for _, x := range list {
		n, err := b.server.ZCard(ctx, x.redisKey).Result()
		if err != nil {
			return nil, err
		}
		if n != x.n { // a counter's key lives for a window after its last unit has left, at most
			return nil, fmt.Errorf("%d entries are there before the call, not %d: make the window longer", n, x.n)
		}
		c := x.call(core.OpTake, 1)
		took, err := b.timed(ctx, r, c)
		if err != nil {
			return nil, err
		}
		times = append(times, took)
		if p := c.Parts[0]; !p.Done || p.Used != 1 {
			return nil, fmt.Errorf("first call after %d units have left: done %t, used %d, want true, 1", x.n, p.Done, p.Used)
		}
	}
	return times, b.server.FlushDB(ctx).Err()
}

// timed makes one call and returns what SLOWLOG says of it.
func (b *bench) timed(ctx context.Context, r *record.Recorder, c *core.Call) (took time.Duration, err error) {
	const option = "slowlog-log-slower-than"
	restore, err := b.set(ctx, option, "0")
	if err != nil {
		return 0, err
	}
	defer func() {
		if e := restore(); err == nil {
			err = e
		}
	}()
	if err := b.server.SlowLogReset(ctx).Err(); err != nil {
		return 0, err
	}
	if _, err := r.Do(ctx, c); err != nil {
		return 0, err
	}
	entries, err := b.server.SlowLogGet(ctx, 16).Result()
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if len(e.Args) > 0 && strings.EqualFold(e.Args[0], "evalsha") {
			return e.Duration, nil
		}
	}
	return 0, fmt.Errorf("SLOWLOG has no EVALSHA among %d entries", len(entries))
}

// set changes an option of the server, and returns what changes it back.
func (b *bench) set(ctx context.Context, option, value string) (restore func() error, err error) {
	old, err := b.server.ConfigGet(ctx, option).Result()
	if err != nil {
		return nil, err
	}
	restore = func() error { return b.server.ConfigSet(context.WithoutCancel(ctx), option, old[option]).Err() }
	return restore, b.server.ConfigSet(ctx, option, value).Err()
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
