package core

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"unsafe"

	"github.com/slidegate/slidegate/keyfunc"
)

// notices are said once per limiter.
type notices struct {
	peer      bool // some key function counts the TCP peer's address, with no proxy trusted
	proxied   atomic.Bool
	doubled   atomic.Bool
	broken    atomic.Bool
	carriesIn bool // decisions travel in the request's context
}

func (n *notices) watch(cfg Config) {
	n.carriesIn = cfg.KeepDecision || cfg.Once
	for _, l := range cfg.Limits {
		f := l.key
		if f == nil {
			f = cfg.Key
		}
		if f == nil {
			continue // keyOf falls back to the peer's address
		}
		report, _ := keyfunc.Inspect(f)
		n.peer = n.peer || report.PeerAddress
	}
}

// forwarded warns about requests that came through a proxy while clients are
// told apart by the address of the TCP peer: all of them would share one key.
func (n *notices) forwarded(l *Limiter, r *http.Request) {
	if n.proxied.Load() {
		return
	}
	for _, name := range [...]string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip"} {
		if len(r.Header[name]) == 0 {
			continue
		}
		if !n.proxied.Swap(true) {
			l.log.Warn("slidegate: a request carries "+name+", but no proxy is trusted: clients behind one proxy share one key; "+
				"name your proxies with keyfunc.ByIP(keyfunc.XForwardedFor(…)), or ignore this if clients connect directly",
				"limiter", l.cfg.Name, "peer", r.RemoteAddr)
		}
		return
	}
}

// failed logs the first error of a key or cost function: faults of the program,
// which clients see as 503. What clients get wrong, the store and the end of a
// request are no such faults.
func (n *notices) failed(l *Limiter, v *Verdict) {
	if n.broken.Load() || v.Status() != http.StatusServiceUnavailable || errors.Is(v.Err, ErrNoDecision) ||
		errors.Is(v.Err, ErrClosed) || errors.Is(v.Err, context.Canceled) || errors.Is(v.Err, context.DeadlineExceeded) {
		return
	}
	if !n.broken.Swap(true) {
		l.log.Error("slidegate: a key or cost function fails, and its requests are answered with 503, or by the framework if the error is one of its own; this is said once",
			"limiter", l.cfg.Name, "error", v.Err)
	}
}

// mountedTwice reports whether the limiter has decided this request already,
// and warns about it unless the limiter charges once.
func (n *notices) mountedTwice(l *Limiter, h http.Header, r *http.Request) bool {
	if n.carriesIn {
		if _, ok := l.DecisionFrom(r.Context()); !ok {
			return false
		}
	} else if !wroteHeaders(l, h) {
		return false
	}
	if !l.cfg.Once && !n.doubled.Swap(true) {
		l.log.Warn("slidegate: the limiter is mounted twice on one route, and charges each request twice; "+
			"mount it once, or set Config.Once", "limiter", l.cfg.Name, "method", r.Method)
	}
	return true
}

// wroteHeaders reports whether a header of the response has the very string that
// this limiter writes. It costs no memory, unlike a mark in the request's context.
// It misses a mounting that wrote no headers, or whose headers another limiter has
// replaced or added to in between, and one that wrote partition keys alone.
func wroteHeaders(l *Limiter, h http.Header) bool {
	if len(h) == 0 {
		return false
	}
	for _, name := range l.marks {
		v := h[name]
		if len(v) == 0 {
			continue
		}
		at := unsafe.StringData(v[0])
		if at == unsafe.StringData(l.policies) {
			return true
		}
		for i := range l.limits {
			if at == unsafe.StringData(l.limits[i].header) || at == unsafe.StringData(l.quotas[i]) {
				return true
			}
		}
	}
	return false
}
