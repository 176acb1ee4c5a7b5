package nethttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
	"github.com/slidegate/slidegate/nethttp"
)

// routes is a limiter that counts by route, and remembers the keys.
type routes struct {
	*core.Limiter
	mu   sync.Mutex
	seen []keyfunc.Key
}

func byRoute(t testing.TB, n int64) *routes {
	t.Helper()
	r := &routes{}
	key := keyfunc.ByRoute()
	l, err := core.New(core.Config{
		Limits: []core.Limit{core.PerHour(n)},
		Key: func(q keyfunc.Request) (keyfunc.Key, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			k, err := key(q)
			r.seen = append(r.seen, k)
			return k, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r.Limiter, r.seen = l, nil // New has called the function once
	return r
}

// last returns the key that the latest request was counted by.
func (r *routes) last() (k keyfunc.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) > 0 {
		k = r.seen[len(r.seen)-1]
	}
	return k
}

func send(h http.Handler, method, target string) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w.Code
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

func TestRoutesAreCountedByTheirPattern(t *testing.T) {
	r := byRoute(t, 1000)
	limit := nethttp.Middleware(r.Limiter)

	api := http.NewServeMux() // keeps its prefix
	api.HandleFunc("GET /v2/users/{id}", ok)
	deep := http.NewServeMux()
	deep.HandleFunc("/v2/deep/{id}", ok)
	api.Handle("/v2/deep/", deep)
	stripped := http.NewServeMux()
	stripped.HandleFunc("GET /users/{id}", ok)
	root := http.NewServeMux()
	root.HandleFunc("GET /users/{id}", ok)
	root.HandleFunc("POST /users", ok)
	root.HandleFunc("PUT\t/tabbed", ok)
	root.HandleFunc("/any", ok)
	root.HandleFunc("/tree/", ok)
	root.HandleFunc("GET /files/{path...}", ok)
	root.HandleFunc("admin.example/panel/{tab}", ok)
	root.Handle("/v2/", api)
	root.Handle("/v1/", http.StripPrefix("/v1", stripped))

	around := limit(root)
	for _, test := range []struct {
		method, target string
		want           string
		status         int
	}{
		{"GET", "/users/1", "/users/{id}", 200},
		{"HEAD", "/users/2", "/users/{id}", 200},
		{"GET", "/users/a%2Fb", "/users/{id}", 200},
		{"GET", "/users/a?x=1", "/users/{id}", 200},
		{"POST", "/users", "/users", 200},
		{"PUT", "/tabbed", "/tabbed", 200},
		{"DELETE", "/any", "/any", 200},
		{"GET", "/tree/", "/tree/", 200},
		{"GET", "/tree/a/b/c", "/tree/", 200},
		{"GET", "/files/a/b/c", "/files/{path...}", 200},
		{"GET", "http://admin.example/panel/one", "admin.example/panel/{tab}", 200},
		{"GET", "/panel/one", "unmatched", 404},
		// A mux in the mux is asked in turn; behind StripPrefix it cannot be seen.
		{"GET", "/v2/users/7", "/v2/users/{id}", 200},
		{"GET", "/v2/deep/7", "/v2/deep/{id}", 200},
		{"GET", "/v2/nothing", "unmatched", 404},
		{"GET", "/v1/users/7", "/v1/", 200},
		{"GET", "/v1/nothing", "/v1/", 404},
		// A redirect is counted as the route that it leads to.
		{"GET", "/tree", "/tree/", 307},
		{"GET", "//users/1", "/users/{id}", 307},
		{"GET", "/x/../users/1", "/users/{id}", 307},
		// What matches nothing is one route, whatever its path.
		{"GET", "/", "unmatched", 404},
		{"GET", "/USERS/1", "unmatched", 404},
		{"GET", "/users/1/", "unmatched", 404},
		{"GET", "/nothing/at/all", "unmatched", 404},
		{"DELETE", "/users/1", "unmatched", 405},
	} {
		if status := send(around, test.method, test.target); status != test.status {
			t.Errorf("%s %s: status %d, want %d", test.method, test.target, status, test.status)
		}
		if got := r.last(); got != keyfunc.Route(test.want) {
			t.Errorf("%s %s: counted by %v, want %q", test.method, test.target, got, test.want)
		}
	}
}

func TestRoutesOfLimitersInsideTheMux(t *testing.T) {
	one, group, plain := byRoute(t, 1000), byRoute(t, 1000), byRoute(t, 1000)
	inner := http.NewServeMux()
	inner.HandleFunc("GET /users/{id}", ok)
	inner.HandleFunc("PUT\t/tabbed", ok)
	inner.HandleFunc("PUT \t /spaced", ok)
	whole := http.NewServeMux()
	whole.HandleFunc("GET /whole/users/{id}", ok)
	hosted := http.NewServeMux()
	hosted.HandleFunc("/tab/{id}", ok)

	root := http.NewServeMux()
	root.Handle("GET /items/{id}", nethttp.Middleware(one.Limiter)(http.HandlerFunc(ok)))
	root.Handle("/api/", http.StripPrefix("/api", nethttp.Middleware(group.Limiter)(inner)))
	root.Handle("GET /t/{tenant}/", http.StripPrefix("/t/acme", nethttp.Middleware(group.Limiter)(inner)))
	root.Handle("/whole/", nethttp.Middleware(group.Limiter)(whole))
	root.Handle("admin.example/", nethttp.Middleware(group.Limiter)(hosted))
	root.Handle("/exact", nethttp.Middleware(plain.Limiter)(http.StripPrefix("/exact", http.HandlerFunc(ok))))

	for _, test := range []struct {
		of             *routes
		method, target string
		want           string
		status         int
	}{
		{one, "GET", "/items/7", "/items/{id}", 200},
		{one, "HEAD", "/items/8", "/items/{id}", 200},
		{group, "GET", "/api/users/7", "/api/users/{id}", 200},
		{group, "PUT", "/api/tabbed", "/api/tabbed", 200},
		{group, "PUT", "/api/spaced", "/api/spaced", 200},
		{group, "GET", "/t/acme/users/7", "/t/{tenant}/users/{id}", 200},
		{group, "GET", "/whole/users/7", "/whole/users/{id}", 200},
		{group, "GET", "http://admin.example/tab/7", "admin.example/tab/{id}", 200},
		{group, "GET", "/api/nothing", "unmatched", 404},
		{group, "POST", "/api/users/7", "unmatched", 405},
		{plain, "GET", "/exact", "/exact", 200},
	} {
		if status := send(root, test.method, test.target); status != test.status {
			t.Errorf("%s %s: status %d, want %d", test.method, test.target, status, test.status)
		}
		if got := test.of.last(); got != keyfunc.Route(test.want) {
			t.Errorf("%s %s: counted by %v, want %q", test.method, test.target, got, test.want)
		}
	}
}

// A limiter around a handler that no mux has matched has no pattern to go by.
func TestHandlerWithoutAMuxIsUnmatched(t *testing.T) {
	r := byRoute(t, 1)
	h := nethttp.Middleware(r.Limiter)(http.HandlerFunc(ok))
	if first, second := send(h, "GET", "/a"), send(h, "GET", "/b"); first != 200 || second != 429 || r.last() != keyfunc.Route(keyfunc.Unmatched) {
		t.Errorf("statuses %d, %d, counted by %v", first, second, r.last())
	}
}

func TestSpellingsOfAPathNeitherDodgeTheLimitNorMakeNewKeys(t *testing.T) {
	for name, key := range map[string]keyfunc.Func{"by route": keyfunc.ByRoute(), "by route and address": keyfunc.All(keyfunc.ByRoute(), keyfunc.ByIP())} {
		t.Run(name, func(t *testing.T) {
			store, err := core.NewMemory(core.MemoryConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			mux := http.NewServeMux()
			served := 0
			mux.HandleFunc("/users/{id}", func(http.ResponseWriter, *http.Request) { served++ })
			h := nethttp.Middleware(core.Must(core.New(core.Config{
				Name: "api", Limits: []core.Limit{core.PerHour(3)}, Key: key, Store: store,
			})))(mux)
			for i := range 50 {
				for _, path := range []string{"/users/%d", "/users/%d?q=1", "//users/%d", "/./users/%d", "/users/%%2F%d", "/u%%73ers/%d", "/users/x%%20%d"} {
					send(h, "GET", fmt.Sprintf(path, i))
				}
			}
			if served > 3 || store.Len() != 1 {
				t.Errorf("%d served of a limit of 3, %d keys", served, store.Len())
			}
			// What the mux does not match shares a key of its own.
			missed := 0
			for i := range 50 {
				for _, path := range []string{"/Users/%d", "/USERS/%d", "/users/%d/", "/users/%d//x", "/none/%d"} {
					if send(h, "GET", fmt.Sprintf(path, i)) == http.StatusNotFound {
						missed++
					}
				}
			}
			if missed > 3 || store.Len() != 2 {
				t.Errorf("%d reached the 404 handler, %d keys", missed, store.Len())
			}
		})
	}
}

func TestFloodOfUnknownPathsIsLimitedAndIsOneKey(t *testing.T) {
	store, err := core.NewMemory(core.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users", ok)
	h := nethttp.Middleware(core.Must(core.New(core.Config{
		Name: "api", Limits: []core.Limit{core.PerHour(3)}, Store: store, Key: keyfunc.All(keyfunc.ByIP(), keyfunc.ByRoute()),
	})))(mux)
	got := map[int]int{}
	for i := range 500 {
		got[send(h, "GET", fmt.Sprintf("/scan/%x.php", i))]++
		got[send(h, "POST", "/users")]++
	}
	if got[404]+got[405] != 3 || got[429] != 997 || store.Len() != 1 {
		t.Errorf("statuses %v, %d keys; want 3 that pass and one key", got, store.Len())
	}
	if status := send(h, "GET", "/users"); status != 200 {
		t.Errorf("a route that exists: status %d", status)
	}
}

func TestEnumeratedIdsShareTheLimitOfTheirRoute(t *testing.T) {
	r := byRoute(t, 3)
	mux := http.NewServeMux()
	mux.Handle("GET /users/{id}", nethttp.Middleware(r.Limiter)(http.HandlerFunc(ok)))
	passed := 0
	for id := range 10 {
		if send(mux, "GET", fmt.Sprintf("/users/%d", id)) == 200 {
			passed++
		}
	}
	if passed != 3 {
		t.Errorf("%d of 10 ids passed a limit of 3", passed)
	}
}

func TestRoutesThatShareALimiterShareItsLimit(t *testing.T) {
	group := nethttp.LimitByIP(3, time.Hour)
	mux := http.NewServeMux()
	mux.Handle("/a", group(http.HandlerFunc(ok)))
	mux.Handle("/b", group(http.HandlerFunc(ok)))
	for i, call := range []struct {
		path string
		want int
	}{{"/a", 200}, {"/a", 200}, {"/b", 200}, {"/b", 429}, {"/a", 429}} {
		if got := send(mux, "GET", call.path); got != call.want {
			t.Errorf("call %d, %s: %d, want %d", i, call.path, got, call.want)
		}
	}
}
