package slidegate_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"
	"github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"

	"github.com/slidegate/slidegate/chimw"
	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/echomw"
	echomwv5 "github.com/slidegate/slidegate/echomw/v5"
	"github.com/slidegate/slidegate/ginmw"
	"github.com/slidegate/slidegate/keyfunc"
	"github.com/slidegate/slidegate/nethttp"
)

// framework builds the service of these tests with limiters mounted on it. Each
// framework passes the same table of requests.
type framework struct {
	name  string
	build func(s *service, m mounts) http.Handler

	// writesErrors says that refusals are errors to the framework, which writes them
	// in its own form: {"message":"…"}.
	writesErrors bool
}

var frameworks = []framework{
	{"net/http", buildNetHTTP, false},
	{"chi", buildChi, false},
	{"gin", buildGin, false},
	{"echo v4", buildEcho, true},
	{"echo v5", buildEchoV5, true},
}

// mounts says where limiters are mounted, the outermost first: around all, around
// the endpoints below /group/, around GET /limited.
type mounts struct{ root, group, route []*core.Limiter }

func buildNetHTTP(s *service, m mounts) http.Handler {
	wrap := func(h http.Handler, limiters []*core.Limiter) http.Handler {
		for _, l := range slices.Backward(limiters) {
			h = nethttp.Middleware(l)(h)
		}
		return h
	}
	root, group := http.NewServeMux(), http.NewServeMux()
	for _, e := range s.endpoints() {
		mux, pattern := root, e.path
		if strings.HasPrefix(pattern, "/group/") {
			mux = group
		}
		if strings.HasSuffix(pattern, "/") {
			pattern += "{$}"
		}
		h := http.Handler(e.handler)
		if e.path == "/limited" {
			h = wrap(h, m.route)
		}
		mux.Handle(e.method+" "+pattern, h)
	}
	root.Handle("/group/", wrap(group, m.group))
	return wrap(root, m.root)
}

func buildChi(s *service, m mounts) http.Handler {
	r := chi.NewRouter()
	use := func(r chi.Router, limiters []*core.Limiter) {
		for _, l := range limiters {
			r.Use(chimw.Middleware(l))
		}
	}
	use(r, m.root)
	r.Route("/group", func(group chi.Router) {
		use(group, m.group)
		for _, e := range s.endpoints() {
			if path, ok := strings.CutPrefix(e.path, "/group"); ok {
				group.Method(e.method, path, e.handler)
			}
		}
	})
	for _, e := range s.endpoints() {
		if strings.HasPrefix(e.path, "/group/") {
			continue
		}
		on := chi.Router(r)
		if e.path == "/limited" {
			for _, l := range m.route {
				on = on.With(chimw.Middleware(l))
			}
		}
		on.Method(e.method, e.path, e.handler)
	}
	return r
}

// colons writes the parameters of a path as gin and echo do.
func colons(path string) string { return strings.NewReplacer("{", ":", "}", "").Replace(path) }

func buildGin(s *service, m mounts) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.HandleMethodNotAllowed = true
	chain := func(limiters []*core.Limiter) (all []gin.HandlerFunc) {
		for _, l := range limiters {
			all = append(all, ginmw.Middleware(l))
		}
		return all
	}
	e.Use(chain(m.root)...)
	group := e.Group("/group", chain(m.group)...)
	for _, p := range s.endpoints() {
		handler := gin.WrapF(p.handler)
		switch path, ok := strings.CutPrefix(p.path, "/group"); {
		case ok:
			group.Handle(p.method, colons(path), handler)
		case p.path == "/limited":
			e.Handle(p.method, p.path, append(chain(m.route), handler)...)
		default:
			e.Handle(p.method, colons(p.path), handler)
		}
	}
	return e
}

func buildEcho(s *service, m mounts) http.Handler {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	chain := func(limiters []*core.Limiter) (all []echo.MiddlewareFunc) {
		for _, l := range limiters {
			all = append(all, echomw.Middleware(l))
		}
		return all
	}
	e.Use(chain(m.root)...)
	group := e.Group("/group", chain(m.group)...)
	for _, p := range s.endpoints() {
		handler := echo.WrapHandler(p.handler)
		switch path, ok := strings.CutPrefix(p.path, "/group"); {
		case ok:
			group.Add(p.method, colons(path), handler)
		case p.path == "/limited":
			e.Add(p.method, p.path, handler, chain(m.route)...)
		default:
			e.Add(p.method, colons(p.path), handler)
		}
	}
	return e
}

func buildEchoV5(s *service, m mounts) http.Handler {
	e := echov5.New()
	e.Logger = slog.New(slog.DiscardHandler)
	chain := func(limiters []*core.Limiter) (all []echov5.MiddlewareFunc) {
		for _, l := range limiters {
			all = append(all, echomwv5.Middleware(l))
		}
		return all
	}
	e.Use(chain(m.root)...)
	group := e.Group("/group", chain(m.group)...)
	for _, p := range s.endpoints() {
		handler := echov5.WrapHandler(p.handler)
		switch path, ok := strings.CutPrefix(p.path, "/group"); {
		case ok:
			group.Add(p.method, colons(path), handler)
		case p.path == "/limited":
			e.Add(p.method, p.path, handler, chain(m.route)...)
		default:
			e.Add(p.method, colons(p.path), handler)
		}
	}
	return e
}

// service is what every framework serves.
type service struct {
	release chan struct{} // lets /stream go on
	runs    atomic.Int64  // of handlers
}

type endpoint struct {
	method, path string // with {id} for a parameter
	handler      http.HandlerFunc
}

func (s *service) endpoints() []endpoint {
	says := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	lastPart := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, path.Base(r.URL.Path)) }
	all := []endpoint{
		{"GET", "/", says(200, "home")},
		{"HEAD", "/", says(200, "")},
		{"GET", "/users/{id}", lastPart},
		{"POST", "/items", says(201, "created")},
		{"OPTIONS", "/items", says(204, "")},
		{"GET", "/limited", says(200, "limited")},
		{"GET", "/group/items/{id}", lastPart},
		{"GET", "/old", http.RedirectHandler("/", http.StatusFound).ServeHTTP},
		{"GET", "/decision", showDecision},
		{"GET", "/panic", func(http.ResponseWriter, *http.Request) { panic("boom") }},
		{"GET", "/abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"GET", "/stream/{how}", s.stream},
		{"GET", "/upgrade/{how}", upgrade},
	}
	for i, e := range all {
		all[i].handler = func(w http.ResponseWriter, r *http.Request) {
			s.runs.Add(1)
			e.handler(w, r)
		}
	}
	return all
}

func showDecision(w http.ResponseWriter, r *http.Request) {
	d, ok := core.DecisionFrom(r.Context())
	fmt.Fprintf(w, "%v %v %d", ok, d.Reason, d.Shown().Remaining())
}

// stream sends an event, flushes it, and sends the next when it is let.
func (s *service) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "data: one\n")
	if strings.HasSuffix(r.URL.Path, "/flusher") {
		w.(http.Flusher).Flush()
	} else if err := http.NewResponseController(w).Flush(); err != nil {
		panic(err)
	}
	select {
	case <-s.release:
		_, _ = io.WriteString(w, "data: two\n")
	case <-r.Context().Done():
	}
}

// upgrade takes the connection over, as a WebSocket handler does, and echoes a
// line.
func upgrade(w http.ResponseWriter, r *http.Request) {
	hijack := http.NewResponseController(w).Hijack
	if strings.HasSuffix(r.URL.Path, "/hijacker") {
		hijack = w.(http.Hijacker).Hijack
	}
	conn, buf, err := hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, _ = buf.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	_ = buf.Flush()
	line, _ := buf.ReadString('\n')
	_, _ = buf.WriteString("echo " + line)
	_ = buf.Flush()
}

// bench is one framework on a real server, with a clock that only moves by hand.
type bench struct {
	*testing.T
	*service
	framework framework
	http2     bool
	clock     atomic.Int64 // microseconds
	store     *core.Memory
	answers   bool                            // the limiters have handlers of their own for refusals
	outer     func(http.Handler) http.Handler // around the framework, if not nil
	listener  net.Listener                    // in place of a TCP port, if not nil
	url       string
	client    *http.Client

	mu     sync.Mutex
	log    bytes.Buffer // of limiters and server
	panics []any        // that reached the outer recovery
}

const t0 = 1_700_000_000 // seconds

// everywhere runs a test on each framework, over HTTP/1.1 and HTTP/2.
func everywhere(t *testing.T, mount func(b *bench) mounts, test func(b *bench)) {
	for _, f := range frameworks {
		for _, version := range []string{"HTTP/1.1", "HTTP/2"} {
			t.Run(f.name+" over "+version, func(t *testing.T) {
				b := &bench{T: t, service: &service{release: make(chan struct{})}, framework: f, http2: version == "HTTP/2"}
				b.start(mount)
				test(b)
				if b.mu.Lock(); strings.Contains(b.log.String(), "superfluous") {
					t.Errorf("a response was written twice: %s", b.log.String())
				}
				b.mu.Unlock()
			})
		}
	}
}

func (b *bench) start(mount func(b *bench) mounts) {
	var err error
	b.at(0)
	if b.store, err = core.NewMemory(core.MemoryConfig{Clock: func() time.Time { return time.UnixMicro(b.clock.Load()) }}); err != nil {
		b.Fatal(err)
	}
	h := b.framework.build(b.service, mount(b))
	if b.outer != nil {
		h = b.outer(h)
	}
	server := httptest.NewUnstartedServer(b.recovery(h))
	if b.listener != nil {
		_ = server.Listener.Close()
		server.Listener = b.listener
	}
	server.Config.ErrorLog = log.New(b, "", 0)
	if server.EnableHTTP2 = b.http2; b.http2 {
		server.StartTLS()
	} else {
		server.Start()
	}
	b.Cleanup(server.Close)
	b.url, b.client = server.URL, server.Client()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
}

// Write takes log lines.
func (b *bench) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(line)
}

// recovery stands outside of everything, as in most services.
func (b *bench) recovery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			b.mu.Lock()
			b.panics = append(b.panics, p)
			b.mu.Unlock()
			if p == http.ErrAbortHandler {
				panic(p)
			}
			http.Error(w, "recovered", http.StatusInternalServerError)
		}()
		next.ServeHTTP(w, r)
	})
}

// limiter makes a limiter that counts in the store with the clock.
func (b *bench) limiter(name string, cfg core.Config) *core.Limiter {
	cfg.Name, cfg.Logger = name, slog.New(slog.NewTextHandler(b, nil))
	b.answers = cfg.OnRefuse != nil
	if cfg.Store == nil {
		cfg.Store = b.store
	}
	l, err := core.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func (b *bench) at(d time.Duration) { b.clock.Store(t0*1e6 + d.Microseconds()) }

// get sends a request, such as "GET /users/1", with headers given as name, value.
func (b *bench) get(what string, headers ...string) *http.Response {
	b.Helper()
	method, target, _ := strings.Cut(what, " ")
	r, err := http.NewRequestWithContext(b.Context(), method, b.url+target, nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	res, err := b.client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = res.Body.Close() })
	if want := 1 + map[bool]int{true: 1}[b.http2]; res.ProtoMajor != want {
		b.Fatalf("answered over %s", res.Proto)
	}
	return res
}

func read(t testing.TB, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// quota returns the X-RateLimit headers as "limit remaining reset", reset in
// seconds from t0, followed by Retry-After if there is one; "" if there is none.
func quota(t testing.TB, h http.Header) string {
	t.Helper()
	var all []string
	for _, name := range [...]string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"} {
		switch values := h.Values(name); {
		case len(values) > 1:
			t.Errorf("%s has %d values: %q", name, len(values), values)
		case len(values) == 1 && name == "X-RateLimit-Reset":
			reset, err := strconv.ParseInt(values[0], 10, 64)
			if err != nil {
				t.Error(err)
			}
			all = append(all, fmt.Sprint(reset-t0))
		case len(values) == 1:
			all = append(all, values[0])
		}
	}
	return strings.Join(all, " ")
}

// call is one row: a request and what is right for it.
type call struct {
	at     time.Duration // on the clock, after t0
	do     string
	with   []string
	status int
	quota  string // see quota
	body   string // "*" for any
}

func (b *bench) run(calls []call) {
	b.Helper()
	for i, c := range calls {
		b.at(c.at)
		before := b.runs.Load()
		res := b.get(c.do, c.with...)
		body := read(b, res.Body)
		where := fmt.Sprintf("call %d, %s at %v", i+1, c.do, c.at)
		refused := c.status == 429 || c.status == 400 || c.status == 503
		want, contentType := c.body, res.Header.Get("Content-Type")
		if refused && !b.answers {
			want, contentType = b.refusal(c)
		}
		if res.StatusCode != c.status || want != "*" && body != want || contentType != res.Header.Get("Content-Type") {
			b.Errorf("%s: status %d with %q as %q, want %d with %q as %q", where,
				res.StatusCode, body, res.Header.Get("Content-Type"), c.status, want, contentType)
		}
		if got := quota(b, res.Header); got != c.quota {
			b.Errorf("%s: quota %q, want %q", where, got, c.quota)
		}
		if (res.Header.Get("Cache-Control") == "no-store") != refused {
			b.Errorf("%s: Cache-Control %q", where, res.Header.Get("Cache-Control"))
		}
		if refused && b.runs.Load() != before {
			b.Errorf("%s: the handler of a refused request ran", where)
		}
	}
}

// refusal returns the body of a refusal, and its Content-Type, as the framework
// writes them.
func (b *bench) refusal(c call) (body, contentType string) {
	body, contentType = c.body, "text/plain; charset=utf-8"
	asksJSON := slices.ContainsFunc(c.with, func(s string) bool { return strings.HasPrefix(s, "application/") && !strings.Contains(s, "q=0") })
	if asksJSON {
		contentType = "application/problem+json"
	}
	if !b.framework.writesErrors {
		return body, contentType
	}
	switch retryAfter := c.quota[strings.LastIndexByte(c.quota, ' ')+1:]; {
	case body == "": // HEAD
		return "", ""
	case asksJSON && c.status == 429:
		body = "Too Many Requests. Try again in " + retryAfter + " s."
	case asksJSON && c.status == 503:
		body = "Service Unavailable. Try again later."
	case asksJSON:
		_, body, _ = strings.Cut(body, `"detail":"`)
		body = strings.TrimSuffix(body, `"}`)
	}
	quoted, _ := json.Marshal(map[string]string{"message": strings.TrimSuffix(body, "\n")})
	return string(quoted) + "\n", "application/json"
}

const second, minute, hour = time.Second, time.Minute, time.Hour

func tryAgain(seconds int) string {
	return fmt.Sprintf("Too Many Requests. Try again in %d s.\n", seconds)
}

func cost(r *http.Request) (int64, error) {
	if r.Header.Get("X-Cost") == "" {
		return 1, nil
	}
	return strconv.ParseInt(r.Header.Get("X-Cost"), 10, 64)
}

// table has a row for each fault that a limiter can have in any framework.
var table = []struct {
	name  string
	mount func(b *bench) mounts
	calls []call
}{
	{"Retry-After is rounded up and never zero", atRoot(core.Config{Limits: []core.Limit{core.PerMinute(1)}}), []call{
		{0, "GET /", nil, 200, "1 0 60", "home"},
		{800 * time.Millisecond, "GET /", nil, 429, "1 0 60 60", tryAgain(60)},
		{58500 * time.Millisecond, "GET /", nil, 429, "1 0 60 2", tryAgain(2)},
		{59600 * time.Millisecond, "GET /", nil, 429, "1 0 60 1", tryAgain(1)},
		{59999 * time.Millisecond, "GET /", nil, 429, "1 0 60 1", tryAgain(1)},
		{60 * second, "GET /", nil, 200, "1 0 120", "home"},
	}},
	{"a refusal costs nothing", atRoot(core.Config{Limits: []core.Limit{core.PerMinute(2)}}), []call{
		{0, "GET /users/1", nil, 200, "2 1 60", "1"},
		{30 * second, "GET /users/2", nil, 200, "2 0 60", "2"},
		{40 * second, "POST /items", nil, 429, "2 0 60 20", tryAgain(20)},
		{50 * second, "POST /items", nil, 429, "2 0 60 10", tryAgain(10)},
		{60 * second, "POST /items", nil, 201, "2 0 90", "created"},
	}},
	{"HEAD is counted once, like GET, and refused without a body", atRoot(core.Config{
		Limits: []core.Limit{core.PerMinute(2)}, Key: keyfunc.All(keyfunc.ByIP(), keyfunc.ByRoute(), keyfunc.ByMethod()),
	}), []call{
		{0, "GET /", nil, 200, "2 1 60", "home"},
		{1 * second, "HEAD /", nil, 200, "2 0 60", ""},
		{2 * second, "GET /", nil, 429, "2 0 60 58", tryAgain(58)},
		{2 * second, "HEAD /", nil, 429, "2 0 60 58", ""},
	}},
	{"unknown paths and methods are limited", atRoot(core.Config{Limits: []core.Limit{core.PerMinute(3)}}), []call{
		{0, "GET /none/1", nil, 404, "3 2 60", "*"},
		{0, "GET /none/2", nil, 404, "3 1 60", "*"},
		{0, "POST /users/1", nil, 405, "3 0 60", "*"},
		{0, "GET /none/3", nil, 429, "3 0 60 60", tryAgain(60)},
		{0, "POST /users/1", nil, 429, "3 0 60 60", tryAgain(60)},
	}},
	{"ids share the limit of their route", atRoot(core.Config{Limits: []core.Limit{core.PerMinute(2)}, Key: keyfunc.ByRoute()}), []call{
		{0, "GET /users/1", nil, 200, "2 1 60", "1"},
		{0, "GET /users/2?x=1", nil, 200, "2 0 60", "2"},
		{0, "GET /users/3", nil, 429, "2 0 60 60", tryAgain(60)},
		{0, "GET /group/items/1", nil, 200, "2 1 60", "1"},
		{0, "GET /", nil, 200, "2 1 60", "home"},
		{0, "GET /none/1", nil, 404, "2 1 60", "*"},
		{0, "GET /none/2", nil, 404, "2 0 60", "*"},
		{0, "GET /none/3", nil, 429, "2 0 60 60", tryAgain(60)},
	}},
	{"ids share the limit of their route within a group", atGroup(core.Config{Limits: []core.Limit{core.PerMinute(2)}, Key: keyfunc.ByRoute()}), []call{
		{0, "GET /group/items/1", nil, 200, "2 1 60", "1"},
		{0, "GET /group/items/2", nil, 200, "2 0 60", "2"},
		{0, "GET /group/items/3", nil, 429, "2 0 60 60", tryAgain(60)},
	}},
	{"a limiter of a group touches no other route", atGroup(core.Config{Limits: []core.Limit{core.PerMinute(1)}}), []call{
		{0, "GET /", nil, 200, "", "home"},
		{0, "GET /group/items/1", nil, 200, "1 0 60", "1"},
		{0, "GET /group/items/2", nil, 429, "1 0 60 60", tryAgain(60)},
		{0, "GET /limited", nil, 200, "", "limited"},
	}},
	{"a limiter of one route touches no other", atRoute(core.Config{Limits: []core.Limit{core.PerMinute(1)}}), []call{
		{0, "GET /limited", nil, 200, "1 0 60", "limited"},
		{0, "GET /limited", nil, 429, "1 0 60 60", tryAgain(60)},
		{0, "GET /", nil, 200, "", "home"},
		{0, "GET /group/items/1", nil, 200, "", "1"},
	}},
	{"routes of one group share its limit", func(b *bench) mounts {
		l := []*core.Limiter{b.limiter("shared", core.Config{Limits: []core.Limit{core.PerMinute(3)}})}
		return mounts{group: l, route: l}
	}, []call{
		{0, "GET /limited", nil, 200, "3 2 60", "limited"},
		{0, "GET /limited", nil, 200, "3 1 60", "limited"},
		{0, "GET /group/items/1", nil, 200, "3 0 60", "1"},
		{0, "GET /group/items/1", nil, 429, "3 0 60 60", tryAgain(60)},
	}},
	{"the same limiter mounted twice charges twice", twice(core.Config{Limits: []core.Limit{core.PerMinute(5)}}), []call{
		{0, "GET /limited", nil, 200, "5 3 60", "limited"},
		{0, "GET /", nil, 200, "5 2 60", "home"},
		{0, "GET /limited", nil, 200, "5 0 60", "limited"},
		{0, "GET /limited", nil, 429, "5 0 60 60", tryAgain(60)},
	}},
	{"the same limiter mounted twice charges once when told so", twice(core.Config{Limits: []core.Limit{core.PerMinute(3)}, Once: true}), []call{
		{0, "GET /limited", nil, 200, "3 2 60", "limited"},
		{0, "GET /", nil, 200, "3 1 60", "home"},
		{0, "GET /limited", nil, 200, "3 0 60", "limited"},
		{0, "GET /limited", nil, 429, "3 0 60 60", tryAgain(60)},
	}},
	{"stacked limiters show the tighter one, and the refusing one", func(b *bench) mounts {
		return mounts{
			root:  []*core.Limiter{b.limiter("outer", core.Config{Limits: []core.Limit{core.PerHour(100)}})},
			route: []*core.Limiter{b.limiter("inner", core.Config{Limits: []core.Limit{core.PerMinute(5)}})},
		}
	}, []call{
		{0, "GET /limited", nil, 200, "5 4 60", "limited"},
		{0, "GET /limited", nil, 200, "5 3 60", "limited"},
		{0, "GET /limited", nil, 200, "5 2 60", "limited"},
		{0, "GET /limited", nil, 200, "5 1 60", "limited"},
		{0, "GET /limited", nil, 200, "5 0 60", "limited"},
		{0, "GET /limited", nil, 429, "5 0 60 60", tryAgain(60)},
		{0, "GET /", nil, 200, "100 93 3600", "home"},
	}},
	{"stacked at one place, a tighter limiter outside stays shown", func(b *bench) mounts {
		return mounts{root: []*core.Limiter{
			b.limiter("outer", core.Config{Limits: []core.Limit{core.PerMinute(2)}}),
			b.limiter("inner", core.Config{Limits: []core.Limit{core.PerHour(100)}}),
		}}
	}, []call{
		{0, "GET /", nil, 200, "2 1 60", "home"},
		{0, "GET /", nil, 200, "2 0 60", "home"},
		{0, "GET /", nil, 429, "2 0 60 60", tryAgain(60)},
	}},
	{"several limits are one decision", atRoot(core.Config{Limits: []core.Limit{core.PerMinute(2), core.PerHour(3)}}), []call{
		{0, "GET /", nil, 200, "2 1 60", "home"},
		{0, "GET /", nil, 200, "2 0 60", "home"},
		{1 * second, "GET /", nil, 429, "2 0 60 59", tryAgain(59)},
		{60 * second, "GET /", nil, 200, "3 0 3600", "home"},
		{61 * second, "GET /", nil, 429, "3 0 3600 3539", tryAgain(3539)},
	}},
	{"redirects are counted once", atRoot(core.Config{Limits: []core.Limit{core.PerMinute(2)}}), []call{
		{0, "GET /old", nil, 302, "2 1 60", "*"},
		{0, "GET /", nil, 200, "2 0 60", "home"},
		{0, "GET /old", nil, 429, "2 0 60 60", tryAgain(60)},
	}},
	{"preflights pass uncounted", atRoot(core.Config{Limits: []core.Limit{core.PerMinute(1)}}), []call{
		{0, "OPTIONS /items", preflight, 204, "", ""},
		{0, "OPTIONS /items", nil, 204, "1 0 60", ""},
		{0, "OPTIONS /items", preflight, 204, "", ""},
		{0, "OPTIONS /items", nil, 429, "1 0 60 60", tryAgain(60)},
	}},
	{"preflights are counted when told so", atRoot(core.Config{Limits: []core.Limit{core.PerMinute(1)}, CountPreflights: true}), []call{
		{0, "OPTIONS /items", preflight, 204, "1 0 60", ""},
		{0, "OPTIONS /items", preflight, 429, "1 0 60 60", tryAgain(60)},
	}},
	{"skipped requests pass uncounted", atRoot(core.Config{
		Limits: []core.Limit{core.PerMinute(1)}, Skip: func(r *http.Request) bool { return r.URL.Path == "/" },
	}), []call{
		{0, "GET /", nil, 200, "", "home"},
		{0, "GET /limited", nil, 200, "1 0 60", "limited"},
		{0, "GET /", nil, 200, "", "home"},
		{0, "GET /limited", nil, 429, "1 0 60 60", tryAgain(60)},
	}},
	{"forwarded headers choose no key", atRoot(core.Config{Limits: []core.Limit{core.PerMinute(1)}}), []call{
		{0, "GET /", []string{"X-Forwarded-For", "203.0.113.1"}, 200, "1 0 60", "home"},
		{0, "GET /", []string{"X-Forwarded-For", "203.0.113.2"}, 429, "1 0 60 60", tryAgain(60)},
		{0, "GET /", []string{"X-Real-IP", "203.0.113.3"}, 429, "1 0 60 60", tryAgain(60)},
		{0, "GET /", []string{"Forwarded", "for=203.0.113.4"}, 429, "1 0 60 60", tryAgain(60)},
		{0, "GET /", []string{"CF-Connecting-IP", "203.0.113.5", "True-Client-IP", "203.0.113.5"}, 429, "1 0 60 60", tryAgain(60)},
	}},
	{"a trusted proxy tells clients apart", atRoot(core.Config{
		Limits: []core.Limit{core.PerMinute(1)}, Key: keyfunc.ByIP(keyfunc.XForwardedFor("127.0.0.1", "::1")),
	}), []call{
		{0, "GET /", []string{"X-Forwarded-For", "9.9.9.9, 203.0.113.1"}, 200, "1 0 60", "home"},
		{0, "GET /", []string{"X-Forwarded-For", "8.8.8.8", "X-Forwarded-For", "203.0.113.1"}, 429, "1 0 60 60", tryAgain(60)},
		{0, "GET /", []string{"X-Forwarded-For", "203.0.113.2"}, 200, "1 0 60", "home"},
		{0, "GET /", []string{"X-Forwarded-For", "7.7.7.7, junk"}, 200, "1 0 60", "home"}, // the peer
		{0, "GET /", []string{"X-Forwarded-For", "6.6.6.6,"}, 429, "1 0 60 60", tryAgain(60)},
	}},
	{"API keys are counted apart, and clients without one by address", atRoot(core.Config{
		Limits: []core.Limit{core.PerMinute(1)}, Key: keyfunc.ByAPIKey("X-API-Key"),
	}), []call{
		{0, "GET /", []string{"X-API-Key", "one"}, 200, "1 0 60", "home"},
		{0, "GET /", []string{"X-API-Key", "two"}, 200, "1 0 60", "home"},
		{0, "GET /", nil, 200, "1 0 60", "home"},
		{0, "GET /", []string{"X-API-Key", ""}, 429, "1 0 60 60", tryAgain(60)},
		{0, "GET /", []string{"X-API-Key", "one"}, 429, "1 0 60 60", tryAgain(60)},
		{0, "GET /", []string{"X-API-Key", "one", "X-API-Key", "three"}, 400, "", "The request carries a key that can be read in more than one way.\n"},
	}},
	{"a required key that is missing is the client's fault", atRoot(core.Config{
		Limits: []core.Limit{core.PerMinute(1)}, Key: keyfunc.Required(keyfunc.ByBearer()),
	}), []call{
		{0, "GET /", nil, 400, "", "The request lacks bearer token.\n"},
		{0, "GET /", []string{"Authorization", "Bearer t", "Accept", "application/json"}, 200, "1 0 60", "home"},
		{0, "GET /", []string{"Accept", "application/json"}, 400, "", `{"title":"Bad Request","status":400,"detail":"The request lacks bearer token."}`},
	}},
	{"a batch takes its cost or nothing", atRoot(core.Config{Limits: []core.Limit{core.PerMinute(110)}, Cost: cost}), []call{
		{0, "POST /items", []string{"X-Cost", "100"}, 201, "110 10 60", "created"},
		{0, "POST /items", []string{"X-Cost", "100"}, 429, "110 10 60 60", tryAgain(60)},
		{0, "POST /items", []string{"X-Cost", "111"}, 400, "110 10 60", "The request costs 111 units; limit \"1m\" never allows more than 110.\n"},
		{0, "POST /items", []string{"X-Cost", "10"}, 201, "110 0 60", "created"},
	}},
	{"a costly request is told when all of it fits", atRoot(core.Config{Limits: []core.Limit{core.PerMinute(3)}, Cost: cost}), []call{
		{0, "GET /", nil, 200, "3 2 60", "home"},
		{30 * second, "GET /", nil, 200, "3 1 60", "home"},
		{40 * second, "POST /items", []string{"X-Cost", "2"}, 429, "3 1 60 20", tryAgain(20)},
		{40 * second, "POST /items", []string{"X-Cost", "3"}, 429, "3 1 90 50", tryAgain(50)},
		{60 * second, "POST /items", []string{"X-Cost", "2"}, 201, "3 0 90", "created"},
	}},
	{"a cost that is none gives no decision", atRoot(core.Config{Limits: []core.Limit{core.PerMinute(10)}, Cost: cost}), []call{
		{0, "POST /items", []string{"X-Cost", "0"}, 503, "", "Service Unavailable. Try again later.\n"},
		{0, "POST /items", []string{"X-Cost", "-5"}, 503, "", "Service Unavailable. Try again later.\n"},
		{0, "POST /items", []string{"X-Cost", "1.5"}, 503, "", "Service Unavailable. Try again later.\n"},
		{0, "POST /items", nil, 201, "10 9 60", "created"},
	}},
	{"refusals speak JSON to those who ask for it", atRoot(core.Config{Limits: []core.Limit{core.PerMinute(1)}}), []call{
		{0, "GET /", []string{"Accept", "application/json"}, 200, "1 0 60", "home"},
		{0, "GET /", []string{"Accept", "application/json"}, 429, "1 0 60 60", `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
			`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["api"]}`},
		{0, "GET /", []string{"Accept", "application/json;q=0.1, text/plain"}, 429, "1 0 60 60", tryAgain(60)},
		{0, "HEAD /", []string{"Accept", "application/json"}, 429, "1 0 60 60", ""},
	}},
	{"handlers find the decision", atRoot(core.Config{Limits: []core.Limit{core.PerMinute(9)}, KeepDecision: true}), []call{
		{0, "GET /decision", nil, 200, "9 8 60", "true admitted 8"},
	}},
	{"an open policy lets pass and invents no headers", atRoot(core.Config{
		Limits: []core.Limit{core.PerMinute(1)}, Store: down{}, OnFailure: core.Open, KeepDecision: true,
	}), []call{
		{0, "GET /", nil, 200, "", "home"},
		{0, "GET /decision", nil, 200, "", "true undecided 0"},
	}},
	{"a closed policy answers 503 and not 429", atRoot(core.Config{
		Limits: []core.Limit{core.PerMinute(1)}, Store: down{}, OnFailure: core.Closed,
	}), []call{
		{0, "GET /", nil, 503, "", "Service Unavailable. Try again later.\n"},
		{0, "GET /", []string{"Accept", "application/problem+json"}, 503, "", `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
			`"title":"Request cannot be satisfied due to temporary server capacity constraints","status":503}`},
		{0, "HEAD /", nil, 503, "", ""},
	}},
	{"own handlers answer once", atRoot(core.Config{
		Limits: []core.Limit{core.PerMinute(1)}, Key: keyfunc.Required(keyfunc.ByHeader("X-User")),
		OnRefuse: func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
			http.Error(w, fmt.Sprint("slow down for ", d.RetryAfter()), http.StatusTooManyRequests)
		},
		OnError: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, fmt.Sprint("who? ", errors.Is(err, keyfunc.ErrRequired)), http.StatusBadRequest)
		},
	}), []call{
		{0, "GET /", []string{"X-User", "ada"}, 200, "1 0 60", "home"},
		{15 * second, "GET /", []string{"X-User", "ada"}, 429, "1 0 60 45", "slow down for 45s\n"},
		{15 * second, "GET /", nil, 400, "", "who? true\n"},
	}},
}

var preflight = []string{"Origin", "https://shop.example", "Access-Control-Request-Method", "POST"}

// down is a store that is out of order.
type down struct{ core.Store }

func (down) Do(context.Context, *core.Call) error {
	return errors.New("dial tcp 10.9.8.7:6379: refused")
}

func atRoot(cfg core.Config) func(*bench) mounts {
	return func(b *bench) mounts { return mounts{root: []*core.Limiter{b.limiter("api", cfg)}} }
}

func atGroup(cfg core.Config) func(*bench) mounts {
	return func(b *bench) mounts { return mounts{group: []*core.Limiter{b.limiter("api", cfg)}} }
}

func atRoute(cfg core.Config) func(*bench) mounts {
	return func(b *bench) mounts { return mounts{route: []*core.Limiter{b.limiter("api", cfg)}} }
}

func twice(cfg core.Config) func(*bench) mounts {
	return func(b *bench) mounts {
		l := []*core.Limiter{b.limiter("api", cfg)}
		return mounts{root: l, route: l}
	}
}

func TestRequestsInEveryFramework(t *testing.T) {
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			everywhere(t, row.mount, func(b *bench) { b.run(row.calls) })
		})
	}
}

// Two limiters at the root and one on a route, in each dialect of the draft.
func TestDraftHeadersInEveryFramework(t *testing.T) {
	const policies = `"hour";q=9;w=3600, "burst";q=5;w=60, "limited";q=2;w=60`
	for dialect, want := range map[core.Dialect][3][2]string{ // RateLimit and RateLimit-Policy
		core.Draft08: {
			{`"hour";r=8;t=3600, "burst";r=4;t=60`, `"hour";q=9;w=3600, "burst";q=5;w=60`},
			{`"hour";r=7;t=3600, "burst";r=3;t=60, "limited";r=1;t=60`, policies},
			{`"limited";r=0;t=60`, policies},
		},
		core.Draft12: {
			{`"hour";a=8;w=3600;c=1, "burst";a=4;w=60;c=1`, `"hour";q=9;w=3600, "burst";q=5;w=60`},
			{`"hour";a=7;w=3600;c=1, "burst";a=3;w=60;c=1, "limited";a=1;w=60;c=1`, policies},
			{`"limited";a=0;w=60`, policies},
		},
		core.Draft07: {
			{`limit=5, remaining=4, reset=60`, `5;w=60`},
			{`limit=2, remaining=1, reset=60`, `2;w=60`},
			{`limit=2, remaining=0, reset=60`, `2;w=60`},
		},
	} {
		t.Run(dialect.String(), func(t *testing.T) {
			listing := func(b *bench, name string, limit core.Limit) []*core.Limiter {
				return []*core.Limiter{b.limiter(name, core.Config{
					Limits: []core.Limit{limit.Named(name)}, Headers: []core.Dialect{core.XRateLimit, dialect},
				})}
			}
			everywhere(t, func(b *bench) mounts {
				return mounts{
					root:  append(listing(b, "hour", core.PerHour(9)), listing(b, "burst", core.PerMinute(5))...),
					route: listing(b, "limited", core.PerMinute(2)),
				}
			}, func(b *bench) {
				check := func(do string, status int, want [2]string) {
					b.Helper()
					res := b.get(do)
					got := [2]string{strings.Join(res.Header.Values("RateLimit"), "|"), strings.Join(res.Header.Values("RateLimit-Policy"), "|")}
					if res.StatusCode != status || got != want {
						b.Errorf("%s: %d %q, want %d %q", do, res.StatusCode, got, status, want)
					}
				}
				check("GET /", 200, want[0])
				check("GET /limited", 200, want[1])
				b.get("GET /limited")
				check("GET /limited", 429, want[2])
			})
		})
	}
}

func TestMountedTwiceIsWarnedAboutOnce(t *testing.T) {
	for name, once := range map[string]bool{"charged twice": false, "charged once": true} {
		t.Run(name, func(t *testing.T) {
			cfg := core.Config{Limits: []core.Limit{core.PerMinute(20)}, Once: once}
			everywhere(t, twice(cfg), func(b *bench) {
				for range 3 {
					b.get("GET /limited")
					b.get("GET /")
				}
				b.wantLines("mounted twice", map[bool]int{false: 1}[once])
			})
		})
	}
}

// wantLines checks how many log lines there are with a text in them, and that
// there are no others.
func (b *bench) wantLines(text string, want int) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if all := b.log.String(); strings.Count(all, text) != want || strings.Count(all, "\n") != want {
		b.Errorf("want %d lines with %q in the log:\n%s", want, text, all)
	}
}

func TestForwardedHeadersAreWarnedAboutOnce(t *testing.T) {
	everywhere(t, atRoot(core.Config{Limits: []core.Limit{core.PerMinute(20)}}), func(b *bench) {
		for i := range 3 {
			b.get("GET /", "X-Forwarded-For", fmt.Sprint("203.0.113.", i))
		}
		b.wantLines("no proxy is trusted", 1)
	})
}

func TestOutageIsLoggedOnce(t *testing.T) {
	everywhere(t, atRoot(core.Config{Limits: []core.Limit{core.PerMinute(1)}, Store: down{}, OnFailure: core.Open}), func(b *bench) {
		for range 3 {
			b.get("GET /")
		}
		b.wantLines("gives no decision", 1)
	})
}

// stuck is a store that answers nobody. It heeds the context that it is given.
type stuck struct{ core.Store }

func (stuck) Do(ctx context.Context, _ *core.Call) error {
	<-ctx.Done()
	return ctx.Err()
}

// The request's own deadline counts, not that of a framework's context, which may
// know none.
func TestAStuckStoreHoldsNoRequestBeyondItsDeadline(t *testing.T) {
	everywhere(t, func(b *bench) mounts {
		b.outer = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond)
				defer cancel()
				next.ServeHTTP(w, r.WithContext(ctx))
			})
		}
		return mounts{root: []*core.Limiter{b.limiter("api", core.Config{
			Limits: []core.Limit{core.PerMinute(1)}, Store: stuck{}, Budget: time.Hour, OnFailure: core.Closed,
		})}}
	}, func(b *bench) {
		b.run([]call{{0, "GET /", nil, 503, "", "Service Unavailable. Try again later.\n"}})
	})
}

// A peer on a unix socket has no address. All of them share one key.
func TestPeersOnAUnixSocketAreLimited(t *testing.T) {
	everywhere(t, func(b *bench) mounts {
		path := filepath.Join(b.TempDir(), "s")
		var err error
		if b.listener, err = net.Listen("unix", path); err != nil {
			b.Fatal(err)
		}
		return mounts{root: []*core.Limiter{
			b.limiter("api", core.Config{Limits: []core.Limit{core.PerMinute(2)}}),
		}}
	}, func(b *bench) {
		b.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", b.listener.Addr().String())
		}
		// What such an address looks like as a URL is nobody's business.
		b.url = map[bool]string{false: "http://example.com", true: "https://example.com"}[b.http2]
		b.run([]call{
			{0, "GET /", nil, 200, "2 1 60", "home"},
			{0, "GET /", nil, 200, "2 0 60", "home"},
			{0, "GET /", nil, 429, "2 0 60 60", tryAgain(60)},
		})
	})
}

// A method that a middleware overrides is the one that counts, if the middleware
// goes outside of the limiter.
func TestAnOverriddenMethodCounts(t *testing.T) {
	everywhere(t, func(b *bench) mounts {
		b.outer = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if m := r.Header.Get("X-HTTP-Method-Override"); m != "" {
					r.Method = m
				}
				next.ServeHTTP(w, r)
			})
		}
		return mounts{root: []*core.Limiter{b.limiter("api", core.Config{
			Limits: []core.Limit{core.PerMinute(1)}, Key: keyfunc.All(keyfunc.ByRoute(), keyfunc.ByMethod()),
		})}}
	}, func(b *bench) {
		b.run([]call{
			{0, "POST /items", nil, 201, "1 0 60", "created"},
			{0, "GET /items", []string{"X-HTTP-Method-Override", "POST"}, 429, "1 0 60 60", tryAgain(60)},
			{0, "POST /", []string{"X-HTTP-Method-Override", "GET"}, 200, "1 0 60", "home"},
		})
	})
}

// What the list of exposed headers leaves out, scripts of other origins cannot read.
func TestScriptsOfOtherOriginsCanReadTheHeaders(t *testing.T) {
	safe := []string{"Cache-Control", "Content-Length", "Content-Type"} // https://fetch.spec.whatwg.org/#cors-safelisted-response-header-name
	own := []string{"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Date", "Vary", "X-Content-Type-Options"}
	everywhere(t, func(b *bench) mounts {
		b.outer = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Access-Control-Allow-Origin", "*")
				w.Header().Add("Access-Control-Expose-Headers", strings.Join(core.ExposedHeaders(), ", "))
				next.ServeHTTP(w, r)
			})
		}
		return mounts{root: []*core.Limiter{b.limiter("api", core.Config{
			Limits: []core.Limit{core.PerMinute(1)}, Headers: []core.Dialect{core.XRateLimit, core.Draft08},
		})}}
	}, func(b *bench) {
		for _, status := range []int{200, 429} {
			res := b.get("GET /", "Origin", "https://shop.example")
			exposed := strings.Split(strings.ToLower(res.Header.Get("Access-Control-Expose-Headers")), ", ")
			for name := range res.Header {
				if !slices.Contains(exposed, strings.ToLower(name)) && !slices.Contains(safe, name) && !slices.Contains(own, name) {
					b.Errorf("%d: %s is not exposed", status, name)
				}
			}
			if res.StatusCode != status || res.Header.Get("RateLimit") == "" || (res.Header.Get("Retry-After") != "") != (status == 429) {
				b.Errorf("%d %v", res.StatusCode, res.Header)
			}
		}
	})
}

// The headers are on the wire with the first byte of a stream, and the stream
// flows while the handler runs.
func TestStreamsFlowAndCarryTheHeaders(t *testing.T) {
	for _, how := range []string{"flusher", "controller"} {
		t.Run(how, func(t *testing.T) {
			everywhere(t, everyLevel, func(b *bench) {
				res := b.get("GET /stream/" + how)
				if got := quota(b, res.Header); got != "9 8 60" || res.StatusCode != 200 {
					b.Errorf("status %d, quota %q", res.StatusCode, got)
				}
				events := bufio.NewReader(res.Body)
				if line, err := events.ReadString('\n'); line != "data: one\n" {
					b.Fatalf("first event %q (%v)", line, err)
				}
				close(b.release) // the handler has been waiting until now
				if rest := read(b, events); rest != "data: two\n" {
					b.Errorf("then %q", rest)
				}
			})
		})
	}
}

// everyLevel mounts a limiter everywhere; that at the root is the tightest.
func everyLevel(b *bench) mounts {
	return mounts{
		root: []*core.Limiter{
			b.limiter("root", core.Config{Limits: []core.Limit{core.PerMinute(9)}}),
			b.limiter("kept", core.Config{Limits: []core.Limit{core.PerMinute(99)}, KeepDecision: true}),
		},
		group: []*core.Limiter{b.limiter("group", core.Config{Limits: []core.Limit{core.PerMinute(99)}})},
		route: []*core.Limiter{b.limiter("route", core.Config{Limits: []core.Limit{core.PerMinute(99)}})},
	}
}

func TestConnectionsCanBeUpgraded(t *testing.T) {
	for _, how := range []string{"hijacker", "controller"} {
		t.Run(how, func(t *testing.T) {
			everywhere(t, atRoot(core.Config{Limits: []core.Limit{core.PerMinute(1)}}), func(b *bench) {
				if b.http2 {
					b.Skip("HTTP/2 has no upgrades")
				}
				ask := func() *http.Response {
					return b.get("GET /upgrade/"+how, "Connection", "Upgrade", "Upgrade", "echo")
				}
				res := ask()
				conn, ok := res.Body.(io.ReadWriter)
				if res.StatusCode != http.StatusSwitchingProtocols || !ok {
					b.Fatalf("status %d, %s", res.StatusCode, read(b, res.Body))
				}
				if _, err := io.WriteString(conn, "hello\n"); err != nil {
					b.Fatal(err)
				}
				if line := read(b, conn); line != "echo hello\n" {
					b.Errorf("%q", line)
				}
				if res = ask(); res.StatusCode != http.StatusTooManyRequests || quota(b, res.Header) != "1 0 60 60" {
					b.Errorf("the second upgrade: status %d", res.StatusCode)
				}
			})
		})
	}
}

func TestPanicsReachTheOuterRecoveryAndStayCounted(t *testing.T) {
	everywhere(t, everyLevel, func(b *bench) {
		res := b.get("GET /panic")
		if body := read(b, res.Body); res.StatusCode != 500 || body != "recovered\n" || quota(b, res.Header) != "9 8 60" {
			b.Errorf("status %d with %q, quota %q", res.StatusCode, body, quota(b, res.Header))
		}
		r, err := http.NewRequest("GET", b.url+"/abort", nil)
		if err != nil {
			b.Fatal(err)
		}
		if res, err := b.client.Do(r); err == nil {
			b.Errorf("an aborted response has status %d", res.StatusCode)
		}
		b.mu.Lock()
		if len(b.panics) < 2 || b.panics[0] != "boom" || b.panics[1] != http.ErrAbortHandler {
			b.Errorf("panics %v", b.panics)
		}
		counted := 1 + len(b.panics) // a client may ask again after an abort
		b.mu.Unlock()
		if got, want := quota(b, b.get("GET /").Header), fmt.Sprintf("9 %d 60", 9-counted); got != want {
			b.Errorf("quota %q, want %q", got, want)
		}
	})
}

// witness is a limiter that counts by route, and remembers the routes.
type witness struct {
	*core.Limiter
	mu   sync.Mutex
	seen []string
}

func newWitness(t *testing.T, n int64) *witness {
	t.Helper()
	w := &witness{}
	byRoute := keyfunc.ByRoute()
	l, err := core.New(core.Config{
		Limits: []core.Limit{core.PerHour(n)},
		Key: func(q keyfunc.Request) (keyfunc.Key, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.seen = append(w.seen, q.Route())
			return byRoute(q)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	w.Limiter = l
	return w
}

// ask sends a request straight into a handler, and returns its status and the
// route that it was counted by: "-" if it was not counted.
func (w *witness) ask(h http.Handler, what string) (status int, route string) {
	method, target, _ := strings.Cut(what, " ")
	w.seen = nil
	res := httptest.NewRecorder()
	h.ServeHTTP(res, httptest.NewRequest(method, target, nil))
	if len(w.seen) == 0 {
		return res.Code, "-"
	}
	return res.Code, w.seen[len(w.seen)-1]
}

// level is a place where a limiter can be mounted.
type level struct {
	name  string
	build func(*core.Limiter) http.Handler
	want  map[string]string // request: route, "" where none is known
}

func fine(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

var levels = []level{
	{"chi, root", func(l *core.Limiter) http.Handler {
		r := chi.NewRouter()
		r.Use(chimw.Middleware(l))
		return chiRoutes(r)
	}, chiPatterns},
	{"chi, around the router", func(l *core.Limiter) http.Handler { return chimw.Middleware(l)(chiRoutes(chi.NewRouter())) }, chiPatterns},
	{"chi, around the router in a mux", func(l *core.Limiter) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/", chimw.Middleware(l)(chiRoutes(chi.NewRouter())))
		return mux
	}, chiPatterns},
	{"chi, group, route and With", func(l *core.Limiter) http.Handler {
		r, limit := chi.NewRouter(), chimw.Middleware(l)
		r.Group(func(r chi.Router) {
			r.Use(limit)
			r.Get("/users/{id}", fine)
			r.Route("/deep", func(r chi.Router) { r.Get("/{a}/{b}", fine) })
		})
		r.Route("/api/{ver}", func(r chi.Router) {
			r.Use(limit)
			r.Get("/", fine)
			r.Get("/items/{id}", fine)
		})
		r.With(limit).Get("/one/{id:[0-9]+}", fine)
		r.With(limit).Get("/files/*", fine)
		return r
	}, map[string]string{
		"GET /users/1": "/users/{id}", "GET /deep/x/y": "/deep/{a}/{b}", "GET /deep/x": "",
		"GET /api/v1/": "/api/{ver}", "GET /api/v1/items/7": "/api/{ver}/items/{id}", "GET /api/v1/none": "", "PUT /api/v1/items/7": "",
		"GET /one/12": "/one/{id:[0-9]+}", "GET /files/a/b": "/files/*", "GET /none": "-",
	}},
	{"chi, mounted router", func(l *core.Limiter) http.Handler {
		inner := chi.NewRouter()
		inner.Use(chimw.Middleware(l))
		inner.Get("/items/{id}", fine)
		r := chi.NewRouter()
		r.Mount("/api/{ver}", inner)
		return r
	}, map[string]string{"GET /api/v1/items/7": "/api/{ver}/items/{id}", "GET /api/v1/items/8": "/api/{ver}/items/{id}"}},
	{"chi, below StripSlashes", func(l *core.Limiter) http.Handler {
		r := chi.NewRouter()
		r.Use(chimiddleware.StripSlashes)
		r.Route("/api", func(r chi.Router) {
			r.Use(chimw.Middleware(l))
			r.Get("/items/{id}", fine)
		})
		return r
	}, map[string]string{"GET /api/items/7": "/api/items/{id}", "GET /api/items/7/": "/api/items/{id}"}},
	{"chi, below GetHead", func(l *core.Limiter) http.Handler {
		r := chi.NewRouter()
		r.Use(chimiddleware.GetHead, chimw.Middleware(l))
		r.Get("/items/{id}", fine)
		return r
	}, map[string]string{"HEAD /items/7": "/items/{id}"}},
	{"chi, around a handler of net/http", func(l *core.Limiter) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("GET /items/{id}", chimw.Middleware(l)(http.HandlerFunc(fine)))
		return mux
	}, map[string]string{"GET /items/7": "GET /items/{id}"}},
	{"gin, engine", func(l *core.Limiter) http.Handler { return ginRoutes([]gin.HandlerFunc{ginmw.Middleware(l)}, nil) }, colonPatterns},
	{"gin, group and route", func(l *core.Limiter) http.Handler { return ginRoutes(nil, []gin.HandlerFunc{ginmw.Middleware(l)}) }, map[string]string{
		"GET /users/1": "/users/:id", "GET /api/v1/items/7": "/api/:ver/items/:id", "GET /files/a/b": "-", "GET /none": "-",
	}},
	{"echo v4, server", func(l *core.Limiter) http.Handler { return echoRoutes(echomw.Middleware(l), true) }, colonPatterns},
	{"echo v4, group and route", func(l *core.Limiter) http.Handler { return echoRoutes(echomw.Middleware(l), false) }, map[string]string{
		"GET /users/1": "/users/:id", "GET /api/v1/items/7": "/api/:ver/items/:id", "GET /files/a/b": "-", "GET /none": "-",
	}},
	{"echo v4, Pre", func(l *core.Limiter) http.Handler {
		e := echo.New()
		e.Pre(echomw.Middleware(l))
		e.GET("/users/:id", echo.WrapHandler(http.HandlerFunc(fine)))
		return e
	}, map[string]string{"GET /users/1": "", "GET /none": ""}},
	{"echo v5, server", func(l *core.Limiter) http.Handler { return echoV5Routes(echomwv5.Middleware(l), true) }, colonPatterns},
	{"echo v5, group and route", func(l *core.Limiter) http.Handler { return echoV5Routes(echomwv5.Middleware(l), false) }, map[string]string{
		"GET /users/1": "/users/:id", "GET /api/v1/items/7": "/api/:ver/items/:id", "GET /files/a/b": "-", "GET /none": "-",
	}},
	{"echo v5, Pre", func(l *core.Limiter) http.Handler {
		e := echov5.New()
		e.Pre(echomwv5.Middleware(l))
		e.GET("/users/:id", echov5.WrapHandler(http.HandlerFunc(fine)))
		return e
	}, map[string]string{"GET /users/1": "", "GET /none": ""}},
}

func chiRoutes(r *chi.Mux) http.Handler {
	r.Get("/", fine)
	r.Get("/users/{id}", fine)
	r.Get("/files/*", fine)
	r.Route("/api/{ver}", func(r chi.Router) {
		r.Get("/", fine)
		r.Get("/items/{id}", fine)
		deep := chi.NewRouter()
		deep.Get("/{x}", fine)
		r.Mount("/deep", deep)
	})
	return r
}

// chiPatterns has no /users/1/: it is not found, and counts with its route because
// below StripSlashes it would be.
var chiPatterns = map[string]string{
	"GET /": "/", "GET /users/1": "/users/{id}", "GET /users/a%2Fb": "/users/{id}", "GET /files/a/b": "/files/*",
	"GET /api/v1": "/api/{ver}", "GET /api/v1/": "/api/{ver}", "GET /api/v1/items/7": "/api/{ver}/items/{id}", "GET /api/v1/deep/x": "/api/{ver}/deep/{x}",
	"GET /none": "", "GET /Users/1": "", "GET /api/v1/none": "", "POST /users/1": "", "BREW /users/1": "",
}

func ginRoutes(root, inner []gin.HandlerFunc) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	e, handler := gin.New(), gin.WrapF(fine)
	e.HandleMethodNotAllowed = true
	e.Use(root...)
	e.GET("/users/:id", append(slices.Clone(inner), handler)...)
	e.GET("/files/*path", handler)
	e.Group("/api/:ver", inner...).GET("/items/:id", handler)
	return e
}

func echoRoutes(limit echo.MiddlewareFunc, root bool) http.Handler {
	e, handler := echo.New(), echo.WrapHandler(http.HandlerFunc(fine))
	var inner []echo.MiddlewareFunc
	if root {
		e.Use(limit)
	} else {
		inner = append(inner, limit)
	}
	e.GET("/users/:id", handler, inner...)
	e.GET("/files/*", handler)
	e.Group("/api/:ver", inner...).GET("/items/:id", handler)
	return e
}

func echoV5Routes(limit echov5.MiddlewareFunc, root bool) http.Handler {
	e, handler := echov5.New(), echov5.WrapHandler(http.HandlerFunc(fine))
	var inner []echov5.MiddlewareFunc
	if root {
		e.Use(limit)
	} else {
		inner = append(inner, limit)
	}
	e.GET("/users/:id", handler, inner...)
	e.GET("/files/*", handler)
	e.Group("/api/:ver", inner...).GET("/items/:id", handler)
	return e
}

var colonPatterns = map[string]string{
	"GET /users/1": "/users/:id", "GET /api/v1/items/7": "/api/:ver/items/:id", "GET /none": "", "GET /Users/1": "", "GET //users/1": "",
}

func TestRoutesAtEachLevel(t *testing.T) {
	for _, at := range levels {
		t.Run(at.name, func(t *testing.T) {
			w := newWitness(t, 1000)
			h := at.build(w.Limiter)
			for what, want := range at.want {
				if status, got := w.ask(h, what); got != want {
					t.Errorf("%s (%d): counted as %q, want %q", what, status, got, want)
				}
				// Looking a route up must not change what the router does.
				if status, _ := w.ask(h, what); want != "" && want != "-" && status != 200 {
					t.Errorf("%s: status %d", what, status)
				}
			}
		})
	}
}

// However a path is spelt, it counts as its route, or as one that is not there.
func TestSpellingsDodgeNoRouteLimit(t *testing.T) {
	spellings := strings.Fields("/users/1 /users/2 /users/1?x=1 /users/%31 /users/1%2F /users/a%2Fb /Users/1 /users/1/ //users/1 /users//1 /users/./1 /users/../users/1 /none/%0 /users/1;v=2")
	for _, at := range levels {
		t.Run(at.name, func(t *testing.T) {
			const n = 3
			w := newWitness(t, n)
			h := at.build(w.Limiter)
			admitted := map[string]int{}
			for range 2 {
				for _, s := range spellings {
					func() {
						defer func() { _ = recover() }() // httptest.NewRequest panics on a target that is none
						switch status, route := w.ask(h, "GET "+s); {
						case route == "-" || status == http.StatusTooManyRequests:
						default:
							admitted[route]++
						}
					}()
				}
			}
			for i := range 1000 {
				if status, route := w.ask(h, fmt.Sprintf("GET /random/%d", i)); status != http.StatusTooManyRequests && route != "-" {
					admitted[route]++
				}
			}
			for route, count := range admitted {
				if count > n {
					t.Errorf("%d requests of %q passed, want at most %d", count, route, n)
				}
				if strings.ContainsAny(route, "%1") && !strings.Contains(route, "[0-9]") {
					t.Errorf("a path became a key: %q", route)
				}
			}
			if len(admitted) > 4 {
				t.Errorf("%d keys: %v", len(admitted), admitted)
			}
		})
	}
}

// goList returns what the go command says of packages, one line each.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v: %s", strings.Join(args, " "), err, complaints.String())
	}
	return strings.Fields(string(out))
}

const module = "github.com/slidegate/slidegate"

// adapters names each adapter and the module of its framework.
var adapters = map[string]string{
	"nethttp":   "",
	"chimw":     "github.com/go-chi/chi/v5",
	"ginmw":     "github.com/gin-gonic/gin",
	"echomw":    "github.com/labstack/echo/v4",
	"echomw/v5": "github.com/labstack/echo/v5",
}

// pkg is a package of this module, by its path inside it.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func packages(t *testing.T) map[string]pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]pkg{}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(p.ImportPath, module+"/")] = p
		for _, file := range append(p.GoFiles, ".") {
			// The go command repeats a test whose result it has kept when a file that
			// the test itself looked at has changed.
			if _, err := os.Stat(filepath.Join(p.Dir, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(all) < 4 {
		t.Fatalf("only %d packages", len(all))
	}
	return all
}

// inside returns the path within this module, and whether it is in it.
func inside(importPath string) (string, bool) { return strings.CutPrefix(importPath, module+"/") }

// standard reports whether a package is in the standard library, whose paths
// have no dot in their first element.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

func TestTheHeartCompilesNoOtherModule(t *testing.T) {
	for _, p := range goList(t, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./nethttp", "./core", "./keyfunc", "./core/limittest") {
		if _, ours := inside(p); !ours {
			t.Errorf("%s is compiled", p)
		}
	}
}

func TestImportsRunDownwards(t *testing.T) {
	for name, p := range packages(t) {
		framework, adapter := adapters[name]
		for _, imported := range p.Imports {
			own, ours := inside(imported)
			var allowed bool
			switch {
			case strings.HasPrefix(name, "examples"):
				allowed = !strings.HasPrefix(own, "examples")
			case standard(imported):
				allowed = true
			case name == "keyfunc":
			case name == "core":
				allowed = own == "keyfunc"
			case adapter:
				allowed = own == "core" || own == "keyfunc" || !ours && inModule(imported, framework)
			case strings.HasPrefix(name, "core/"):
				allowed = !ours || own == "keyfunc" || own == "core" || strings.HasPrefix(own, "core/")
			}
			if !allowed {
				t.Errorf("%s imports %s", name, imported)
			}
		}
	}
}

func inModule(importPath, module string) bool {
	return module != "" && (importPath == module || strings.HasPrefix(importPath, module+"/"))
}

func TestEachOutsideModuleIsNamedByOnePackage(t *testing.T) {
	modules := goList(t, "-e", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./...")
	slices.SortFunc(modules, func(a, b string) int { return len(b) - len(a) }) // the longest that fits
	by := map[string][]string{}
	for name, p := range packages(t) {
		if strings.HasPrefix(name, "examples") || name == "core/storetest" {
			continue
		}
		for _, imported := range p.Imports {
			i := slices.IndexFunc(modules, func(m string) bool { return inModule(imported, m) })
			if i >= 0 && !slices.Contains(by[modules[i]], name) {
				by[modules[i]] = append(by[modules[i]], name)
			}
		}
	}
	for m, names := range by {
		if len(names) > 1 {
			t.Errorf("%s is imported by %v", m, names)
		}
	}
}

func TestAdaptersStayThin(t *testing.T) {
	const most = 80
	all := packages(t)
	for name := range adapters {
		lines := 0
		for _, file := range all[name].GoFiles {
			text, err := os.ReadFile(filepath.Join(all[name].Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
					lines++
				}
			}
		}
		if lines >= most {
			t.Errorf("%s has %d lines of code, want fewer than %d", name, lines, most)
		}
	}
}

func TestTopLevelHoldsOnlyWhatItMay(t *testing.T) {
	allowed := strings.Fields("go.mod go.sum core nethttp chimw ginmw echomw keyfunc examples README.md " +
		"middleware_test.go bench docs LICENSE CHANGELOG.md .ci .gitignore .git")
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(allowed, e.Name()) {
			t.Errorf("%s is at the top level", e.Name())
		}
	}
}
