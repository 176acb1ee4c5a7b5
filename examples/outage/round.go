package main

import (
	"context"
	"fmt"
	"time"

	"github.com/slidegate/slidegate/core"
)

// shared sends rounds of requests until Redis decides all of one: a machine may be
// busy for longer than the budget.
func (p *play) shared(ctx context.Context, user string) error {
	for end := time.Now().Add(back); ; {
		all, err := p.round(ctx, user, judge)
		if err != nil {
			return err
		}
		decided := 0
		for _, a := range all {
			if a.shared() {
				decided++
			}
		}
		if decided == len(all) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("for %v some request was not decided by Redis, which was well", back)
		}
	}
}

// round sends a request to each route, and prints and judges the answers.
func (p *play) round(ctx context.Context, user string, judge func(core.Policy, answer) error) ([]answer, error) {
	all := make([]answer, len(policies))
	for i, policy := range policies {
		var err error
		if all[i], err = p.ask(ctx, policy, user); err != nil {
			return nil, err
		}
	}
	p.answers(all)
	for i, policy := range policies {
		if err := judge(policy, all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ask sends a request.
func (p *play) ask(ctx context.Context, policy core.Policy, user string) (answer, error) {
	a, err := p.service.get(ctx, policy, user)
	p.slowest, p.longest = max(p.slowest, a.took), max(p.longest, a.took)
	return a, err
}

// until waits for ready or the end of ctx.
func until(ctx context.Context, ready <-chan time.Time) error {
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitFor asks done every 10ms until it is, or reports false at the end.
func waitFor(ctx context.Context, end time.Time, done func() bool) (bool, error) {
	for !done() {
		if time.Now().After(end) {
			return false, nil
		}
		if err := until(ctx, time.After(10*time.Millisecond)); err != nil {
			return false, err
		}
	}
	return true, nil
}
