// Command echo is a service on echo with limits where a service has them: a tight
// one on the login, one per API key on the API, and a loose one on everything.
//
//	go run ./examples/echo
//	go run ./examples/echo -redis 127.0.0.1:6379    share the limits with other instances
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

// command serves until ctx ends.
func command(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:8080", "`address` to serve on")
	shared := flags.String("redis", "", "share the limits in Redis at `host:port`, or at a URL (default: in memory)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	store, err := openStore(*shared)
	if err != nil {
		return err
	}
	defer store.Close()
	handler, err := newService(store)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return fmt.Errorf("%w (choose another address with -addr, such as 127.0.0.1:8081)", err)
	}
	fmt.Fprintf(out, guide, listener.Addr())
	return serve(ctx, listener, handler)
}

// grace is how long requests that are running may take when the service stops.
const grace = 10 * time.Second

// serve answers requests until ctx ends, and then finishes those that are running.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	defer context.AfterFunc(ctx, func() {
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		stopped <- server.Shutdown(wait)
	})()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// openStore returns a store in memory, or in the Redis at addr.
func openStore(addr string) (core.Store, error) {
	switch {
	case addr == "":
		return core.NewMemory(core.MemoryConfig{})
	case !strings.Contains(addr, "://"):
		addr = "redis://" + addr
	}
	return redisstore.Open(addr)
}

const guide = `echo with slidegate, serving on http://%[1]s (Ctrl-C ends it). Try:

  curl -si -X POST 'http://%[1]s/login?[1-6]' | grep -Ei '^(HTTP|retry|\{)'

     five times 200, and then 429 with the wait: five logins in any minute

  curl -si -H 'X-API-Key: mine' http://%[1]s/api/items/7

     10 requests in any second and 1000 in any hour for each key

`
