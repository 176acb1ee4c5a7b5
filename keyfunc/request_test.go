package keyfunc_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/slidegate/slidegate/keyfunc"
)

func TestZeroRequestIsAnEmptyGet(t *testing.T) {
	for _, q := range []keyfunc.Request{{}, keyfunc.NewRequest(nil, nil, nil)} {
		r := q.HTTP()
		if r == nil || r.Method != http.MethodGet || r.URL == nil || r.URL.String() != "/" || r.Header == nil || len(r.Header) != 0 || r.Body == nil || r.Context() != context.Background() {
			t.Fatalf("the zero Request holds %+v", r)
		}
		r.Header.Set("X-User", "a") // what one Func does to it, the next must not see
		if again := q.HTTP(); again == r || again.Header.Get("X-User") != "" {
			t.Error("the empty request is shared")
		}
		if q.Route() != "" || q.Native() != nil {
			t.Errorf("route %q, native %v", q.Route(), q.Native())
		}
	}
}

func TestRequestGivesWhatTheAdapterPutIn(t *testing.T) {
	r := request("203.0.113.9:1").HTTP()
	calls := 0
	q := keyfunc.NewRequest(r, func(q keyfunc.Request) string {
		calls++
		return "/" + q.Native().(string) + "/" + q.HTTP().Method
	}, "native")
	if calls != 0 {
		t.Error("the route is looked up before anybody asks")
	}
	if q.HTTP() != r || q.Native() != "native" || q.Route() != "/native/GET" || calls != 1 {
		t.Errorf("request %p, native %v, route %q, %d calls", q.HTTP(), q.Native(), q.Route(), calls)
	}
}

func TestRouteFinderThatAsksForTheRouteDoesNotLoop(t *testing.T) {
	r := request("203.0.113.9:1").HTTP()
	r.Pattern = "GET /p"
	q := keyfunc.NewRequest(r, func(q keyfunc.Request) string { return q.Route() + "!" }, nil)
	if got := q.Route(); got != "GET /p!" {
		t.Errorf("route %q", got)
	}
}

func TestRouteOfServeMuxIsKnownWithoutAnAdapter(t *testing.T) {
	var got keyfunc.Key
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(_ http.ResponseWriter, r *http.Request) {
		got = read(t, keyfunc.ByRoute(), keyfunc.NewRequest(r, nil, nil))
	})
	r := request("203.0.113.9:1").HTTP()
	r.URL.Path = "/users/7"
	mux.ServeHTTP(nil, r)
	if got != keyfunc.Route("/users/{id}") {
		t.Errorf("key %v", got)
	}
}
