package redisstore

import (
	"strconv"

	"github.com/slidegate/slidegate/core"
)

// formatVersion ends every key. It is raised whenever stored counts change their
// meaning, so that old and new instances never misread each other.
const formatVersion = "v1"

// algorithmLetters name the algorithms in keys and in the scripts' arguments.
var algorithmLetters = [...]byte{core.Exact: 'e', core.Slotted: 's', core.Hybrid: 'h'}

// appendName appends the key under which the counter of a part is kept:
//
//	slidegate:{api:user:42}:1m:60000000:ev1
//
// that is prefix, limiter and key, limit, window in microseconds, algorithm with
// its slots, format. N is no part of it. The hash tag is limiter and key alone, so
// that all limits of a limiter on one key lie in one slot of a cluster and one
// script can decide them.
func appendName(b []byte, prefix string, x *core.Part) []byte {
	b = append(b, prefix...)
	b = append(b, '{')
	b = appendTag(b, x)
	b = append(b, '}', ':')
	b = appendEscaped(b, x.Counter.Limit)
	b = append(b, ':')
	b = strconv.AppendInt(b, x.Counter.Window, 10)
	b = append(b, ':', algorithmLetters[x.Counter.Algorithm])
	if x.Counter.Algorithm != core.Exact {
		b = strconv.AppendInt(b, int64(x.Counter.Slots), 10)
	}
	return append(b, formatVersion...)
}

// appendTag appends what stands between the braces: the hash tag.
func appendTag(b []byte, x *core.Part) []byte {
	b = appendEscaped(b, x.Counter.Limiter)
	b = append(b, ':')
	b, _ = x.Key.AppendText(b)
	return b
}

// logSuffix is what the log of a slotted or hybrid counter has behind the name of
// its slots.
const logSuffix = ":log"

const upperhex = "0123456789ABCDEF"

// appendEscaped appends s without what would end a name, or steer the hash tag.
// The names that core.New accepts have nothing to escape.
func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ', c >= 0x7f, c == '%', c == ':', c == '{', c == '}':
			b = append(b, '%', upperhex[c>>4], upperhex[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}

// together reports whether all parts lie in one hash slot because they share
// their tag.
func together(parts []core.Part) bool {
	for i := 1; i < len(parts); i++ {
		if !sameTag(&parts[0], &parts[i]) {
			return false
		}
	}
	return true
}

func sameTag(x, y *core.Part) bool {
	return x.Key == y.Key && x.Counter.Limiter == y.Counter.Limiter
}
