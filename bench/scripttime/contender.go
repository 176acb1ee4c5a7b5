package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/bench/internal/record"
)

// perPipeline is how many commands are sent at a time.
const perPipeline = 100

// contender is one way to decide, with the commands for each key.
type contender struct {
	name     string
	commands []record.Command
	fill     []record.Command // count one unit
	units    int              // of one command
	unique   int              // word that must differ in each call, if not 0
	admitted func(reply []any, units int) (bool, error)

	next  int // key, and a number for the unique word
	grown int // units counted since the keys were filled, of all keys together
	dumps []dump
}

// dump is the serialised value of one of the keys of the first command.
type dump struct {
	index int
	value string
}

const (
	plainName = "plain"
	leanName  = "plain, lean"
	exactName = "exact"
	bothName  = "exact + slotted(48)"
	eightName = "eight merged, exact"
)

func contenders(ctx context.Context, c *redis.Client, st state) ([]*contender, error) {
	var list []*contender
	var failed error
	add := func(name string, x *contender, err error) {
		if err != nil && failed == nil {
			failed = fmt.Errorf("%s: %w", name, err)
		}
		if err == nil {
			x.name = name
			list = append(list, x)
		}
	}
	x, err := newPlain(ctx, c, "plain", plainScript, st)
	add(plainName, x, err)
	x, err = newPlain(ctx, c, "lean", leanScript, st)
	add(leanName, x, err)
	x, err = newGCRA(ctx, c, st)
	add("redis_rate", x, err)
	for _, s := range []struct {
		name, limiter string
		parts         partsOf
	}{{exactName, "api1", exact}, {"slotted(10)", "api2", slotted}, {"hybrid(10)", "api3", hybrid}, {bothName, "api4", both}} {
		x, err = newSlidegate(ctx, c, s.limiter, s.parts, st)
		add(s.name, x, err)
	}
	x, err = newMerged(ctx, c, st)
	add(eightName, x, err)
	return list, failed
}

// words returns what to send for the next key.
func (x *contender) words(commands []record.Command, key int) []any {
	x.next++
	w := commands[key].Words
	if x.unique > 0 {
		w = slices.Clone(w)
		w[x.unique] = member(x.next)
	}
	return w
}

// send makes calls on the keys in rotation, in one pipeline, and wants each answered
// as in st.
func (x *contender) send(ctx context.Context, c *redis.Client, st state, calls int) error {
	pipe := c.Pipeline()
	for range calls {
		pipe.Do(ctx, x.words(x.commands, x.next%len(x.commands))...)
	}
	replies, err := pipe.Exec(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", x.name, err)
	}
	if err := x.judge(replies, st); err != nil {
		return fmt.Errorf("%s: %w", x.name, err)
	}
	x.grown += calls * x.units
	return nil
}

func (x *contender) judge(replies []redis.Cmder, st state) error {
	for _, r := range replies {
		reply, err := r.(*redis.Cmd).Slice()
		if err != nil {
			return err
		}
		ok, err := x.admitted(reply, x.units)
		if err != nil {
			return err
		}
		if ok == st.refused {
			return fmt.Errorf("%v answers %v, which is not what is to be measured", r.Args(), reply)
		}
	}
	return nil
}

// prepare fills the first key by real calls and keeps what Redis stores for it.
func (x *contender) prepare(ctx context.Context, c *redis.Client, st state) error {
	for left := st.live; left > 0; left -= perPipeline {
		pipe := c.Pipeline()
		for range min(left, perPipeline) {
			pipe.Do(ctx, x.words(x.fill, 0)...)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
	}
	x.dumps = nil
	for i, k := range x.commands[0].Keys {
		switch value, err := c.Dump(ctx, k).Result(); err {
		case nil:
			x.dumps = append(x.dumps, dump{i, value})
		case redis.Nil:
		default:
			return fmt.Errorf("%s: %w", x.name, err)
		}
	}
	return x.restore(ctx, c, st)
}

// restore gives all keys what the first had.
func (x *contender) restore(ctx context.Context, c *redis.Client, st state) error {
	x.grown = 0
	pipe := c.Pipeline()
	for i, cmd := range x.commands {
		for _, d := range x.dumps {
			pipe.RestoreReplace(ctx, cmd.Keys[d.index], 2*st.window, d.value)
		}
		if pipe.Len() >= perPipeline || i == len(x.commands)-1 {
			if _, err := pipe.Exec(ctx); err != nil {
				return fmt.Errorf("%s: restore: %w", x.name, err)
			}
		}
	}
	return nil
}
