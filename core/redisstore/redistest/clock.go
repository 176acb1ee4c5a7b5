package redistest

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"
)

// ErrNoCompiler means that no C compiler, cc, is on the PATH.
var ErrNoCompiler = errors.New("slidegate: cc is not on the PATH: a clock that can be moved is compiled for the server")

// Clock moves the wall clock of one server: what TIME replies, and when keys
// expire. It may be used by several goroutines, also after the server's end.
type Clock struct {
	offset *int64 // microseconds, in memory that the server maps too
}

// StartWithClock starts a server as Start does, and returns a clock that moves
// the server's wall clock. The server's monotonic clock and all other programs
// keep their time. The clock keeps its offset when the server is restarted. It
// needs Linux, a dynamically linked redis-server, and cc; compiling takes about
// 0.1 s.
//
// Errors are those of Start, and ErrNoCompiler; errors.ErrUnsupported where there
// is no Linux.
//
// A step forward expires the keys whose time is over for good; after a step back
// keys live longer by as much.
func StartWithClock(args ...string) (*Server, *Clock, error) {
	var c *Clock
	p := plan{options: args, prefix: func(directory string) (prefix []string, err error) {
		c, prefix, err = newClock(directory)
		return prefix, err
	}}
	s, err := p.start()
	if err != nil {
		return nil, nil, err
	}
	return s, c, nil
}

// Step moves the server's clock by d, forward or back, from one call of the
// server's to the next. What is below a microsecond is dropped.
func (c *Clock) Step(d time.Duration) {
	atomic.AddInt64(c.offset, d.Microseconds())
	runtime.KeepAlive(c)
}

// Offset returns how far the server's clock is ahead of the system's.
func (c *Clock) Offset() time.Duration {
	defer runtime.KeepAlive(c)
	return time.Duration(atomic.LoadInt64(c.offset)) * time.Microsecond
}
