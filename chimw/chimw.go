// Package chimw limits the requests of chi routers, groups and routes.
//
//	r.Use(chimw.LimitByIP(100, time.Minute))
//	r.With(chimw.LimitByIP(5, time.Minute)).Post("/login", login)
package chimw

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// LimitByIP admits n requests of a client address in any window of length w,
// counted in memory. The address is that of the TCP peer; see keyfunc.ByIP for
// services behind a proxy, and ByClientIP. It panics like core.Must if n or w is
// out of range.
func LimitByIP(n int64, w time.Duration) func(http.Handler) http.Handler {
	return LimitBy(n, w, keyfunc.ByIP())
}

// LimitBy admits n requests of a key in any window of length w, counted in
// memory. A nil key stands for keyfunc.ByIP(). It panics like core.Must if an
// argument is invalid.
func LimitBy(n int64, w time.Duration, key keyfunc.Func) func(http.Handler) http.Handler {
	return Middleware(core.Must(core.New(core.Config{Limits: []core.Limit{core.Per(n, w)}, Key: key})))
}

// Middleware limits requests with l: in Use, Group, Route, With or around the
// whole router. The route that keyfunc.ByRoute counts by is the pattern of the
// whole path, at each of these levels: where chi has not matched it yet, it is
// looked up.
func Middleware(l *core.Limiter) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		outer, _ := next.(chi.Routes) // around the whole router
		find := finder{outer: outer, scratch: &sync.Pool{New: func() any { return chi.NewRouteContext() }}}
		return l.Handler(next, find.route)
	}
}

// finder tells routes before chi has matched them.
type finder struct {
	outer   chi.Routes
	scratch *sync.Pool // of *chi.Context: the one of the request must not be touched
}

func (f finder) route(q keyfunc.Request) string {
	r := q.HTTP()
	routes, method, path := f.outer, r.Method, r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	matched := ""
	if c := chi.RouteContext(r.Context()); c != nil && c.Routes != nil {
		if matched = c.RoutePattern(); matched != "" && !strings.HasSuffix(matched, "*") {
			return matched
		}
		routes = c.Routes
		if c.RouteMethod != "" {
			method = c.RouteMethod
		}
		if c.RoutePath != "" && matched == "" {
			path = c.RoutePath
		}
	}
	if routes == nil {
		return r.Pattern // a handler of net/http
	}
	found := f.find(routes, method, path)
	if found == "" && len(path) > 1 {
		// A router below middleware.StripSlashes.
		found = f.find(routes, method, strings.TrimSuffix(path, "/"))
	}
	return found
}

func (f finder) find(routes chi.Routes, method, path string) string {
	c := f.scratch.Get().(*chi.Context)
	pattern := routes.Find(c, method, path)
	c.Reset()
	f.scratch.Put(c)
	if len(pattern) > 1 {
		return strings.TrimSuffix(pattern, "/") // as chi itself, once it has matched
	}
	return pattern
}

// ByClientIP counts the address that one of chi's ClientIPFrom… middlewares has
// found, which goes before the limiter. Where none has, all share one key.
func ByClientIP() keyfunc.Func {
	return keyfunc.ByAddress(func(r keyfunc.Request) string { return middleware.GetClientIP(r.HTTP().Context()) })
}
