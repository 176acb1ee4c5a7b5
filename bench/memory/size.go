package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/bench/internal/record"
	"github.com/slidegate/slidegate/bench/internal/server"
	"github.com/slidegate/slidegate/bench/internal/table"
	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// kind is a way to count.
type kind struct {
	name      string
	algorithm core.Algorithm
	slots     int
}

var kinds = [...]kind{
	{"exact", core.Exact, 0},
	{"slotted(10)", core.Slotted, 10},
	{"slotted(20)", core.Slotted, 20},
	{"slotted(60)", core.Slotted, 60},
	{"hybrid(10)", core.Hybrid, 10},
}

// most is what an exact key may take at a number of units.
var most = map[int]int64{100: 1434, 10_000: 1_100_000}

// counter is a key that is to hold a number of units, which is its limit too.
type counter struct {
	units, sent int
	command     record.Command
}

// part returns a limit of a window for the user, whose name is two digits long.
func (k kind) part(user int, units int64, window time.Duration) core.Part {
	return core.Part{
		Counter: core.NewCounter("api", window.String(), window, k.algorithm, k.slots),
		Key:     keyfunc.User(strconv.Itoa(user)),
		N:       units, HotFrom: int64(core.DefaultHot * float64(units)), Cost: 1,
	}
}

// measureSizes fills all counters at the same time, and returns what bounds are broken.
func measureSizes(ctx context.Context, out io.Writer, s *server.Server, o options) ([]string, error) {
	counters, err := newCounters(ctx, s, o)
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, s.Client, counters, o.window); err != nil {
		return nil, err
	}
	t := table.Table{Title: fmt.Sprintf("bytes of all keys of one counter, by units in the window of %v, all of the limit", o.window), Head: []string{"counter"}}
	for _, n := range o.units {
		t.Head = append(t.Head, strconv.Itoa(n))
	}
	var broken []string
	for i, k := range kinds {
		row := []string{k.name}
		for j, n := range o.units {
			size, err := usage(ctx, s.Client, counters[i*len(o.units)+j].command.Keys)
			if err != nil {
				return nil, err
			}
			row = append(row, strconv.FormatInt(size, 10))
			if limit, ok := most[n]; ok && k.algorithm == core.Exact && size > limit {
				broken = append(broken, fmt.Sprintf("exact takes %d bytes at %d units, more than %d", size, n, limit))
			}
		}
		t.Add(row...)
	}
	t.Notes = []string{"one key: " + counters[0].command.Keys[0]}
	return broken, t.Print(out, o.markdown)
}

// newCounters records a command for each counter, and flushes what that counted.
func newCounters(ctx context.Context, s *server.Server, o options) ([]*counter, error) {
	r, err := record.NewRecorder(s.Client)
	if err != nil {
		return nil, err
	}
	var list []*counter
	for _, k := range kinds {
		for _, n := range o.units {
			cmd, err := r.Do(ctx, &core.Call{Parts: []core.Part{k.part(10+len(list), int64(n), o.window)}})
			if err != nil {
				return nil, err
			}
			list = append(list, &counter{units: n, command: cmd})
		}
	}
	return list, s.FlushDB(ctx).Err()
}

// fill sends each counter its units evenly over nearly a window.
func fill(ctx context.Context, c *redis.Client, counters []*counter, window time.Duration) error {
	span := window - window/20
	for from := time.Now(); ; time.Sleep(time.Millisecond) {
		share := min(time.Since(from).Seconds()/span.Seconds(), 1)
		pipe := c.Pipeline()
		for _, x := range counters {
			for due := 1 + int(share*float64(x.units-1)); x.sent < due; x.sent++ {
				pipe.Do(ctx, x.command.Words...)
			}
		}
		replies, err := pipe.Exec(ctx)
		if err != nil {
			return err
		}
		for _, r := range replies {
			reply, err := r.(*redis.Cmd).Int64Slice()
			if err != nil {
				return err
			}
			if len(reply) != 4 || reply[3] != reply[0] {
				return fmt.Errorf("%v answers %v: it was to be counted", r.Args(), reply)
			}
		}
		if share == 1 {
			return nil
		}
	}
}

// usage sums the bytes of the keys that are there.
func usage(ctx context.Context, c *redis.Client, keys []string) (int64, error) {
	var sum int64
	for _, k := range keys {
		n, err := c.MemoryUsage(ctx, k, 0).Result()
		if err != nil && err != redis.Nil {
			return 0, err
		}
		sum += n
	}
	if sum == 0 {
		return 0, fmt.Errorf("there is no key of %v", keys)
	}
	return sum, nil
}
