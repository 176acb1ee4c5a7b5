package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/slidegate/slidegate/core"
)

// plan is what limiters go through whose counts lie on servers.
type plan struct {
	one       setting // of the traces that one caller plays
	under     []trace
	comebacks int // refusals that are taken at their word
	many      crowd
	how       hire // of the processes of the crowd
	open      func(servers) (core.Store, error)
}

func defaultPlan(seed uint64) plan {
	return plan{
		one: liveSetting(seed), under: plainTraces(), comebacks: 500,
		many: defaultCrowd(seed), how: hireProcess, open: servers.open,
	}
}

// judge measures limiters by one caller and by many processes, prints all and
// gives the verdict.
func (p plan) judge(ctx context.Context, out io.Writer, s servers, markdown bool) error {
	began := time.Now()
	window := time.Duration(p.one.window) * time.Microsecond
	if !markdown {
		fmt.Fprintf(out, "One caller: N = %d units, W = %v, seed %d, on the clock of %v.\n\n", p.one.n, window, p.one.seed, s)
	}
	rows, err := measureLive(ctx, p.one, p.under, func(name string) (core.Store, error) { return p.open(s.named(name)) })
	if err != nil {
		return err
	}
	worstTable(rows, p.under).print(out, markdown)
	shareTable(rows, p.under).print(out, markdown)

	back, err := p.comeBack(ctx, s)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, back.String())

	where := make([]servers, p.many.instances)
	for i := range where {
		where[i] = s.named("crowd")
	}
	outcomes, err := p.many.attack(ctx, p.how, where...)
	if err != nil {
		return err
	}
	crowdTable(p.many, outcomes).print(out, markdown)
	return verdict(out, brokenOnServers(rows, back, outcomes), time.Since(began))
}

func (p plan) comeBack(ctx context.Context, s servers) (back comebacks, err error) {
	store, err := p.open(s.named("comeback"))
	if err != nil {
		return back, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return comeBack(ctx, store, p.one.seed, p.comebacks)
}

func brokenOnServers(rows []row, back comebacks, outcomes []outcome) (broken []string) {
	for i := range rows {
		broken = append(broken, rows[i].broken()...)
	}
	broken = append(broken, back.broken()...)
	for i := range outcomes {
		broken = append(broken, outcomes[i].broken()...)
	}
	return broken
}

func verdict(out io.Writer, broken []string, took time.Duration) error {
	for _, line := range broken {
		fmt.Fprintln(out, "BROKEN:", line)
	}
	if len(broken) > 0 {
		fmt.Fprintf(out, "Verdict: %d promises broken, found in %.0f s.\n", len(broken), took.Seconds())
		return errBroken
	}
	fmt.Fprintf(out, "Verdict: every promise kept, in %.0f s. No window held more than N units, whichever process\n"+
		"admitted them; exact filled one to the last unit wherever more were offered; whoever came back\n"+
		"when told was admitted, and no sooner.\n", took.Seconds())
	return nil
}
