// Command shared starts two instances of a small service on one Redis, has many
// clients ask both, and shows that together they admit what one limit allows.
//
//	go run ./examples/shared                           starts a Redis of its own, or a stand-in if none is installed
//	go run ./examples/shared -redis 127.0.0.1:6379     uses yours
//
// The exit status is 1 if any window held more than the limit, or if none was full.
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
	"time"
)

var errBroken = errors.New("the promise was broken")

// serveArg makes the program an instance of the service.
const serveArg = "-serve"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if args := os.Args[1:]; len(args) == 2 && args[0] == serveArg {
		err = serve(ctx, args[1], os.Stdin, os.Stdout)
	} else {
		err = run(ctx, args, os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "shared:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("shared", flag.ContinueOnError)
	addr := flags.String("redis", "", "use the Redis at `host:port` instead of starting one")
	lasts := flags.Duration("for", 4*time.Second, "how long the clients ask")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	r, err := openRedis(*addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	fmt.Fprintf(out, "Two instances on one Redis at %s%s.\n", r.addr, r.about)

	var urls []string
	for i := range 2 {
		in, err := startInstance(ctx, r.addr)
		if ctx.Err() != nil {
			return interrupted(out)
		}
		if err != nil {
			return fmt.Errorf("instance %d: %w", i+1, err)
		}
		defer in.stop()
		fmt.Fprintf(out, "  instance %d: process %d, http://%s\n", i+1, in.pid(), in.addr)
		urls = append(urls, "http://"+in.addr)
	}
	fmt.Fprintf(out, "%d clients ask each of them for %v. The limit is %d requests in any %v.\n\n", clients, *lasts, limitN, limitW)
	return drive(ctx, out, *lasts, urls...)
}

func interrupted(out io.Writer) error {
	_, err := fmt.Fprintln(out, "Interrupted: no verdict.")
	return err
}

// drive has clients ask all instances, prints what came of it, and returns
// errBroken if the promise did not hold.
func drive(ctx context.Context, out io.Writer, lasts time.Duration, urls ...string) error {
	askCtx, stop := context.WithTimeout(ctx, lasts)
	defer stop()
	seen := askAll(askCtx, urls)
	if ctx.Err() != nil {
		return interrupted(out)
	}
	for i, s := range seen {
		fmt.Fprintf(out, "  instance %d: %5d admitted, %6d refused, %d without an answer\n", i+1, len(s.admitted), s.refused, s.failed)
	}
	most, from := fullest(seen)
	fmt.Fprintf(out, "\nFullest window of %v: %d requests, admitted by the instances as %v.\n", limitW, most, from)
	if i := slices.IndexFunc(seen, func(s sight) bool { return s.refusal != "" }); i >= 0 {
		fmt.Fprintf(out, "\nA refusal, as curl -i prints it:\n\n%s\n", seen[i].refusal)
	}
	if most != limitN {
		fmt.Fprintf(out, "BROKEN: the fullest window held %d requests, not %d.\n", most, limitN)
		return errBroken
	}
	fmt.Fprintf(out, "Kept: together the instances admitted %d requests in the fullest window, and never one more.\n", limitN)
	return nil
}
