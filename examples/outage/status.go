package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/slidegate/slidegate/core"
)

// begin begins a step when all is well: the first calls, or those of a busy machine,
// may have taken longer than the budget.
func (p *play) begin(ctx context.Context, title string) error {
	well := func() bool {
		a, err := p.service.get(ctx, core.Closed, "nobody")
		return err == nil && a.shared() && p.service.store.Status().Healthy
	}
	if ok, err := waitFor(ctx, time.Now().Add(back+calm), well); err != nil || !ok {
		return cmp.Or(err, fmt.Errorf("for %v Redis did not answer in time, which was not broken", back+calm))
	}
	p.before, p.slowest = p.service.store.Status(), 0
	p.step(title)
	return nil
}

// status prints store.Status() in a line. That counts from the start of the service,
// the line from the start of the step.
func (p *play) status() {
	st := p.service.store.Status()
	text := "healthy"
	if !st.Healthy {
		text = fmt.Sprintf("failing for %.1f s, by %v", time.Since(st.Since).Seconds(), st.Failure)
	}
	p.say("status", fmt.Sprintf("%s; requests decided locally: %d, not at all: %d",
		text, total(st.Local)-total(p.before.Local), total(st.Undecided)-total(p.before.Undecided)))
}

func total(by map[core.Failure]int64) (n int64) {
	for _, of := range by {
		n += of
	}
	return n
}

// summary prints what came of the outages.
func (p *play) summary(out io.Writer) {
	const row = "  %-39s%15s%18s%18s\n"
	fmt.Fprintf(out, "\nSummary\n\n"+row, "", "slowest request", "Redis decides", "status healthy")
	for _, o := range p.ended {
		fmt.Fprintf(out, row, o.title, fmt.Sprintf("%.1f ms", o.slowest.Seconds()*1000),
			fmt.Sprintf("after %.0f ms", o.back.Seconds()*1000), fmt.Sprintf("after %.1f s", o.calm.Seconds()))
	}
	fmt.Fprintf(out, kept, (p.longest + time.Millisecond).Truncate(time.Millisecond), core.DefaultBudget, quota, p.pace.window, back)
}
