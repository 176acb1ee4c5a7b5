// Command quickstart serves two limited routes and prints how to try them.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -redis 127.0.0.1:6379    counts in Redis, together with other instances
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
	"github.com/slidegate/slidegate/nethttp"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to serve on")
	shared := flag.String("redis", "", "count in Redis at `host:port`, or at a URL such as redis-cluster://host:port,host:port (default: in memory)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, *shared, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, addr, shared string, out io.Writer) error {
	var store core.Store // nil: each limiter counts in memory of its own
	if shared != "" {
		if !strings.Contains(shared, "://") {
			shared = "redis://" + shared
		}
		inRedis, err := redisstore.Open(shared)
		if err != nil {
			return err
		}
		defer inRedis.Close()
		store = inRedis
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("%w (choose another address with -addr, such as 127.0.0.1:8081)", err)
	}
	fmt.Fprintf(out, guide, listener.Addr())
	if shared != "" {
		fmt.Fprint(out, guideToRedis)
	}

	server := &http.Server{Handler: handler(store), ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	defer context.AfterFunc(ctx, func() {
		// Requests that are running are finished.
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		stopped <- server.Shutdown(wait)
	})()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// handler is what a service would write: a mux, a tight limit on one route and
// a loose one around everything. In Redis the limits are told apart by name.
func handler(store core.Store) http.Handler {
	limit := func(name string, limit core.Limit) func(http.Handler) http.Handler {
		return nethttp.Middleware(core.Must(core.New(core.Config{
			Name: name, Limits: []core.Limit{limit}, Store: store,
		})))
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "hello")
	})
	login := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "welcome")
	})
	mux.Handle("POST /login", limit("login", core.Per(3, 10*time.Second))(login))

	return limit("everything", core.PerMinute(100))(mux)
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

const guideToRedis = `Both are counted in Redis. Start a second instance, with
-addr 127.0.0.1:8081 and the same -redis: the two share the limits.

While Redis gives no answer, a window in this instance's memory decides: stop Redis
and see. core.Config.OnFailure chooses that; core.Closed would answer 503.

`
