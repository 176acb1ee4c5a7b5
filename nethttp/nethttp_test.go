package nethttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
	"github.com/slidegate/slidegate/nethttp"
)

func limiter(t testing.TB, cfg core.Config) *core.Limiter {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "api"
	}
	l, err := core.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// lines takes what is logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// store is a store that a test writes as a function.
type store func(context.Context, *core.Call) error

func (f store) Do(ctx context.Context, c *core.Call) error { return f(ctx, c) }
func (f store) Close() error                               { return nil }

func admitAll(c *core.Call) {
	for i := range c.Parts {
		p := &c.Parts[i]
		p.At, p.FitsAt, p.OldestLeaves, p.Used, p.Done = 1, 1, 2, p.Cost, true
	}
}

func TestNonsenseArgumentsPanicAtOnce(t *testing.T) {
	for name, make := range map[string]func(){
		"no units":            func() { nethttp.LimitByIP(0, time.Minute) },
		"negative units":      func() { nethttp.LimitByIP(-1, time.Minute) },
		"too many units":      func() { nethttp.LimitByIP(core.MaxUnits+1, time.Minute) },
		"no window":           func() { nethttp.LimitByIP(1, 0) },
		"seconds as a number": func() { nethttp.LimitByIP(1, 60) },
		"too long a window":   func() { nethttp.LimitByIP(1, core.MaxWindow+time.Second) },
		"a faulty key":        func() { nethttp.LimitBy(1, time.Minute, keyfunc.ByAPIKey("")) },
		"a proxy of nowhere":  func() { nethttp.LimitBy(1, time.Minute, keyfunc.ByIP(keyfunc.XForwardedFor("proxy"))) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				err, _ := recover().(error)
				var fault *core.FieldError
				if !errors.As(err, &fault) {
					t.Errorf("panicked with %v, want a FieldError", err)
				}
			}()
			make()
		})
	}
}

func TestOneLinersCountByTheirKey(t *testing.T) {
	for name, test := range map[string]struct {
		limit func(http.Handler) http.Handler
		want  []int
	}{
		"by address":                {nethttp.LimitByIP(1, time.Minute), []int{200, 429, 200, 429}},
		"by header":                 {nethttp.LimitBy(1, time.Minute, keyfunc.ByHeader("X-User")), []int{200, 200, 429, 429}},
		"by nothing: by address":    {nethttp.LimitBy(1, time.Minute, nil), []int{200, 429, 200, 429}},
		"by something that is none": {nethttp.LimitBy(1, time.Minute, keyfunc.ByBearer()), []int{200, 429, 200, 429}},
	} {
		t.Run(name, func(t *testing.T) {
			h := test.limit(http.HandlerFunc(ok))
			for i, call := range []struct{ addr, user string }{
				{"192.0.2.1:1", "ada"}, {"192.0.2.1:2", "bob"}, {"192.0.2.2:1", "ada"}, {"192.0.2.2:2", "bob"},
			} {
				r := httptest.NewRequest("GET", "/", nil)
				r.RemoteAddr = call.addr
				r.Header.Set("X-User", call.user)
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != test.want[i] {
					t.Errorf("call %d: %d, want %d", i, w.Code, test.want[i])
				}
			}
		})
	}
}

// What the handler gets is the very ResponseWriter of the server, so nothing
// that it can do is hidden.
func TestResponseWriterIsPassedThrough(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2"} {
		t.Run(version, func(t *testing.T) {
			type outer struct{}
			same, can := false, []string(nil)
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				same = r.Context().Value(outer{}) == w
				for name, has := range map[string]bool{
					"Flush": is[http.Flusher](w), "Hijack": is[http.Hijacker](w), "ReadFrom": is[io.ReaderFrom](w),
					"WriteString": is[io.StringWriter](w), "Push": is[http.Pusher](w),
				} {
					if has {
						can = append(can, name)
					}
				}
				if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
					t.Error(err)
				}
			})
			kept := limiter(t, core.Config{Limits: []core.Limit{core.PerMinute(5)}, KeepDecision: true})
			h := nethttp.LimitByIP(5, time.Minute)(nethttp.Middleware(kept)(handler))
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), outer{}, w)))
			}))
			want := []string{"Flush", "Hijack", "ReadFrom", "WriteString"}
			if version == "HTTP/2" {
				server.EnableHTTP2 = true
				want = []string{"Flush", "Push", "WriteString"}
			}
			server.StartTLS()
			defer server.Close()
			res, err := server.Client().Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if slices.Sort(can); !same || !slices.Equal(can, want) {
				t.Errorf("the same writer: %v; it can %v, want %v", same, can, want)
			}
		})
	}
}

func is[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

// Behind a unix socket no peer has an address: all share one key, unless the
// proxy at the other end is trusted to name the clients.
func TestPeersOfAUnixSocket(t *testing.T) {
	for name, test := range map[string]struct {
		key  keyfunc.Func
		want []int
	}{
		"by default":      {nil, []int{200, 429, 429}},
		"a trusted proxy": {keyfunc.ByIP(keyfunc.XForwardedFor(), keyfunc.TrustUnixPeer()), []int{200, 200, 429}},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s")
			listener, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			var logged lines
			l := limiter(t, core.Config{Limits: []core.Limit{core.PerMinute(1)}, Key: test.key, Logger: logged.logger()})
			server := &http.Server{Handler: nethttp.Middleware(l)(http.HandlerFunc(ok))}
			go func() { _ = server.Serve(listener) }()
			defer server.Close()
			client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", socket)
			}}}
			defer client.CloseIdleConnections()
			for i, from := range []string{"198.51.100.7", "198.51.100.8", "198.51.100.7"} {
				r, err := http.NewRequestWithContext(t.Context(), "GET", "http://socket/", nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("X-Forwarded-For", from)
				res, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				if res.StatusCode != test.want[i] {
					t.Errorf("call %d: %d, want %d", i, res.StatusCode, test.want[i])
				}
			}
			if want := map[bool]int{true: 1}[test.key == nil]; strings.Count(logged.String(), "no proxy is trusted") != want {
				t.Errorf("log: %q, want %d warnings", logged.String(), want)
			}
		})
	}
}

// The text of a secret stands in no header, no body, no log line and no key of
// the store, whatever goes wrong.
func TestSecretsOfRequestsAreFoundNowhere(t *testing.T) {
	const secret = "sk_live_abc"
	for name, test := range map[string]struct {
		key   keyfunc.Func
		carry func(r *http.Request)
	}{
		"API key": {keyfunc.ByAPIKey("X-API-Key"), func(r *http.Request) { r.Header.Set("X-API-Key", secret) }},
		"two API keys": {keyfunc.ByAPIKey("X-API-Key"), func(r *http.Request) {
			r.Header["X-Api-Key"] = []string{secret, secret + "2"}
		}},
		"bearer": {keyfunc.ByBearer(), func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) }},
		"query":  {keyfunc.ByQuery("key"), func(r *http.Request) { r.URL.RawQuery = "key=" + secret }},
		"cookie": {keyfunc.ByCookie("session"), func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "session", Value: secret}) }},
	} {
		for _, failing := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, store failing %v", name, failing), func(t *testing.T) {
				var found lines
				memory, err := core.NewMemory(core.MemoryConfig{})
				if err != nil {
					t.Fatal(err)
				}
				defer memory.Close()
				l := limiter(t, core.Config{
					Limits: []core.Limit{core.PerMinute(1)}, Key: test.key, Logger: found.logger(), OnFailure: core.Closed,
					Store: store(func(ctx context.Context, c *core.Call) error {
						for _, p := range c.Parts {
							binary, err := p.Key.AppendBinary(nil)
							fmt.Fprintf(&found, "%v %+v %#v %s %v\n", p.Key, p.Key, p.Key, binary, err)
						}
						if failing {
							return errors.New("down")
						}
						return memory.Do(ctx, c)
					}),
				})
				h := nethttp.Middleware(l)(http.HandlerFunc(ok))
				for range 3 {
					r := httptest.NewRequest("GET", "/", nil)
					r.Header.Set("X-Forwarded-For", "203.0.113.1") // there may be a warning
					test.carry(r)
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					fmt.Fprintf(&found, "%d %v %s\n", w.Code, w.Result().Header, w.Body)
				}
				if all := found.String(); strings.Contains(all, secret) || len(all) < 100 {
					t.Errorf("found in\n%s", all)
				}
			})
		}
	}
}

// The limiter counts the method that an override outside of it has set; the
// header alone changes nothing.
func TestOverriddenMethodIsTheOneCounted(t *testing.T) {
	override := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if m := r.Header.Get("X-HTTP-Method-Override"); m != "" && r.Method == http.MethodPost {
				r.Method = m
			}
			next.ServeHTTP(w, r)
		})
	}
	plain := func(next http.Handler) http.Handler { return next }
	for name, test := range map[string]struct {
		outside func(http.Handler) http.Handler
		want    []int
	}{
		"outside the limiter": {override, []int{200, 200, 429, 429}},
		"nowhere":             {plain, []int{200, 429, 429, 200}},
	} {
		t.Run(name, func(t *testing.T) {
			limit := nethttp.LimitBy(1, time.Minute, keyfunc.All(keyfunc.ByMethod(), keyfunc.ByIP()))
			h := test.outside(limit(http.HandlerFunc(ok)))
			for i, call := range []struct{ method, override string }{{"POST", ""}, {"POST", "DELETE"}, {"POST", "DELETE"}, {"DELETE", ""}} {
				r := httptest.NewRequest(call.method, "/", nil)
				r.Header.Set("X-HTTP-Method-Override", call.override)
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != test.want[i] {
					t.Errorf("call %d: %d, want %d", i, w.Code, test.want[i])
				}
			}
		})
	}
}

// A script of another origin can read why it was refused, when a CORS
// middleware outside of the limiter exposes its headers beside others.
func TestScriptsOfOtherOriginsCanReadARefusal(t *testing.T) {
	cors := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Access-Control-Allow-Origin", "*")
			w.Header().Set("Access-Control-Expose-Headers", "ETag")
			w.Header().Add("Access-Control-Expose-Headers", strings.Join(core.ExposedHeaders(), ", "))
			next.ServeHTTP(w, r)
		})
	}
	server := httptest.NewServer(cors(nethttp.LimitByIP(1, time.Hour)(http.HandlerFunc(ok))))
	defer server.Close()
	for _, want := range []int{200, 429} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", "https://shop.example")
		res, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want || res.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("status %d, headers %v", res.StatusCode, res.Header)
		}
		exposed := strings.Split(strings.Join(res.Header.Values("Access-Control-Expose-Headers"), ", "), ", ")
		if exposed[0] != "ETag" {
			t.Errorf("exposed: %v", exposed)
		}
		for name := range maps.Keys(res.Header) {
			mine := strings.HasPrefix(name, "X-Ratelimit-") || name == "Retry-After"
			if mine && !slices.ContainsFunc(exposed, func(e string) bool { return http.CanonicalHeaderKey(e) == name }) {
				t.Errorf("%s is not exposed", name)
			}
		}
	}
}

// An allocation that the adapter adds would show here.
func TestAdapterAllocatesNothing(t *testing.T) {
	l := limiter(t, core.Config{Limits: []core.Limit{core.Per(1e9, time.Millisecond)}, Headers: []core.Dialect{core.NoHeaders}})
	h := nethttp.Middleware(l)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
	if n := testing.AllocsPerRun(100, func() { h.ServeHTTP(w, r) }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}
