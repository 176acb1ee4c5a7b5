// Idle measures what could stop Redis for everybody: the first call on a key whose
// million entries have all left, a refusal for a high cost on a log of 100,000, and
// a key of a million entries that expires.
//
//	go run ./idle                start a redis-server and measure
//	go run ./idle -redis addr    measure an empty server that runs already
//	go run ./idle -check         exit status 1 if a bound is broken
//	go run ./idle -markdown      the table in Markdown
//
// Times of calls are the server's own (SLOWLOG). That of an expiry is in no
// statistics of commands: it is the longest PING beside it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/slidegate/slidegate/bench/internal/server"
	"github.com/slidegate/slidegate/bench/internal/table"
)

// errBound says that a bound was broken.
var errBound = errors.New("a bound was broken")

type options struct {
	redis           string
	idle, full      int // units of the idle counters, and of those that refuse
	repeats         int
	window          time.Duration
	markdown, check bool
}

// The most that a call may take, as the median of the repeats.
const (
	mostIdle    = 5 * time.Millisecond
	mostRefusal = time.Millisecond
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "idle:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	o := options{idle: 1_000_000, full: 100_000, window: 30 * time.Second}
	flags := flag.NewFlagSet("idle", flag.ContinueOnError)
	flags.StringVar(&o.redis, "redis", "", "`address` of an empty server; it is flushed. Without, one is started")
	flags.IntVar(&o.repeats, "repeats", 3, "how many keys are measured")
	flags.DurationVar(&o.window, "window", o.window, "window of the counters that are left idle; filling them must take less")
	flags.BoolVar(&o.markdown, "markdown", false, "print the table in Markdown")
	flags.BoolVar(&o.check, "check", false, "exit with status 1 if a bound is broken")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.repeats < 1 || o.repeats > 10 {
		return fmt.Errorf("-repeats %d: must be between 1 and 10", o.repeats)
	}
	if o.window < time.Second || o.window > 5*time.Minute {
		return fmt.Errorf("-window %v: must be between 1s and 5m", o.window)
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
	b := &bench{server: s, options: o}
	refusals, err := b.refusals(ctx)
	if err != nil {
		return err
	}
	wakes, err := b.wakes(ctx)
	if err != nil {
		return err
	}
	expiries, err := b.expiries(ctx)
	if err != nil {
		return err
	}
	return report(out, o, refusals, wakes, expiries)
}

func report(out io.Writer, o options, refusals, wakes []time.Duration, expiries []expiry) error {
	t := table.Table{Title: "what could stop Redis", Head: []string{"event", "median", "longest", "bound"}}
	var broken []string
	add := func(name string, times []time.Duration, most time.Duration) {
		slices.Sort(times)
		median := times[len(times)/2]
		t.Add(name, millis(median), millis(times[len(times)-1]), "< "+millis(most))
		if median >= most {
			broken = append(broken, fmt.Sprintf("%s: %s", name, millis(median)))
		}
	}
	add(fmt.Sprintf("first call after %d units have left", o.idle), wakes, mostIdle)
	add(fmt.Sprintf("refusal of a cost of %d at %d live units", highCost(o.full), o.full), refusals, mostRefusal)
	for _, e := range expiries {
		t.Add(e.name, "", millis(e.longest), "")
	}
	if err := t.Print(out, o.markdown); err != nil {
		return err
	}
	for _, b := range broken {
		fmt.Fprintln(out, "bound broken:", b)
	}
	if len(broken) == 0 {
		fmt.Fprintln(out, "all bounds hold, all answers are right")
	} else if o.check {
		return errBound
	}
	return nil
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.3f ms", float64(d.Microseconds())/1000)
}
