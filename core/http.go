package core

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/slidegate/slidegate/keyfunc"
)

// Verdict is what Admit says of an HTTP request.
type Verdict struct {
	// Decision is the limiter's answer. It is empty when the request was not
	// counted (Counted is false).
	Decision Decision
	// Err says why there is no decision; nil if there is one, or if none was needed.
	Err error
	// Counted reports that the limiter decided the request: it was not skipped, no
	// preflight, and not charged by an outer mounting of a limiter with Once.
	Counted bool

	values     headerValues // what was set, with room for what Refuse sets
	retryAfter string       // of a refusal
	body       []byte       // of a refusal, in plain text
	keys       []byte       // the partition keys of the limits, where headers tell them
}

// Proceed reports whether the request may go on to its handler. If not, Refuse
// writes the response.
func (v *Verdict) Proceed() bool { return v.Err == nil && (!v.Counted || v.Decision.Allowed) }

// errNoLimiter answers the requests of a limiter that is nil.
var errNoLimiter = errors.New("slidegate: the limiter is nil: look at the error of core.New, or use core.Must")

// Admit is the way of an HTTP request through the limiter, the same in all
// frameworks: it finds the key, decides, and sets the response's headers in h,
// as Header.Set would. It writes no response: when the verdict's Proceed is
// false, call Refuse, or answer in the framework's own manner.
//
// A nil limiter has no decision on any request (503).
//
// A request costs two allocations beside those of the key function, up to four limits
// and with the default headers, whether it is admitted or refused.
func (l *Limiter) Admit(h http.Header, r keyfunc.Request) (v Verdict) {
	l.admit(h, r, &v)
	return v
}

// admit is Admit for a verdict that is empty.
func (l *Limiter) admit(h http.Header, r keyfunc.Request, v *Verdict) {
	if l == nil {
		// A program that has not looked at the error of New. It shall not pass unlimited.
		slog.Default().Error(errNoLimiter.Error())
		v.Err = errNoLimiter
		v.values.reserve(roomRefused)
		v.values.set(h, headerCacheControl, noStore)
		return
	}
	req := r.HTTP()
	if l.exempt(req) {
		return
	}
	if l.notice.peer {
		l.notice.forwarded(l, req)
	}
	if l.notice.mountedTwice(l, h, req) && l.cfg.Once {
		return
	}
	v.Counted = true
	if v.Err = l.decideRequest(r, v); v.Err != nil {
		l.notice.failed(l, v)
		v.values.reserve(roomRefused)
		v.values.set(h, headerCacheControl, noStore)
		return
	}
	l.writeHeaders(h, v)
}

// exempt reports whether a request is not counted at all.
func (l *Limiter) exempt(r *http.Request) bool {
	if l.cfg.Skip != nil && l.cfg.Skip(r) {
		return true
	}
	return r.Method == http.MethodOptions && !l.cfg.CountPreflights && isPreflight(r)
}

// isPreflight reports whether r is a CORS preflight
// (https://fetch.spec.whatwg.org/#cors-preflight-request).
func isPreflight(r *http.Request) bool {
	return r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

func (l *Limiter) decideRequest(r keyfunc.Request, v *Verdict) error {
	cost := int64(1)
	if l.cfg.Cost != nil {
		var err error
		if cost, err = l.cfg.Cost(r.HTTP()); err != nil {
			return err
		}
	}
	c := l.call(OpTake, cost)
	err := l.identify(c, r)
	if err == nil {
		err = l.decide(r.HTTP().Context(), c, &v.Decision)
	}
	if err == nil && l.cfg.PartitionKeys {
		v.partitionKeys(c)
	}
	l.calls.Put(c)
	return err
}

// identify gives the parts of c the keys of the request.
func (l *Limiter) identify(c *Call, r keyfunc.Request) error {
	shared := -1 // the first part that has the key of the limiter
	for i := range c.Parts {
		p, f := &c.Parts[i], l.limits[i].key
		if f == nil {
			if shared >= 0 {
				p.Key = c.Parts[shared].Key
				continue
			}
			f, shared = l.cfg.Key, i
		}
		var err error
		if p.Key, err = l.keyOf(f, r); err != nil {
			return err
		}
		l.seal(&p.Key)
	}
	return nil
}

// keyOf asks f for the key of the request. One that is absent is replaced by the
// address of the peer, so that leaving a header out dodges no limit.
func (l *Limiter) keyOf(f keyfunc.Func, r keyfunc.Request) (keyfunc.Key, error) {
	if f != nil {
		k, err := f(r)
		switch {
		case err == nil && !k.IsZero():
			return k, nil
		case err != nil && (errors.Is(err, keyfunc.ErrRequired) || !errors.Is(err, keyfunc.ErrMissing)):
			return k, err
		}
	}
	l.notice.forwarded(l, r.HTTP())
	return l.byPeer(r)
}

// Handler wraps next in the limiter. It is what the adapters of net/http and of
// routers built on it need; route tells the pattern of a request's route, or ""
// (see keyfunc.NewRequest).
func (l *Limiter) Handler(next http.Handler, route func(keyfunc.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var v Verdict
		if l.admit(w.Header(), keyfunc.NewRequest(r, route, nil), &v); !v.Proceed() {
			l.refuse(w, r, &v)
			return
		}
		next.ServeHTTP(w, l.Carry(r, &v))
	})
}
