// Middleware measures what a limiter adds to a request inside the process: a
// framework that serves an empty handler behind a limiter, minus the same without.
// Counts are in memory, of one client address.
//
//	go run ./middleware             measure
//	go run ./middleware -markdown   the tables in Markdown
//	go run ./middleware -check      exit status 1 if slidegate's allocations grow
//
// All take turns within one run, so that noise hits them alike. Compare ratios within
// one run, never nanoseconds of two.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"

	"github.com/slidegate/slidegate/bench/internal/table"
)

// errBound says that a bound was broken.
var errBound = errors.New("a bound was broken")

type options struct {
	rounds, calls   int
	markdown, check bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "middleware:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("middleware", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 100, "how often each is measured")
	flags.IntVar(&o.calls, "calls", 2000, "requests of a measurement")
	flags.BoolVar(&o.markdown, "markdown", false, "print tables in Markdown")
	flags.BoolVar(&o.check, "check", false, "exit with status 1 if a bound is broken")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.rounds < 1 || o.calls < 1 {
		return fmt.Errorf("-rounds %d, -calls %d: both must be 1 or more", o.rounds, o.calls)
	}
	return run(ctx, out, o)
}

func run(ctx context.Context, out io.Writer, o options) error {
	fmt.Fprintf(out, "%s, %d CPUs, %d rounds of %d requests\n\n", runtime.Version(), runtime.NumCPU(), o.rounds, o.calls)
	var broken []string
	for _, m := range modes {
		subjects, err := newSubjects(m)
		if err != nil {
			return err
		}
		results, err := measure(ctx, subjects, m, o)
		if err != nil {
			return err
		}
		if err := printResults(out, m, results, o.markdown); err != nil {
			return err
		}
		broken = append(broken, judge(m, results)...)
	}
	for _, b := range broken {
		fmt.Fprintln(out, "bound broken:", b)
	}
	if len(broken) > 0 && o.check {
		return errBound
	}
	return nil
}

func printResults(out io.Writer, m mode, results []result, markdown bool) error {
	t := table.Table{
		Title: m.name,
		Head:  []string{"framework", "limiter", "ns added, low", "median", "× slidegate, low", "allocations added", "bytes added"},
	}
	ours := map[string]float64{}
	for _, r := range results {
		if r.limiter == slidegate {
			ours[r.framework] = r.low
		}
	}
	for _, r := range results {
		if r.limiter == "" {
			t.Add(r.framework, "none (its own cost)", fmt.Sprintf("%.0f", r.low), fmt.Sprintf("%.0f", r.median), "", fmt.Sprintf("%.1f", r.allocs), fmt.Sprintf("%.0f", r.bytes))
			continue
		}
		t.Add(r.framework, r.limiter, fmt.Sprintf("%.0f", r.low), fmt.Sprintf("%.0f", r.median), fmt.Sprintf("%.2f", r.low/ours[r.framework]),
			fmt.Sprintf("%.1f", r.allocs), fmt.Sprintf("%.0f", r.bytes))
	}
	return t.Print(out, markdown)
}

// judge returns the bounds that were broken: allocations, which no noise changes.
func judge(m mode, results []result) (broken []string) {
	for _, r := range results {
		if r.limiter == slidegate && r.allocs > m.allocs[r.framework]+0.5 {
			broken = append(broken, fmt.Sprintf("%s, %s: %.1f allocations, at most %.0f", m.name, r.framework, r.allocs, m.allocs[r.framework]))
		}
	}
	return broken
}
