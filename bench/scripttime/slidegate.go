package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/bench/internal/record"
	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// merged is how many requests one call decides where they are merged.
const merged = 8

// partsOf are the limits of a contender.
type partsOf func(limiter string, st state) []core.Part

func exact(limiter string, st state) []core.Part {
	return []core.Part{{Counter: core.NewCounter(limiter, "limit", st.window, core.Exact, 0), N: st.n, Cost: 1}}
}

func slotted(limiter string, st state) []core.Part {
	return []core.Part{{Counter: core.NewCounter(limiter, "limit", st.window, core.Slotted, 10), N: st.n, Cost: 1}}
}

func hybrid(limiter string, st state) []core.Part {
	return []core.Part{{
		Counter: core.NewCounter(limiter, "limit", st.window, core.Hybrid, 10),
		N:       st.n, HotFrom: int64(core.DefaultHot * float64(st.n)), Cost: 1,
	}}
}

// both has a limit for a day beside the exact one, as many services do.
func both(limiter string, st state) []core.Part {
	day := core.NewCounter(limiter, "day", 24*time.Hour, core.Slotted, 48)
	return append(exact(limiter, st), core.Part{Counter: day, N: 100 * st.n, Cost: 1})
}

// newSlidegate records what the store sends. What that counts is flushed before
// anything is measured. The name of the limiter keeps the contenders' keys apart.
func newSlidegate(ctx context.Context, c *redis.Client, limiter string, parts partsOf, st state) (*contender, error) {
	r, err := record.NewRecorder(c)
	if err != nil {
		return nil, err
	}
	s := &contender{units: 1, admitted: fitted}
	for i := range st.keys {
		call := &core.Call{Parts: parts(limiter, st)}
		for k := range call.Parts {
			call.Parts[k].Key = keyfunc.User(strconv.Itoa(i))
		}
		cmd, err := r.Do(ctx, call)
		if err != nil {
			return nil, err
		}
		s.commands = append(s.commands, cmd)
	}
	s.fill = s.commands
	return s, nil
}

// newMerged has one call decide several requests for one exact limit.
func newMerged(ctx context.Context, c *redis.Client, st state) (*contender, error) {
	m, err := newSlidegate(ctx, c, "api8", exact, st)
	if err != nil {
		return nil, err
	}
	m.units, m.commands = merged, nil
	for _, cmd := range m.fill {
		costs := make([]any, merged-1)
		for i := range costs {
			costs[i] = cmd.Words[len(cmd.Words)-1]
		}
		m.commands = append(m.commands, cmd.With(cmd.Arg(2), strconv.Itoa(merged), costs...))
	}
	return m, nil
}

// fitted reads a reply of slidegate: three numbers of each limit, of which the
// first is its time, and then when each cost fits.
func fitted(reply []any, requests int) (bool, error) {
	parts := len(reply) / (3 + requests)
	if parts == 0 || len(reply) != parts*(3+requests) {
		return false, fmt.Errorf("a reply of %d numbers", len(reply))
	}
	for i, fits := range reply[3*parts:] {
		if fits != reply[i%parts*3] {
			return false, nil
		}
	}
	return true, nil
}
