// Command outage breaks a Redis in steps and prints what a service behind slidegate
// answers meanwhile, and what its operators see. It starts the service and a
// redis-server of its own, or, where none is installed, a stand-in that it breaks.
//
//	go run ./examples/outage
//
// It ends with status 1 if the service did anything else than docs/failure.md says.
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

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

func main() {
	redis.SetLogger(silent{}) // it has a line for each dial that fails
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "outage:", err)
		os.Exit(1)
	}
}

// silent takes go-redis's log lines.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func command(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("outage", flag.ContinueOnError)
	standIn := flags.Bool("stand-in", false, "break a stand-in, even if redis-server is installed")
	var p pace
	flags.DurationVar(&p.lasts, "lasts", time.Second, "how long each outage `lasts`, 100ms to 1m")
	flags.DurationVar(&p.window, "window", 3*time.Second, "window of the limits, 500ms to 1m")
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
	defer r.stop()
	fmt.Fprintf(out, introduction, r.what, p.window)
	s, err := newService(r.addr(), p.window)
	if err != nil {
		return err
	}
	defer s.close()
	return play(ctx, out, r, s, p)
}

// openRedis starts what is to be broken.
func openRedis(standIn bool) (*broken, error) {
	if !standIn {
		server, err := redistest.Start()
		if err == nil {
			return realRedis(server)
		}
		if !errors.Is(err, redistest.ErrNotInstalled) {
			return nil, err
		}
	}
	return standInRedis()
}

// pace is how long things take.
type pace struct{ lasts, window time.Duration }

const introduction = `Three routes of one service share %s.
Each admits 4 requests of a client in any %v, and they differ in what happens while
Redis gives no decision:

  /local    a window in the service's memory decides (core.Local, the default)
  /open     requests pass (core.Open)
  /closed   requests are refused with 503 (core.Closed)

`
