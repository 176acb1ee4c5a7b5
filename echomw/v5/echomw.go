// Package echomw limits the requests of echo v5 servers, groups and routes.
//
//	e.Use(echomw.LimitByIP(100, time.Minute))
//	e.POST("/login", login, echomw.LimitByIP(5, time.Minute))
package echomw

import (
	"errors"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// LimitByIP admits n requests of a client address in any window of length w,
// counted in memory. The address is that of the TCP peer, whatever the server's
// IPExtractor; see keyfunc.ByIP for services behind a proxy, and ByRealIP. It
// panics like core.Must if n or w is out of range.
func LimitByIP(n int64, w time.Duration) echo.MiddlewareFunc { return LimitBy(n, w, keyfunc.ByIP()) }

// LimitBy admits n requests of a key in any window of length w, counted in
// memory. A nil key stands for keyfunc.ByIP(). It panics like core.Must if an
// argument is invalid.
func LimitBy(n int64, w time.Duration, key keyfunc.Func) echo.MiddlewareFunc {
	return Middleware(core.Must(core.New(core.Config{Limits: []core.Limit{core.Per(n, w)}, Key: key})))
}

// Option changes how Middleware answers requests that may not proceed.
type Option func(*answers)

type answers struct {
	refuse func(*echo.Context, core.Decision) error
	fail   func(*echo.Context, error) error
}

// OnRefuse has f answer refused requests; what it returns goes to the server's
// HTTPErrorHandler. Their headers are set already. Decision.Reason tells Refused,
// usually answered with 429, from NeverFits, 400. It goes before
// core.Config.OnRefuse.
func OnRefuse(f func(*echo.Context, core.Decision) error) Option {
	return func(a *answers) { a.refuse = f }
}

// OnError has f answer requests for which there is no decision; see
// core.Config.OnError, before which it goes.
func OnError(f func(*echo.Context, error) error) Option { return func(a *answers) { a.fail = f } }

const decisionKey = "slidegate.decision"

// Decision returns the decision of the innermost limiter that the request of c
// has passed, and whether there is one.
func Decision(c *echo.Context) (core.Decision, bool) {
	d, ok := c.Get(decisionKey).(core.Decision)
	return d, ok
}

// Middleware limits requests with l. For one that may not proceed it returns an
// *echo.HTTPError with the status and the text of core.Limiter.Refuse, which the
// server's HTTPErrorHandler writes like all others; the error of a key function
// that has a status of its own, as an *echo.HTTPError has, is returned as it is. The route that
// keyfunc.ByRoute counts by is Context.Path: it is known in Use, groups and routes,
// but not in Pre.
func Middleware(l *core.Limiter, opts ...Option) echo.MiddlewareFunc {
	var a answers
	for _, opt := range opts {
		if opt != nil {
			opt(&a)
		}
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			v := l.Admit(c.Response().Header(), keyfunc.NewRequest(c.Request(), route, c))
			if v.Counted && v.Err == nil {
				c.Set(decisionKey, v.Decision)
			}
			switch {
			case v.Proceed():
				c.SetRequest(l.Carry(c.Request(), &v))
				return next(c)
			case v.Err != nil && a.fail != nil:
				return a.fail(c, v.Err)
			case v.Err == nil && a.refuse != nil:
				return a.refuse(c, v.Decision)
			case l.Answers(&v):
				l.Refuse(c.Response(), c.Request(), v)
				return nil
			}
			// Its sentinels, such as echo.ErrUnauthorized, are of another type than HTTPError.
			if own := echo.HTTPStatusCoder(nil); errors.As(v.Err, &own) {
				return own.(error)
			}
			e := echo.NewHTTPError(v.Status(), v.Message())
			if v.Err != nil {
				return e.Wrap(v.Err)
			}
			return e
		}
	}
}

func route(r keyfunc.Request) string { return r.Native().(*echo.Context).Path() }

// By counts users whose identifier f finds in echo's context; see keyfunc.ByNative.
func By(f func(*echo.Context) (string, error)) keyfunc.Func { return keyfunc.ByNative(f) }

// ByRealIP counts what echo's Context.RealIP returns, parsed and normalised again.
// It is the TCP peer unless Echo.IPExtractor says otherwise; the extractors that
// read headers trust all private networks unless they are told not to.
func ByRealIP() keyfunc.Func { return keyfunc.ByNativeAddress((*echo.Context).RealIP) }
