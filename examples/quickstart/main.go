// Command quickstart serves two limited routes and prints how to try them.
//
//	go run ./examples/quickstart
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
	"syscall"
	"time"

	"github.com/slidegate/slidegate/nethttp"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to serve on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, addr string, out io.Writer) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("%w (choose another address with -addr, such as 127.0.0.1:8081)", err)
	}
	fmt.Fprintf(out, guide, listener.Addr())

	server := &http.Server{Handler: handler(), ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler is what a service would write: a mux, a tight limit on one route and
// a loose one around everything.
func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "hello")
	})
	login := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "welcome")
	})
	mux.Handle("POST /login", nethttp.LimitByIP(3, 10*time.Second)(login))

	return nethttp.LimitByIP(100, time.Minute)(mux)
}

const guide = `slidegate quickstart, serving on http://%[1]s (Ctrl-C ends it)

Two limits, counted by client address: 100 requests in any minute on
everything, and 3 in any 10 seconds on POST /login. Try:

  curl -si http://%[1]s/

     HTTP/1.1 200 OK
     X-Ratelimit-Limit: 100       the limit closest to exhaustion,
     X-Ratelimit-Remaining: 99    what is left of it, and
     X-Ratelimit-Reset: ...       when the oldest request stops counting (Unix time)

  curl -si -X POST 'http://%[1]s/login?[1-5]' | grep -Ei '^(HTTP|x-ratelimit|retry)'

     three times   HTTP/1.1 200 OK, with X-Ratelimit-Remaining: 2, 1, 0
     and twice     HTTP/1.1 429 Too Many Requests
                   Retry-After: 10     wait as long as it says, and you are in again

`
