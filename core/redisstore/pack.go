package redisstore

import (
	"errors"

	"github.com/slidegate/slidegate/core"
)

// mostPacked bounds the keys of one script, which keeps all others waiting: with about
// 10 µs for each it takes less than a millisecond.
const mostPacked = 64

// packs reports whether many.lua can answer calls like this one: a take from one exact
// limit.
func packs(c *core.Call) bool {
	return c.Op == core.OpTake && len(c.Parts) == 1 && c.Parts[0].Counter.Algorithm == core.Exact && !c.Parts[0].Watched
}

// putMany makes q ask many.lua.
func (q *question) putMany(prefix string, bundles []*bundle) {
	q.script = manyScript
	q.args, q.bounds, q.buf = q.args[:0], q.bounds[:0], q.buf[:0]
	for _, b := range bundles {
		q.buf = appendName(q.buf, prefix, &b.calls[0].Parts[0])
		q.end()
	}
	q.count = len(q.bounds)
	for _, b := range bundles {
		x := &b.calls[0].Parts[0]
		q.putInt(x.Counter.Window)
		q.putInt(x.N)
		q.putInt(int64(len(b.calls)))
		for _, c := range b.calls {
			q.putInt(c.Parts[0].Cost)
		}
	}
	q.seal()
}

// errLeftAlone is what a bundle has that the script has left alone.
var errLeftAlone = errors.New("slidegate: to be asked by itself")

// readMany fills the reply of many.lua into the calls.
func readMany(reply []int64, bundles []*bundle) error {
	want := 1
	for _, b := range bundles {
		want += 2 + len(b.calls)
	}
	if len(reply) != want {
		return wrongLength(len(reply), want)
	}
	at, rest := reply[0], reply[1:]
	for _, b := range bundles {
		heads, fits := [3]int64{at, rest[0], rest[1]}, rest[2:]
		rest = fits[len(b.calls):]
		if heads[1] < 0 {
			b.err = errLeftAlone
			continue
		}
		for i, c := range b.calls {
			readDecision(heads[:], fits[i:i+1], c)
		}
	}
	return nil
}
