// Package ginmw limits the requests of gin engines, groups and routes.
//
//	e.Use(ginmw.LimitByIP(100, time.Minute))
//	e.POST("/login", ginmw.LimitByIP(5, time.Minute), login)
//
// gin answers a request for /path/ with a redirect to /path, and the other way
// round, before any middleware: such a redirect is not limited. Everything else
// is, unknown paths included, by a limiter in Engine.Use.
package ginmw

import (
	"time"

	"github.com/gin-gonic/gin"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// LimitByIP admits n requests of a client address in any window of length w,
// counted in memory. The address is that of the TCP peer, whatever gin trusts; see
// keyfunc.ByIP for services behind a proxy, and ByClientIP. It panics like
// core.Must if n or w is out of range.
func LimitByIP(n int64, w time.Duration) gin.HandlerFunc { return LimitBy(n, w, keyfunc.ByIP()) }

// LimitBy admits n requests of a key in any window of length w, counted in
// memory. A nil key stands for keyfunc.ByIP(). It panics like core.Must if an
// argument is invalid.
func LimitBy(n int64, w time.Duration, key keyfunc.Func) gin.HandlerFunc {
	return Middleware(core.Must(core.New(core.Config{Limits: []core.Limit{core.Per(n, w)}, Key: key})))
}

// Option changes how Middleware answers requests that may not proceed.
type Option func(*answers)

type answers struct {
	refuse func(*gin.Context, core.Decision)
	fail   func(*gin.Context, error)
}

// OnRefuse has f write the response of refused requests. Their headers are set
// and the context is aborted already. Decision.Reason tells Refused, usually
// answered with 429, from NeverFits, 400. It goes before core.Config.OnRefuse.
func OnRefuse(f func(*gin.Context, core.Decision)) Option {
	return func(a *answers) { a.refuse = f }
}

// OnError has f write the response of requests for which there is no decision;
// see core.Config.OnError, before which it goes. The context is aborted already.
// With f calling Context.Error alone, an outer middleware can write it.
func OnError(f func(*gin.Context, error)) Option { return func(a *answers) { a.fail = f } }

const decisionKey = "slidegate.decision"

// Decision returns the decision of the innermost limiter that the request of c
// has passed, and whether there is one.
func Decision(c *gin.Context) (core.Decision, bool) {
	kept, _ := c.Get(decisionKey)
	d, ok := kept.(core.Decision)
	return d, ok
}

// Middleware limits requests with l. A refused request is answered as
// core.Limiter.Refuse does, and aborted. The route that keyfunc.ByRoute counts by
// is Context.FullPath.
func Middleware(l *core.Limiter, opts ...Option) gin.HandlerFunc {
	var a answers
	for _, opt := range opts {
		if opt != nil {
			opt(&a)
		}
	}
	return func(c *gin.Context) {
		v := l.Admit(c.Writer.Header(), keyfunc.NewRequest(c.Request, route, c))
		if v.Counted && v.Err == nil {
			c.Set(decisionKey, v.Decision)
		}
		if v.Proceed() {
			c.Request = l.Carry(c.Request, &v)
			return
		}
		c.Abort()
		switch {
		case v.Err != nil && a.fail != nil:
			a.fail(c, v.Err)
		case v.Err == nil && a.refuse != nil:
			a.refuse(c, v.Decision)
		default:
			l.Refuse(c.Writer, c.Request, v)
		}
	}
}

func route(r keyfunc.Request) string { return r.Native().(*gin.Context).FullPath() }

// By counts users whose identifier f finds in gin's context; see keyfunc.ByNative.
func By(f func(*gin.Context) (string, error)) keyfunc.Func { return keyfunc.ByNative(f) }

// ByClientIP counts what gin's Context.ClientIP returns, parsed and normalised
// again. Unless Engine.SetTrustedProxies names your proxies exactly, gin trusts
// everybody, and each client can choose its address.
func ByClientIP() keyfunc.Func { return keyfunc.ByNativeAddress((*gin.Context).ClientIP) }
