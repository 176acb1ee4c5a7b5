package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/keyfunc"
	"github.com/slidegate/slidegate/nethttp"
)

const (
	quota = 5
	// userHeader says who asks.
	userHeader = "X-User"
	// deciderHeader says of an admitted request who decided it.
	deciderHeader = "Decided-By"
)

var policies = []core.Policy{core.Local, core.Open, core.Closed}

// service is what is limited: a route for each policy, on one store.
type service struct {
	store  *redisstore.Store
	server *http.Server
	url    string
	served chan struct{} // closed when the server has ended
}

func newService(redisAddr string, window time.Duration, logger *slog.Logger) (*service, error) {
	store, err := redisstore.Open("redis://"+redisAddr, redisstore.Logger(logger))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for _, p := range policies {
		limiter, err := core.New(core.Config{
			Name:         p.String(),
			Limits:       []core.Limit{core.Per(quota, window)},
			Key:          keyfunc.ByHeader(userHeader),
			Store:        store,
			OnFailure:    p,
			Logger:       logger,
			KeepDecision: true,
		})
		if err != nil {
			return nil, errors.Join(err, store.Close())
		}
		mux.Handle("GET /"+p.String(), nethttp.Middleware(limiter)(hello(limiter)))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	s := &service{
		store: store, url: "http://" + listener.Addr().String(), served: make(chan struct{}),
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second},
	}
	go func() {
		defer close(s.served)
		_ = s.server.Serve(listener) // ends with close
	}()
	return s, nil
}

func (s *service) close() error {
	err := s.server.Close()
	<-s.served
	return errors.Join(err, s.store.Close())
}

// hello is the page that is limited. It tells who decided, which a service would
// rather count or log.
func hello(limiter *core.Limiter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := limiter.DecisionFrom(r.Context())
		w.Header().Set(deciderHeader, decider(&d))
		fmt.Fprintln(w, "hello")
	})
}

// Who decides.
const (
	byRedis  = "redis"
	byMemory = "memory"
	byNobody = "nobody"
)

func decider(d *core.Decision) string {
	switch {
	case d.Failure() == core.NoFailure:
		return byRedis
	case d.Reason == core.Undecided:
		return byNobody
	default:
		return byMemory
	}
}

// get asks the route of p as a user.
func (s *service) get(ctx context.Context, p core.Policy, user string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/"+p.String(), nil)
	if err != nil {
		return answer{}, err
	}
	request.Header.Set(userHeader, user)
	began := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return answer{}, err
	}
	return answer{response.StatusCode, response.Header, time.Since(began)}, nil
}
