// Command outage breaks a Redis in steps, and prints what users and operators of a
// service behind slidegate see meanwhile. The service, and the redis-server it
// breaks, are its own; where none is installed, it breaks a stand-in.
//
//	go run ./examples/outage               takes about 10 s
//	go run ./examples/outage -stand-in     breaks a stand-in, even if redis-server is installed
//
// The exit status is 1 if anything was not as docs/failure.md promises.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	redis.SetLogger(silent{}) // it has a line for each dial that fails
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "outage:", err)
		os.Exit(1)
	}
}

// silent takes the log lines of go-redis.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// pace is how long things take.
type pace struct {
	lasts  time.Duration // each outage
	window time.Duration // of the limits
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("outage", flag.ContinueOnError)
	standIn := flags.Bool("stand-in", false, "break a stand-in, even if redis-server is installed")
	var p pace
	flags.DurationVar(&p.lasts, "lasts", time.Second, "how `long` each outage lasts, 100ms to 1m")
	flags.DurationVar(&p.window, "window", 10*time.Second, "`length` of the limits' window, 500ms to 1m")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if p.lasts < 100*time.Millisecond || p.lasts > time.Minute {
		return fmt.Errorf("-lasts %v: must be between 100ms and 1m", p.lasts)
	}
	if p.window < 500*time.Millisecond || p.window > time.Minute {
		return fmt.Errorf("-window %v: must be between 500ms and 1m", p.window)
	}
	r, err := openRedis(*standIn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	return show(ctx, out, r, p)
}

// show starts the service on r and breaks that.
func show(ctx context.Context, out io.Writer, r *breakable, pc pace) (err error) {
	sc := &screen{out: out}
	s, err := newService(r.addr, pc.window, sc.logger())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	fmt.Fprintf(out, introduction, s.url, quota, pc.window, r.about)
	p := &play{screen: sc, service: s, pace: pc}
	err = p.run(ctx, r.faults)
	if ctx.Err() != nil {
		_, err = fmt.Fprintln(out, "\nInterrupted: no verdict.")
		return err
	}
	if err == nil {
		p.summary(out)
	}
	return err
}

const (
	introduction = `A service at %s has three routes. Each admits %d requests of a user in any %v,
counted in %s.
They differ in what becomes of a request that Redis does not decide (core.Config.OnFailure):

  /local    a window in the memory of the service decides (core.Local, the default)
  /open     it passes (core.Open)
  /closed   it is refused with 503 (core.Closed)

Each row of requests is one to each route, and shows the status, then what is left of the limit
(X-RateLimit-Remaining of X-RateLimit-Limit) or when to come back (Retry-After), and how long the
answer took. The log is that of the service. The status is store.Status(), with the counts of the step.
`
	kept = `
Kept: no request took longer than %v, and the budget for Redis is %v. Only /closed answered
with 503. Before and during an outage, /local admitted at most %d requests of a user in %v.
The log had one line when Redis failed, and one when it was well again. Redis decided again
within %v of being healed.
`
)
