// Accuracy feeds slidegate with the meanest traffic there is and judges it by a
// plain list of what was admitted when.
//
//	go run ./examples/accuracy                  tables and a verdict; exit status 1 if a promise is broken
//	go run ./examples/accuracy -markdown        the same tables in Markdown
//	go run ./examples/accuracy -store redis     many processes on one Redis, which is started for it
//	go run ./examples/accuracy -store cluster   the same on a cluster
//	go run ./examples/accuracy -memory          bytes per key
//	go run ./examples/accuracy -time            time per decision
//	go run ./examples/accuracy -picture x.svg   the picture of a fixed window's burst at the edge
//
// In memory time is virtual, and the same -seed gives the same figures.
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
	"syscall"
)

// errBroken says that a promise was broken.
var errBroken = errors.New("a promise was broken")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "accuracy:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if slices.Equal(args, []string{workerArg}) {
		return work(ctx, os.Stdin, out, servers.open)
	}
	flags := flag.NewFlagSet("accuracy", flag.ContinueOnError)
	seed := flags.Uint64("seed", 1, "seed of the random traces")
	markdown := flags.Bool("markdown", false, "print tables in Markdown")
	picture := flags.String("picture", "", "draw the burst at the edge to this SVG `file`, and do nothing else")
	memory := flags.Bool("memory", false, "measure bytes per key, and do nothing else")
	store := flags.String("store", "memory", "`where` the counts lie: memory, redis or cluster")
	addrs := flags.String("redis", "", "with -store redis or cluster, use the servers at `host:port,...` instead of starting some")
	timing := flags.Bool("time", false, "measure the time per decision, and do nothing else")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	c := defaultSetting(*seed)
	switch {
	case *picture != "":
		return drawTo(*picture)
	case *memory:
		return printMemory(out, *markdown)
	case *timing:
		return printTime(out, *markdown)
	case *store != "memory" || *addrs != "":
		return runOnServers(ctx, out, *store, *addrs, *seed, *markdown)
	}
	return judgeAll(out, c, gates(c, openMemory), *markdown)
}

// judgeAll measures the limits and the models, prints all and gives the verdict.
func judgeAll(out io.Writer, c setting, limits []row, markdown bool) error {
	models := contrasts(c)
	if err := errors.Join(measure(c, limits), measure(c, models)); err != nil {
		return err
	}
	broken := report(out, c, limits, models, markdown)
	for _, line := range broken {
		fmt.Fprintln(out, "BROKEN:", line)
	}
	if len(broken) > 0 {
		fmt.Fprintf(out, "Verdict: %d promises broken.\n", len(broken))
		return errBroken
	}
	fmt.Fprintln(out, "Verdict: every promise kept. No window held more than N units; exact answered every offer as the ideal log.")
	return nil
}
