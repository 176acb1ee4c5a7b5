package keyfunc

import (
	"net/http"
	"net/url"
)

// Func reads the key of a request. It only reads: it has no side effects, does
// not touch the body, and is called by many goroutines at once. A Func may be
// called once with an empty request when a limiter is made (see [Inspect]).
//
// With no key for the request it returns an error that matches [ErrMissing];
// the zero Key without an error means the same. Any other error means that no
// key could be made out.
type Func func(Request) (Key, error)

// Unmatched is the pattern that [ByRoute] counts for requests that match no
// route: all of them share one key, whatever their paths.
const Unmatched = "unmatched"

// Request is what a [Func] reads from: an HTTP request, the pattern of its
// route, and the context of the framework that serves it. It is a small value;
// pass it as one. The zero Request is an empty GET of "/".
type Request struct {
	http   *http.Request
	route  func(Request) string
	native any
	probe  *probe // not nil: the question comes from Inspect
}

// NewRequest returns the Request for r. The adapter of a framework gives route,
// which finds the pattern of the matched route when asked ("" when there is
// none), and native, the framework's own context. All three may be nil;
// without route, the pattern is the one that [http.ServeMux] left in r.
func NewRequest(r *http.Request, route func(Request) string, native any) Request {
	return Request{http: r, route: route, native: native}
}

// HTTP returns the HTTP request. It is never nil: where there is none, it is a
// new and empty GET of "/".
func (q Request) HTTP() *http.Request {
	if q.http != nil {
		return q.http
	}
	return &http.Request{
		Method:     http.MethodGet,
		URL:        &url.URL{Path: "/"},
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     http.Header{},
		Body:       http.NoBody,
	}
}

// Route returns the pattern of the matched route, as the framework writes it,
// or "" when it is not known. The pattern is looked up at each call.
func (q Request) Route() string {
	if q.route == nil {
		if q.http == nil {
			return ""
		}
		return q.http.Pattern
	}
	find := q.route
	q.route = nil // a finder that asks for the route must not ask itself
	return find(q)
}

// Native returns the framework's own context, such as a *gin.Context, or nil.
func (q Request) Native() any { return q.native }
