// Memory measures the bytes that Redis needs for one key, by MEMORY USAGE, with
// units that came evenly over the window; and whether all keys are gone when
// everything has expired.
//
//	go run ./memory                start a redis-server and measure
//	go run ./memory -redis addr    measure an empty server that runs already
//	go run ./memory -check         exit status 1 if a bound is broken
//	go run ./memory -markdown      the table in Markdown
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/slidegate/slidegate/bench/internal/server"
)

// errBound says that a bound was broken.
var errBound = errors.New("a bound was broken")

type options struct {
	redis           string
	window          time.Duration
	units           []int
	markdown, check bool
}

// unitCounts hold the step from 128 to 129, from which on Redis keeps a sorted set
// as a skip list.
var unitCounts = [...]int{1, 10, 100, 128, 129, 1000, 10_000}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	o := options{units: unitCounts[:]}
	flags := flag.NewFlagSet("memory", flag.ContinueOnError)
	flags.StringVar(&o.redis, "redis", "", "`address` of an empty server; it is flushed. Without, one is started")
	flags.DurationVar(&o.window, "window", 10*time.Second, "window of the limits, which the units take to arrive")
	flags.BoolVar(&o.markdown, "markdown", false, "print the table in Markdown")
	flags.BoolVar(&o.check, "check", false, "exit with status 1 if a bound is broken")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.window < time.Second || o.window > time.Minute {
		return fmt.Errorf("-window %v: must be between 1s and 1m", o.window)
	}
	return run(ctx, out, o)
}

func run(ctx context.Context, out io.Writer, o options) (err error) {
	s, err := server.Open(ctx, o.redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	about, err := s.Describe(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n\n", about)
	broken, err := measureSizes(ctx, out, s, o)
	if err != nil {
		return err
	}
	left, took, err := expire(ctx, s)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "keys left %.1f s after the last of all kinds of calls on windows of 1 s: %d\n", took.Seconds(), left)
	if left > 0 {
		broken = append(broken, fmt.Sprintf("%d keys never expired", left))
	}
	for _, b := range broken {
		fmt.Fprintln(out, "bound broken:", b)
	}
	if len(broken) == 0 {
		fmt.Fprintln(out, "all bounds hold")
	} else if o.check {
		return errBound
	}
	return nil
}
