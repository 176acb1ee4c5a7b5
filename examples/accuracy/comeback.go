package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// comebacks is what happened to requests that were told to come back at R.
type comebacks struct {
	samples int
	probes  int          // calls around R
	early   int          // admitted at an instant before R
	late    int          // refused at R or after it
	moved   int          // told another R, although nothing else came
	before  core.Instant // the nearest refusal before R came so much before
	after   core.Instant // the nearest admission came so much after
}

// comebackProbes is how many limits are probed at the same time.
const comebackProbes = 32

// comeBack fills samples windows of 50 to 500 ms, each of a limiter of its own,
// and asks around the instant that the refusal told.
func comeBack(ctx context.Context, store core.Store, seed uint64, samples int) (comebacks, error) {
	all := comebacks{before: 1 << 62, after: 1 << 62}
	var mu sync.Mutex
	var errs []error
	var crew sync.WaitGroup
	next := 0
	for range comebackProbes {
		crew.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				over := i >= samples || len(errs) > 0
				mu.Unlock()
				if over {
					return
				}
				one, err := sampleComeback(ctx, store, rand.New(rand.NewPCG(seed, uint64(i))), i)
				mu.Lock()
				all.add(one)
				if err != nil {
					errs = append(errs, err)
				}
				mu.Unlock()
			}
		})
	}
	crew.Wait()
	return all, errors.Join(errs...)
}

func (c *comebacks) add(one comebacks) {
	c.samples += one.samples
	c.probes += one.probes
	c.early += one.early
	c.late += one.late
	c.moved += one.moved
	if one.before > 0 {
		c.before = min(c.before, one.before)
	}
	if one.late+one.early == 0 && one.samples > 0 {
		c.after = min(c.after, one.after)
	}
}

// sampleComeback fills one window, and asks from a little before R on without a
// pause until it is admitted.
func sampleComeback(ctx context.Context, store core.Store, rng *rand.Rand, i int) (c comebacks, err error) {
	window := 50*time.Millisecond + time.Duration(rng.Int64N(450_001))*time.Microsecond
	n := 1 + rng.Int64N(5)
	limit := threeWays(n, window)[i%3]
	l, err := core.New(core.Config{Name: fmt.Sprintf("comeback-%d", i), Limits: []core.Limit{limit}, Store: store, Budget: patience})
	if err != nil {
		return c, err
	}
	ctx, stop := context.WithTimeout(ctx, 4*patience)
	defer stop()
	var d core.Decision
	for d.Allowed = true; d.Allowed; {
		if d, err = l.Allow(ctx, keyfunc.Name("somebody")); err != nil {
			return c, err
		}
	}
	c.samples = 1
	back := d.Shown().FitsAt
	sleep(ctx, d.RetryAfter()-2*time.Millisecond)
	for {
		if d, err = l.Allow(ctx, keyfunc.Name("somebody")); err != nil {
			return c, err
		}
		c.probes++
		switch at := d.At(); {
		case at < back && d.Allowed:
			c.early++
			return c, nil
		case at >= back && !d.Allowed:
			c.late++
			return c, nil
		case at >= back:
			c.after = at - back
			return c, nil
		default:
			c.before = back - at
		}
		if d.Shown().FitsAt != back {
			c.moved++
		}
	}
}

// broken returns every promise that was broken.
func (c *comebacks) broken() (lines []string) {
	for _, x := range []struct {
		times int
		what  string
	}{
		{c.early, "admitted before the instant that a refusal told"},
		{c.late, "refused at or after the instant that a refusal told"},
		{c.moved, "told another instant although nothing else came"},
	} {
		if x.times > 0 {
			lines = append(lines, fmt.Sprintf("coming back: %s %d times", x.what, x.times))
		}
	}
	return lines
}

func (c *comebacks) String() string {
	return fmt.Sprintf("Coming back: %d refusals in windows of 50 to 500 ms told an instant R. Of %d calls around it\n"+
		"%d were admitted before R, %d were refused at or after R, and %d refusals told another R.\n"+
		"The nearest refusal came %d µs before R, the nearest admission %d µs after.\n",
		c.samples, c.probes, c.early, c.late, c.moved, c.before, c.after)
}
