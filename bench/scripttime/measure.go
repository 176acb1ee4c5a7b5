package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate/bench/internal/server"
)

// result is what a contender took, in microseconds per call, in ascending order.
type result struct {
	name  string
	units int
	times []float64
}

// quantile returns the time below which the share q of the measurements lies.
func (r *result) quantile(q float64) float64 { return r.times[int(q*float64(len(r.times)-1)+0.5)] }

func (r *result) low() float64    { return r.quantile(0.1) }
func (r *result) median() float64 { return r.quantile(0.5) }

// measure has all contenders take turns, each time in another order. The first
// round is for warming up.
func measure(ctx context.Context, s *server.Server, st state, rounds int) ([]*result, error) {
	list, err := contenders(ctx, s.Client, st)
	if err != nil {
		return nil, err
	}
	if err := s.FlushDB(ctx).Err(); err != nil {
		return nil, err
	}
	results := make([]*result, len(list))
	for i, x := range list {
		results[i] = &result{name: x.name, units: x.units}
		if err := x.prepare(ctx, s.Client, st); err != nil {
			return nil, err
		}
	}
	for round := range rounds + 1 {
		for i := range list {
			k := (i + round) % len(list)
			times, err := list[k].measure(ctx, s, st)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				results[k].times = append(results[k].times, times...)
			}
		}
	}
	for _, r := range results {
		slices.Sort(r.times)
	}
	return results, s.FlushDB(ctx).Err()
}

// measure brings the keys into the state and returns what a call costs in it, for
// each pipeline: the shorter a measurement, the likelier nothing disturbs it.
func (x *contender) measure(ctx context.Context, s *server.Server, st state) ([]float64, error) {
	if err := x.bring(ctx, s, st); err != nil {
		return nil, err
	}
	var times []float64
	for left := st.calls; left > 0; left -= perPipeline {
		calls := min(left, perPipeline)
		if st.fill && x.grown > st.live*st.keys/10 {
			if err := x.restore(ctx, s.Client, st); err != nil {
				return nil, err
			}
		}
		if err := s.ConfigResetStat(ctx).Err(); err != nil {
			return nil, err
		}
		if err := x.send(ctx, s.Client, st, calls); err != nil {
			return nil, err
		}
		took, err := evalshaTime(ctx, s, calls)
		if err != nil {
			return nil, err
		}
		times = append(times, took)
	}
	return times, nil
}

// bring brings the keys into the state.
func (x *contender) bring(ctx context.Context, s *server.Server, st state) error {
	switch {
	case st.fresh:
		return s.FlushDB(ctx).Err()
	case st.flow:
		for from := time.Now(); time.Since(from) < st.window*6/5; {
			if err := x.send(ctx, s.Client, st, perPipeline); err != nil {
				return err
			}
		}
	}
	return nil
}

// evalshaTime returns the microseconds per EVALSHA since the statistics were reset.
func evalshaTime(ctx context.Context, s *server.Server, calls int) (float64, error) {
	line, err := s.Info(ctx, "commandstats", "cmdstat_evalsha")
	if err != nil {
		return 0, err
	}
	var n, micros int
	if _, err := fmt.Sscanf(strings.ReplaceAll(line, ",", " "), "calls=%d usec=%d", &n, &micros); err != nil {
		return 0, fmt.Errorf("commandstats: %q: %w", line, err)
	}
	if n != calls {
		return 0, fmt.Errorf("commandstats count %d calls, not %d: does someone else use this server?", n, calls)
	}
	return float64(micros) / float64(n), nil
}
