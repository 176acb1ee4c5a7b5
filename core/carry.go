package core

import (
	"context"
	"net/http"
)

// carried is a context with a decision in it.
type carried struct {
	context.Context
	limiter  *Limiter
	decision Decision
}

type carriedKey struct{}

// Value implements context.Context.
func (c *carried) Value(key any) any {
	if key == (carriedKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Carry returns r with the verdict's decision in its context if the limiter
// keeps decisions (Config.KeepDecision) or charges once (Config.Once), else r
// itself. The copy hides what a router sets on the request, such as
// http.Request.Pattern, from those who hold r.
func (l *Limiter) Carry(r *http.Request, v *Verdict) *http.Request {
	if !v.Counted || !(l.cfg.KeepDecision || l.cfg.Once) {
		return r
	}
	return r.WithContext(&carried{r.Context(), l, v.Decision})
}

// DecisionFrom returns the decision of the innermost limiter with
// Config.KeepDecision or Config.Once that the request of ctx has passed.
func DecisionFrom(ctx context.Context) (Decision, bool) {
	if c, ok := ctx.Value(carriedKey{}).(*carried); ok {
		return c.decision, true
	}
	return Decision{}, false
}

// DecisionFrom returns this limiter's decision on the request of ctx. It needs
// Config.KeepDecision or Config.Once.
func (l *Limiter) DecisionFrom(ctx context.Context) (Decision, bool) {
	for {
		c, ok := ctx.Value(carriedKey{}).(*carried)
		if !ok {
			return Decision{}, false
		}
		if c.limiter == l {
			return c.decision, true
		}
		ctx = c.Context
	}
}
