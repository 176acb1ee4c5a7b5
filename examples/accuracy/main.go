// Accuracy feeds slidegate with the meanest traffic there is and judges it by a
// plain list of what was admitted when.
//
//	go run ./examples/accuracy                  tables and a verdict; exit status 1 if a promise is broken
//	go run ./examples/accuracy -markdown        the same tables in Markdown
//	go run ./examples/accuracy -memory          bytes per key
//	go run ./examples/accuracy -time            time per decision
//	go run ./examples/accuracy -picture x.svg   the picture of a fixed window's burst at the edge
//
// Time is virtual, and the same -seed gives the same figures.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// errBroken says that a promise was broken.
var errBroken = errors.New("a promise was broken")

func main() {
	switch err := run(os.Args[1:], os.Stdout); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "accuracy:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("accuracy", flag.ContinueOnError)
	seed := flags.Uint64("seed", 1, "seed of the random traces")
	markdown := flags.Bool("markdown", false, "print tables in Markdown")
	picture := flags.String("picture", "", "draw the burst at the edge to this SVG `file`, and do nothing else")
	memory := flags.Bool("memory", false, "measure bytes per key, and do nothing else")
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
