package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/fallback"
)

// rounds of requests use up the limit during an outage, with one before it.
const rounds = quota

// play breaks Redis in each way in turn.
type play struct {
	*screen
	service *service
	pace    pace
	ended   []outage
	before  fallback.Status // when the step began
	slowest time.Duration   // request of the step
	longest time.Duration   // request of all
}

// outage is what came of one.
type outage struct {
	title      string
	slowest    time.Duration // request
	back, calm time.Duration // after it was healed
}

func (p *play) run(ctx context.Context, faults []fault) error {
	if err := p.healthy(ctx); err != nil {
		return err
	}
	for _, f := range faults {
		if err := p.outage(ctx, f); err != nil {
			return fmt.Errorf("%s: %w", f.title, err)
		}
	}
	return nil
}

// healthy shows how it is without an outage.
func (p *play) healthy(ctx context.Context) error {
	if err := p.begin(ctx, "Redis is well"); err != nil {
		return err
	}
	if err := p.shared(ctx, "user-0"); err != nil {
		return err
	}
	var last []answer
	for range rounds {
		var err error
		if last, err = p.round(ctx, "user-0", judge); err != nil {
			return err
		}
	}
	p.say("headers", last[0].headers())
	p.status()
	return nil
}

// outage breaks Redis in one way, and heals it.
func (p *play) outage(ctx context.Context, f fault) error {
	if err := p.begin(ctx, f.title); err != nil {
		return err
	}
	o := outage{title: f.title}
	user := fmt.Sprint("user-", len(p.ended)+1)
	began := time.Now()
	if err := p.shared(ctx, user); err != nil {
		return err
	}
	if err := p.broken(ctx, f, user, began); err != nil {
		return err
	}
	p.status()
	if err := p.recover(ctx, f, user, &o); err != nil {
		return err
	}
	o.slowest = p.slowest
	p.ended = append(p.ended, o)
	return nil
}

// broken inflicts the fault, and shows what users see for as long as an outage lasts.
// The user has made a request of each route since began, when Redis was well: what the
// local window admits comes on top of it.
func (p *play) broken(ctx context.Context, f fault, user string, began time.Time) error {
	if err := f.inflict(); err != nil {
		return err
	}
	p.say("BROKEN", f.broken)
	over := time.After(p.pace.lasts)
	admitted := []time.Time{began}
	for i := range rounds {
		if i == rounds-1 {
			if err := until(ctx, over); err != nil {
				return err
			}
		}
		all, err := p.round(ctx, user, judgeBroken)
		if err != nil {
			return err
		}
		if !all[0].refused() {
			admitted = append(admitted, time.Now())
		}
	}
	if n := fullest(admitted, p.pace.window-p.longest); n > quota {
		return fmt.Errorf("/%v admitted %d requests in %v, and the limit is %d", core.Local, n, p.pace.window, quota)
	}
	return nil
}

// fullest returns the most instants that lie within one window.
func fullest(at []time.Time, window time.Duration) (most int) {
	for i, first := range at {
		n := 0
		for _, other := range at[i:] {
			if other.Sub(first) < window {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// recover heals the fault, and waits until Redis decides again and counts as healthy.
func (p *play) recover(ctx context.Context, f fault, user string, o *outage) error {
	if err := f.heal(); err != nil {
		return err
	}
	healed := time.Now()
	p.say("HEALED", f.healed)
	refused, err := p.comeback(ctx, user+"-waits")
	if err != nil {
		return err
	}
	o.back = time.Since(healed)
	p.say("back", fmt.Sprintf("Redis decides again after %v (requests that /%v refused until then: %d)", o.back.Round(time.Millisecond), core.Closed, refused))
	p.say("", f.counts)
	if err := p.shared(ctx, user); err != nil {
		return err
	}
	healthy := func() bool { return p.service.store.Status().Healthy }
	if ok, err := waitFor(ctx, healed.Add(back+calm), healthy); err != nil || !ok {
		return cmp.Or(err, fmt.Errorf("the status is not healthy %v after Redis was healed", back+calm))
	}
	o.calm = time.Since(healed)
	return p.wellLogged(ctx)
}

// wellLogged returns an error unless two lines were logged in the step. The second one
// comes a moment after the status has become healthy.
func (p *play) wellLogged(ctx context.Context) error {
	if _, err := waitFor(ctx, time.Now().Add(time.Second), func() bool { return p.loggedLines() >= 2 }); err != nil {
		return err
	}
	p.status()
	if n := p.loggedLines(); n != 2 {
		return fmt.Errorf("lines logged: %d, not one when Redis failed and one when it was well again", n)
	}
	return nil
}

// comeback waits until Redis decides: only then does /closed answer anything but
// 503. It returns how often that came.
func (p *play) comeback(ctx context.Context, user string) (refused int, err error) {
	var a answer
	decides := func() bool {
		if a, err = p.ask(ctx, core.Closed, user); err == nil {
			err = judge(core.Closed, a)
		}
		if err == nil && !a.shared() {
			refused++
		}
		return err != nil || a.shared()
	}
	ok, ended := waitFor(ctx, time.Now().Add(back), decides)
	if err = cmp.Or(err, ended); err == nil && !ok {
		err = fmt.Errorf("/%v still answers %q, %v after Redis was healed", core.Closed, a, back)
	}
	return refused, err
}
