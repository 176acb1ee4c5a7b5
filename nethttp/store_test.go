package nethttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
	"github.com/slidegate/slidegate/nethttp"
)

func TestOwnErrorHandlerAnswersOnceAndTheHandlerDoesNotRun(t *testing.T) {
	var logged lines
	l := limiter(t, core.Config{
		Limits: []core.Limit{core.PerMinute(1)}, Logger: logged.logger(),
		Store: store(func(context.Context, *core.Call) error { return errors.New("down") }),
		OnError: func(w http.ResponseWriter, _ *http.Request, err error) {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "sorry ", errors.Is(err, core.ErrNoDecision))
		},
	})
	server := httptest.NewUnstartedServer(nethttp.Middleware(l)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the handler ran")
	})))
	var complaints lines
	server.Config.ErrorLog = log.New(&complaints, "", 0)
	server.Start()
	defer server.Close()
	res, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "sorry true" || res.StatusCode != 503 || complaints.String() != "" {
		t.Errorf("status %d with %q (%v), server's log %q", res.StatusCode, body, err, complaints.String())
	}
}

// A client that leaves while the store is asked is no failure of the store, and
// the store learns that it is gone.
func TestClientThatLeavesIsNoOutage(t *testing.T) {
	var logged lines
	asked, left, answered := make(chan struct{}), make(chan error, 1), make(chan error, 1)
	l := limiter(t, core.Config{
		Limits: []core.Limit{core.PerMinute(1)}, OnFailure: core.Open, Logger: logged.logger(),
		Store: store(func(ctx context.Context, _ *core.Call) error {
			close(asked)
			<-ctx.Done()
			left <- ctx.Err()
			return ctx.Err()
		}),
		OnError: func(_ http.ResponseWriter, _ *http.Request, err error) { answered <- err },
	})
	server := httptest.NewServer(nethttp.Middleware(l)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the handler ran")
	})))
	defer server.Close()
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-asked
		leave()
	}()
	if res, err := server.Client().Do(r); err == nil {
		_ = res.Body.Close()
		t.Errorf("status %d for a client that left", res.StatusCode)
	}
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the store saw %v", err)
	}
	if err := <-answered; !errors.Is(err, context.Canceled) || errors.Is(err, core.ErrNoDecision) {
		t.Errorf("error %v", err)
	}
	if logged.String() != "" {
		t.Errorf("logged: %s", logged.String())
	}
}

// Requests wait for the store side by side: no lock is held meanwhile.
func TestRequestsWaitForASlowStoreTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 100 * time.Millisecond
		l := limiter(t, core.Config{
			Limits: []core.Limit{core.PerMinute(1)}, Key: keyfunc.ByHeader("X-User"), Budget: time.Second,
			Store: store(func(_ context.Context, c *core.Call) error {
				time.Sleep(slow)
				admitAll(c)
				return nil
			}),
		})
		h := nethttp.Middleware(l)(http.HandlerFunc(ok))
		start := time.Now()
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				r := httptest.NewRequest("GET", "/", nil)
				r.Header.Set("X-User", fmt.Sprint(i))
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != 200 {
					t.Errorf("status %d", w.Code)
				}
			})
		}
		all.Wait()
		if took := time.Since(start); took != slow {
			t.Errorf("50 requests took %v, want %v", took, slow)
		}
	})
}
