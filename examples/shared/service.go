package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/nethttp"
)

// The limit that all instances share.
const (
	limitN = 100
	limitW = time.Second
)

// service is what an instance would be without anything of this demonstration:
// a limiter on the shared store around a mux. The page says when the request was
// counted, by the clock of Redis, so that all instances can be judged together.
func service(store core.Store) (http.Handler, error) {
	limiter, err := core.New(core.Config{
		Name:         "api",
		Limits:       []core.Limit{core.Per(limitN, limitW)},
		Store:        store,
		Budget:       5 * time.Second, // a busy machine shall give decisions here, no timeouts
		KeepDecision: true,
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		if d, ok := limiter.DecisionFrom(r.Context()); ok {
			fmt.Fprintln(w, int64(d.At()))
		}
	})
	return nethttp.Middleware(limiter)(mux), nil
}

// serve runs an instance: it prints its address, and ends with ctx or with in.
func serve(ctx context.Context, addr string, in io.Reader, out io.Writer) error {
	store, err := redisstore.Open("redis://" + addr)
	if err != nil {
		return err
	}
	defer store.Close()
	handler, err := service(store)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, listener.Addr())

	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	go func() {
		// Standard input ends when whoever started this instance does.
		_, _ = io.Copy(io.Discard, in)
		server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
