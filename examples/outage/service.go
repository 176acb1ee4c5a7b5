package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/keyfunc"
	"github.com/slidegate/slidegate/nethttp"
)

const quota = 4

var policies = []core.Policy{core.Local, core.Open, core.Closed}

// service is what is limited, and what its operators see.
type service struct {
	store  *redisstore.Store
	ready  func(context.Context) error
	server *httptest.Server
	log    *lines
}

func newService(redis string, window time.Duration) (*service, error) {
	s := &service{log: new(lines)}
	logger := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	var err error
	if s.store, err = redisstore.Open("redis://"+redis, redisstore.Logger(logger)); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for _, p := range policies {
		lim, err := core.New(core.Config{
			Name: p.String(), Store: s.store, Limits: []core.Limit{core.Per(quota, window)}, OnFailure: p, Logger: logger,
		})
		if err != nil {
			return nil, err
		}
		s.ready = func(ctx context.Context) error { return settled(ctx, s.store, lim) }
		hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
		mux.Handle("GET /"+p.String(), nethttp.Middleware(lim)(hello))
	}
	s.server = httptest.NewServer(mux)
	return s, nil
}

func (s *service) close() {
	s.server.Close()
	_ = s.store.Close()
}

// settled waits until Redis knows the script and answers in time.
func settled(ctx context.Context, store *redisstore.Store, lim *core.Limiter) error {
	for end := time.Now().Add(back); ; {
		d, err := lim.Peek(ctx, keyfunc.Name("nobody"))
		if err == nil && d.Failure() == core.NoFailure && store.Status().Healthy {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("redis does not answer in time: %v, %v", d.Failure(), err)
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// answer is what a client sees.
type answer struct {
	status    int
	remaining string
	retry     string
	took      time.Duration
}

func (a answer) String() string {
	switch {
	case a.status == http.StatusOK && a.remaining == "":
		return "200, no headers"
	case a.status == http.StatusOK:
		return "200, " + a.remaining + " left"
	case a.status == http.StatusTooManyRequests:
		return "429, wait " + a.retry + " s"
	default:
		return fmt.Sprint(a.status)
	}
}

func (s *service) get(p core.Policy) (answer, error) {
	began := time.Now()
	res, err := http.Get(s.server.URL + "/" + p.String())
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	return answer{res.StatusCode, res.Header.Get("X-RateLimit-Remaining"), res.Header.Get("Retry-After"), time.Since(began)}, nil
}

// lines keeps log lines until they are shown.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, strings.TrimSpace(string(b)))
	return len(b), nil
}

func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
