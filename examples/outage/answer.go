package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/slidegate/slidegate/core"
)

// answer is what a user sees of a request.
type answer struct {
	status int
	header http.Header
	took   time.Duration
}

// String writes the status, and what the headers tell.
func (a answer) String() string {
	remaining, limit, wait := a.header.Get("X-RateLimit-Remaining"), a.header.Get("X-RateLimit-Limit"), a.header.Get("Retry-After")
	switch {
	case wait != "":
		return fmt.Sprintf("%d  wait %s s", a.status, wait)
	case limit != "":
		return fmt.Sprintf("%d  %s of %s left", a.status, remaining, limit)
	default:
		return fmt.Sprintf("%d  no headers", a.status)
	}
}

// headers writes all that clients may read of the limit.
func (a answer) headers() string {
	var all []string
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"} {
		if value := a.header.Get(name); value != "" {
			all = append(all, name+": "+value)
		}
	}
	return strings.Join(all, ", ")
}

// limited reports whether it tells how much of the limit is left.
func (a answer) limited() bool { return a.header.Get("X-RateLimit-Remaining") != "" }

func (a answer) refused() bool { return a.status == http.StatusTooManyRequests && a.limited() }

// shared reports whether it may be an answer by Redis. Who refused is not told.
func (a answer) shared() bool {
	return a.refused() || a.status == http.StatusOK && a.limited() && a.header.Get(deciderHeader) == byRedis
}

// What docs/failure.md promises, with room for a busy machine.
const (
	// longest is how long a request takes at most.
	longest = core.DefaultBudget + 400*time.Millisecond
	// back is how soon Redis decides again.
	back = 2 * time.Second
	// calm is how soon it then counts as healthy: when it has answered for a second.
	calm = 3 * time.Second
)

// judge returns an error if the answer of the route of p is none that it may ever
// give, whatever Redis does.
func judge(p core.Policy, a answer) error {
	if a.took > longest {
		return fmt.Errorf("/%v answered after %v, and the budget is %v", p, a.took.Round(time.Millisecond), core.DefaultBudget)
	}
	if a.shared() || fallsBack(p, a) {
		return nil
	}
	return fmt.Errorf("/%v answered %q", p, a)
}

// judgeBroken returns an error unless the answer is that of the policy alone.
func judgeBroken(p core.Policy, a answer) error {
	if err := judge(p, a); err != nil {
		return err
	}
	if !fallsBack(p, a) {
		return fmt.Errorf("/%v answered %q by Redis, which was broken", p, a)
	}
	return nil
}

// fallsBack reports whether the answer may be that of the policy.
func fallsBack(p core.Policy, a answer) bool {
	switch p {
	case core.Open:
		return a.status == http.StatusOK && !a.limited() && a.header.Get(deciderHeader) == byNobody
	case core.Closed:
		return a.status == http.StatusServiceUnavailable && !a.limited()
	default:
		return a.refused() || a.status == http.StatusOK && a.limited() && a.header.Get(deciderHeader) == byMemory
	}
}
