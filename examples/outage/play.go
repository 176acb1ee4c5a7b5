package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/slidegate/slidegate/core"
)

// What docs/failure.md promises of the time that requests wait, with room for a busy
// machine, and of how soon Redis decides again.
const (
	longest = core.DefaultBudget + 400*time.Millisecond
	back    = 3 * time.Second
)

// step is one way to break Redis.
type step struct {
	title string
	fault func() (mend func() error, err error)
}

// play breaks Redis step by step.
func play(ctx context.Context, out io.Writer, r *broken, s *service, p pace) error {
	steps := []step{
		{"Redis is killed, and started again without its data", r.kill},
		{"Redis hangs, and goes on", r.hang},
		{"Redis is slower than the budget of " + core.DefaultBudget.String(), r.slow},
		{"Redis has no memory left", r.fill},
	}
	a := &act{out: out, service: s, window: p.window}
	if err := s.ready(ctx); err != nil {
		return err
	}
	s.log.take()
	a.title("Redis is well")
	if err := a.requests(ctx, 2, healthy); err != nil {
		return err
	}
	a.operators()
	for _, st := range steps {
		a.title(st.title)
		mend, err := st.fault()
		if err != nil {
			return err
		}
		if err := a.requests(ctx, 5, failing); err != nil {
			return err
		}
		if err := sleep(ctx, p.lasts); err != nil {
			return err
		}
		a.operators()
		if err := mend(); err != nil {
			return err
		}
		if err := a.recover(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "Kept: no request waited much longer than its budget, none but those of /closed was answered\nwith 503, and Redis decided again soon after each outage.")
	return nil
}

// act is what is printed.
type act struct {
	out     io.Writer
	service *service
	window  time.Duration
	number  int
}

func (a *act) title(text string) {
	a.number++
	fmt.Fprintf(a.out, "%d. %s\n\n", a.number, text)
}

// requests sends n requests to each route, and prints and judges the answers.
func (a *act) requests(ctx context.Context, n int, judge func(core.Policy, answer) bool) error {
	for _, p := range policies {
		var told []string
		slowest := time.Duration(0)
		for range n {
			if err := ctx.Err(); err != nil {
				return err
			}
			got, err := a.service.get(p)
			if err != nil {
				return err
			}
			if !judge(p, got) || got.took > longest {
				return fmt.Errorf("/%s answered %s after %v", p, got, got.took)
			}
			told, slowest = append(told, got.String()), max(slowest, got.took)
		}
		fmt.Fprintf(a.out, "   /%-7s %-78s in at most %v\n", p, runs(told), slowest.Round(time.Millisecond/10))
	}
	return nil
}

// healthy reports whether an answer is right while Redis decides.
func healthy(_ core.Policy, a answer) bool {
	return a.remaining != "" && (a.status == http.StatusOK || a.status == http.StatusTooManyRequests)
}

// failing reports whether an answer is right while it may not.
func failing(p core.Policy, a answer) bool {
	switch p {
	case core.Open:
		return a.status == http.StatusOK || healthy(p, a)
	case core.Closed:
		return a.status == http.StatusServiceUnavailable || healthy(p, a)
	default:
		return healthy(p, a)
	}
}

// operators prints what they see.
func (a *act) operators() {
	st := a.service.store.Status()
	if st.Healthy {
		fmt.Fprintln(a.out, "   status   healthy")
	} else {
		fmt.Fprintf(a.out, "   status   failing (%v) for %v; decided locally %v, not at all %v\n",
			st.Failure, time.Since(st.Since).Round(time.Millisecond*100), st.Local, st.Undecided)
	}
	for _, line := range a.service.log.take() {
		fmt.Fprintf(a.out, "   log      %s\n", line)
	}
	fmt.Fprintln(a.out)
}

// recover waits until Redis decides again, and says how long that took.
func (a *act) recover(ctx context.Context) error {
	began := time.Now()
	for {
		got, err := a.service.get(core.Closed) // it has no other way to answer anything but 503
		if err != nil {
			return err
		}
		if got.status != http.StatusServiceUnavailable {
			break
		}
		if time.Since(began) > back {
			return fmt.Errorf("redis does not decide again %v after it was mended", back)
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	took := time.Since(began)
	for end := time.Now().Add(back); !a.service.store.Status().Healthy; {
		if time.Now().After(end) {
			return fmt.Errorf("not healthy %v after it was mended: %+v", back, a.service.store.Status())
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.out, "   mended   Redis decides again after %v\n", took.Round(time.Millisecond))
	a.operators()
	return sleep(ctx, a.window) // so that the next step begins with a full quota
}

// runs joins texts, and counts those that repeat.
func runs(all []string) string {
	var parts []string
	for i := 0; i < len(all); {
		n := 1
		for i+n < len(all) && all[i+n] == all[i] {
			n++
		}
		if n > 1 {
			parts = append(parts, fmt.Sprintf("%d × %s", n, all[i]))
		} else {
			parts = append(parts, all[i])
		}
		i += n
	}
	return strings.Join(parts, " · ")
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
