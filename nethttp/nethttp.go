// Package nethttp limits the requests of net/http handlers.
//
//	http.ListenAndServe(":8080", nethttp.LimitByIP(100, time.Minute)(mux))
//
// The middleware wraps a whole mux or a single handler. It passes the
// ResponseWriter through as it is, so that everything that works without it
// works with it.
package nethttp

import (
	"net/http"
	"strings"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// LimitByIP admits n requests of a client address in any window of length w,
// counted in memory. The address is that of the TCP peer; see keyfunc.ByIP for
// services behind a proxy. It panics like core.Must if n or w is out of range.
func LimitByIP(n int64, w time.Duration) func(http.Handler) http.Handler {
	return LimitBy(n, w, keyfunc.ByIP())
}

// LimitBy admits n requests of a key in any window of length w, counted in
// memory. A nil key stands for keyfunc.ByIP(). It panics like core.Must if an
// argument is invalid.
func LimitBy(n int64, w time.Duration, key keyfunc.Func) func(http.Handler) http.Handler {
	return Middleware(core.Must(core.New(core.Config{Limits: []core.Limit{core.Per(n, w)}, Key: key})))
}

// Middleware limits requests with l. The route that keyfunc.ByRoute counts by
// is the pattern that the request matches: in the mux that is wrapped or, around
// one handler, in the mux that called it. Put it directly around the mux: where
// another handler stands between them the mux cannot be seen, and its requests
// are all keyfunc.Unmatched. Likewise, the routes of a mux behind
// http.StripPrefix are told apart by a limiter inside of it only.
func Middleware(l *core.Limiter) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		mux, _ := next.(*http.ServeMux)
		return l.Handler(next, func(r keyfunc.Request) string { return route(mux, r.HTTP()) })
	}
}

// route returns the pattern of r. Around a mux, the mux has yet to match it; a
// mux inside another, without http.StripPrefix between them, is asked in turn.
func route(mux *http.ServeMux, r *http.Request) string {
	if mux == nil {
		return r.Pattern
	}
	outer := r.Pattern
	h, pattern := mux.Handler(r)
	for pattern != "" {
		inner, ok := h.(*http.ServeMux)
		if !ok {
			break
		}
		h, pattern = inner.Handler(r)
	}
	return join(outer, pattern)
}

// join puts the pattern under which a mux is mounted in another in front of the
// pattern inside it, unless that is a whole path already.
func join(outer, inner string) string {
	outer, inner = path(outer), path(inner)
	if outer == "" || inner == "" || strings.HasPrefix(inner, outer) {
		return inner
	}
	return strings.TrimSuffix(outer, "/") + inner
}

// path cuts the method off a pattern.
func path(pattern string) string {
	if blank := strings.IndexAny(pattern, " \t"); blank >= 0 {
		return strings.TrimLeft(pattern[blank:], " \t")
	}
	return pattern
}
