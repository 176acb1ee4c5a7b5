package redisstore

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/slidegate/slidegate/core"
)

// errBadReply is in the error for a reply that no script of ours gives.
var errBadReply = errors.New("slidegate: not a reply of the script")

// question is a script with its keys and arguments, about calls that ask the same
// of the same counters of one hash slot and differ in their costs alone. A
// question can be used again; its zero value is ready.
type question struct {
	script *script
	keys   []string
	args   []any // pointers to strings: in an interface they need no room of their own
	count  int   // of keys
	bounds []int // where the texts end in buf
	buf    []byte
}

var operationLetters = [...]string{
	core.OpTake: "t", core.OpPeek: "p", core.OpReserve: "r",
	core.OpCommit: "c", core.OpCorrect: "x", core.OpCancel: "g",
}

// put makes q ask calls, at least one.
func (q *question) put(prefix string, calls ...*core.Call) {
	q.args, q.bounds, q.buf = q.args[:0], q.bounds[:0], q.buf[:0]
	c := calls[0]
	q.putKeys(prefix, c.Parts)
	switch c.Op {
	case core.OpReset:
		q.script = resetScript
		q.putInt(int64(len(c.Parts)))
	case core.OpTake, core.OpPeek, core.OpReserve:
		q.script = decideScript
		q.putText(operationLetters[c.Op])
		q.putInt(int64(len(calls)))
		q.putID(c)
		q.putWatched(c.Parts)
		for i := range c.Parts {
			q.putPart(&c.Parts[i])
		}
		for _, c := range calls {
			for i := range c.Parts {
				q.putInt(c.Parts[i].Cost)
			}
		}
	case opLease:
		q.putLease(c)
	default:
		q.script = settleScript
		q.putText(operationLetters[c.Op])
		q.putID(c)
		for i := range c.Parts {
			q.putInt(c.Parts[i].Reserved)
			q.putInt(c.Parts[i].Cost)
			q.putPart(&c.Parts[i])
		}
	}
	q.seal()
}

func (q *question) putKeys(prefix string, parts []core.Part) {
	for i := range parts {
		x := &parts[i]
		q.buf = appendName(q.buf, prefix, x)
		q.end()
		if x.Counter.Algorithm != core.Exact {
			q.buf = append(appendName(q.buf, prefix, x), logSuffix...)
			q.end()
		}
	}
	q.count = len(q.bounds)
}

// putPart adds the arguments that say how a part counts.
func (q *question) putPart(x *core.Part) {
	c := x.Counter
	q.buf = append(q.buf, algorithmLetters[c.Algorithm])
	q.end()
	q.putInt(c.Window)
	q.putInt(x.N)
	if c.Algorithm != core.Exact {
		q.putInt(c.SlotSize)
		q.putInt(int64(c.Slots))
		q.putInt(x.HotFrom)
	}
}

// putWatched adds which parts are watched, or nothing if none is.
func (q *question) putWatched(parts []core.Part) {
	for i := range parts {
		if parts[i].Watched {
			for i := range parts {
				q.buf = append(q.buf, "01"[b2i(parts[i].Watched)])
			}
			break
		}
	}
	q.end()
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (q *question) putInt(n int64) {
	q.buf = strconv.AppendInt(q.buf, n, 10)
	q.end()
}

func (q *question) putText(s string) {
	q.buf = append(q.buf, s...)
	q.end()
}

// putID adds the id of a reservation, or nothing for operations without one.
func (q *question) putID(c *core.Call) {
	if c.Op < core.OpReserve {
		q.end()
		return
	}
	q.putHex(c.ID)
}

func (q *question) putHex(id core.ReservationID) {
	q.buf = hex.AppendEncode(q.buf, id[:])
	q.end()
}

func (q *question) end() { q.bounds = append(q.bounds, len(q.buf)) }

// seal makes keys and arguments of what was put: parts of one string. Nothing of
// it is used again for another question, since a hook of the client may keep what
// it was shown.
func (q *question) seal() {
	all, from := string(q.buf), 0
	texts := make([]string, len(q.bounds))
	for i, to := range q.bounds {
		texts[i], from = all[from:to], to
	}
	q.keys = texts[:q.count]
	for i := range texts[q.count:] {
		q.args = append(q.args, &texts[q.count+i])
	}
}

// read fills the reply into the calls that were asked. It holds three numbers of
// each part, and one of each part for each call.
func read(reply []int64, calls ...*core.Call) error {
	parts := len(calls[0].Parts)
	if want := (3 + len(calls)) * parts; len(reply) != want {
		return wrongLength(len(reply), want)
	}
	heads, rest := reply[:3*parts], reply[3*parts:]
	for _, c := range calls {
		switch {
		case c.Op <= core.OpReserve:
			readDecision(heads, rest, c)
		case c.Op == opLease:
			readLease(heads, rest, c)
		default:
			readEnd(heads, rest, c)
		}
		rest = rest[parts:]
	}
	return nil
}

func wrongLength(got, want int) error {
	return fmt.Errorf("%w: the script answered %d numbers, want %d: is something rewriting replies between here and Redis?", errBadReply, got, want)
}

// readDecision reads when the cost fits, and brings the heads, which say what each
// counter held before, up to date for the next call.
func readDecision(heads, fits []int64, c *core.Call) {
	for i := range c.Parts {
		x := &c.Parts[i]
		x.At, x.FitsAt = core.Instant(heads[3*i]), core.Instant(fits[i])
		x.Done = x.FitsAt == x.At
	}
	takes := c.Op != core.OpPeek && admits(c.Parts)
	for i := range c.Parts {
		x, used, oldest := &c.Parts[i], &heads[3*i+1], &heads[3*i+2]
		if takes && x.Done {
			*used += x.Cost
			leaves := int64(x.At) + x.Counter.Window
			if c.Op == core.OpTake {
				leaves = int64(x.Counter.Release(x.At, x.CountsExactly(*used)))
			}
			if *oldest == 0 || leaves < *oldest {
				*oldest = leaves
			}
		}
		x.Used, x.OldestLeaves = *used, core.Instant(*oldest)
	}
}

// readEnd reads whether a reservation was pending, or that a key was reset.
func readEnd(heads, done []int64, c *core.Call) {
	for i := range c.Parts {
		x := &c.Parts[i]
		x.At, x.Used, x.OldestLeaves = core.Instant(heads[3*i]), heads[3*i+1], core.Instant(heads[3*i+2])
		x.FitsAt, x.Done = x.At, done[i] == 1
	}
}
