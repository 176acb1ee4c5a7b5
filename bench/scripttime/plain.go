package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/bench/internal/record"
)

// plainScript is the sliding log that most people write: the arguments go through
// tonumber, and numbers are handed to Redis as they come. It says whether the
// request is allowed, and how many there are; not when to come back.
const plainScript = `
local key = KEYS[1]
local window = tonumber(ARGV[1])
local limit = tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
redis.call('ZREMRANGEBYSCORE', key, 0, now - window)
local count = redis.call('ZCARD', key)
if count < limit then
  redis.call('ZADD', key, now, ARGV[3])
  redis.call('PEXPIRE', key, math.ceil(window / 1000))
  return {1, count + 1}
end
return {0, count}
`

// leanScript does the same, and spares all that can be spared: Redis is handed
// text alone, which is several times cheaper than numbers.
const leanScript = `
local call, format, log = redis.call, string.format, KEYS[1]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
call('ZREMRANGEBYSCORE', log, '-inf', format('%.0f', now - ARGV[1]))
local count = call('ZCARD', log)
if count >= ARGV[2] + 0 then return {0, count} end
call('ZADD', log, format('%.0f', now), ARGV[3])
call('PEXPIRE', log, ARGV[4])
return {1, count + 1}
`

func newPlain(ctx context.Context, c *redis.Client, name, script string, st state) (*contender, error) {
	sha, err := c.ScriptLoad(ctx, script).Result()
	if err != nil {
		return nil, err
	}
	p := &contender{units: 1, admitted: flagged}
	micros := st.window.Microseconds()
	for i := range st.keys {
		cmd := record.New(sha, []string{fmt.Sprintf("%s:{api:user:%d}", name, i)},
			strconv.FormatInt(micros, 10), strconv.FormatInt(st.n, 10), "", strconv.FormatInt((micros+999)/1000, 10))
		p.unique = cmd.Arg(3)
		p.commands = append(p.commands, cmd)
	}
	p.fill = p.commands
	return p, nil
}

// flagged reads a reply whose first number says whether the call was allowed.
func flagged(reply []any, _ int) (bool, error) {
	if len(reply) == 0 {
		return false, fmt.Errorf("an empty reply")
	}
	n, ok := reply[0].(int64)
	if !ok {
		return false, fmt.Errorf("a reply that begins with %v", reply[0])
	}
	return n > 0, nil
}

// member makes a member as others do: the time and something random, or a UUID.
func member(n int) string { return fmt.Sprintf("%d-%08x", time.Now().UnixMilli(), n) }
