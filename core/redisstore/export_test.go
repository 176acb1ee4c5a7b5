package redisstore

import (
	"context"
	"time"

	"github.com/slidegate/slidegate/core"
)

// Ask has one script answer calls that differ in their costs alone.
func (s *Store) Ask(ctx context.Context, calls ...*core.Call) error {
	return s.link.Load().ask(ctx, new(question), calls...)
}

// Keys returns the keys that the call's script is given.
func (s *Store) Keys(c *core.Call) []string {
	q := new(question)
	q.put(s.link.Load().prefix, c)
	return q.keys
}

// Question returns the script of the call, its keys and its arguments.
func (s *Store) Question(c *core.Call) (script string, keys, args []string) {
	q := new(question)
	q.put(s.link.Load().prefix, c)
	for _, a := range q.args {
		args = append(args, *a.(*string))
	}
	return q.script.src, q.keys, args
}

// Apart says whether the store asks in several scripts what has several hash tags.
func (s *Store) Apart() bool { return s.link.Load().apart.Load() }

// Sources returns the scripts by name.
func Sources() map[string]string {
	return map[string]string{"decide": decideScript.src, "settle": settleScript.src, "lease": leaseScript.src, "reset": resetScript.src}
}

// FailureOf names the failure of an error of go-redis.
func FailureOf(err error) core.Failure { return failureOf(err) }

// LanesOf returns the lanes of a call.
func LanesOf(c *core.Call) uint64 { return lanes(c) }

// SlotOf returns the slot of a hash tag.
func SlotOf(tag string) int { return int(crc16([]byte(tag)) & 0x3fff) }

// ProbeCall returns what is asked to find out whether a lane answers.
func ProbeCall(lane int) *core.Call { return probeCall(lane) }

// RefusalClock has the refusal cache tell time by now.
func RefusalClock(now func() time.Duration) Option { return func(o *options) { o.clock = now } }
