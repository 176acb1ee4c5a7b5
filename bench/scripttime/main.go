// Scripttime measures what a decision costs inside Redis, next to the script that
// most people write, in microseconds per call as the server counts them (INFO
// commandstats).
//
//	go run ./scripttime                start a redis-server and measure
//	go run ./scripttime -redis addr    measure an empty server that runs already
//	go run ./scripttime -check         exit status 1 if a bound is broken
//	go run ./scripttime -markdown      the tables in Markdown
//	go run ./scripttime -only refused  states whose name holds the word
//
// All contenders take turns within one run, so that noise hits them alike. Compare
// ratios within one run, never microseconds of two.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/slidegate/slidegate/bench/internal/server"
)

// errBound says that a bound was broken.
var errBound = errors.New("a bound was broken")

type options struct {
	redis, only     string
	rounds          int
	markdown, check bool
	tiny            bool // for tests: few keys, few units
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "scripttime:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("scripttime", flag.ContinueOnError)
	flags.StringVar(&o.redis, "redis", "", "`address` of an empty server; it is flushed. Without, one is started")
	flags.StringVar(&o.only, "only", "", "measure only states whose name holds this `word`")
	flags.IntVar(&o.rounds, "rounds", 60, "how often each contender is measured in each state")
	flags.BoolVar(&o.markdown, "markdown", false, "print tables in Markdown")
	flags.BoolVar(&o.check, "check", false, "exit with status 1 if a bound is broken")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.rounds < 1 {
		return fmt.Errorf("-rounds %d: must be 1 or more", o.rounds)
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
	fmt.Fprintf(out, "%s, %d rounds (a quarter where a window takes 500 ms)\n\n", about, o.rounds)
	var broken []string
	for _, st := range states(o.tiny) {
		if !strings.Contains(st.name, o.only) {
			continue
		}
		results, err := measure(ctx, s, st, max(o.rounds/max(st.slow, 1), 1))
		if err != nil {
			return fmt.Errorf("%s: %w", st.name, err)
		}
		if err := printResults(out, st, results, o.markdown); err != nil {
			return err
		}
		broken = append(broken, judge(st, results)...)
	}
	return verdict(out, broken, o.check)
}

func verdict(out io.Writer, broken []string, check bool) error {
	for _, b := range broken {
		fmt.Fprintln(out, "bound broken:", b)
	}
	if len(broken) == 0 {
		fmt.Fprintln(out, "all bounds hold")
	} else if check {
		return errBound
	}
	return nil
}
