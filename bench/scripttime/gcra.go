package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/bench/internal/record"
)

// listener stands in for a client: it notes the script that redis_rate runs, and
// its arguments.
type listener struct {
	redis.Cmdable
	script string
	keys   []string
	args   []any
}

type noScript struct{}

func (noScript) Error() string { return "NOSCRIPT No matching script." }
func (noScript) RedisError()   {}

// EvalSha knows no script, so that the caller shows it.
func (l *listener) EvalSha(ctx context.Context, _ string, _ []string, _ ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(noScript{})
	return cmd
}

// Eval answers what redis_rate expects.
func (l *listener) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	l.script, l.keys, l.args = script, keys, args
	cmd := redis.NewCmd(ctx)
	cmd.SetVal([]any{int64(1), int64(1), "0", "0"})
	return cmd
}

// newGCRA is redis_rate, which counts nothing: it keeps one number, and lets up to
// twice the limit through in some windows. Where calls are to be refused its burst
// is used up and hardly refills.
func newGCRA(ctx context.Context, c *redis.Client, st state) (*contender, error) {
	limit := redis_rate.Limit{Rate: int(st.n), Burst: int(st.n), Period: st.window}
	if st.refused {
		limit.Rate, limit.Period = 1, 24*time.Hour
	}
	g := &contender{units: 1, admitted: flagged}
	sha := ""
	for i := range st.keys {
		var l listener
		if _, err := redis_rate.NewLimiter(&l).Allow(ctx, fmt.Sprintf("{api:user:%d}", i), limit); err != nil {
			return nil, err
		}
		if l.script == "" {
			return nil, errors.New("redis_rate ran no script")
		}
		if sha == "" {
			var err error
			if sha, err = c.ScriptLoad(ctx, l.script).Result(); err != nil {
				return nil, err
			}
		}
		g.commands = append(g.commands, record.New(sha, l.keys, l.args...))
	}
	g.fill = g.commands
	return g, nil
}
