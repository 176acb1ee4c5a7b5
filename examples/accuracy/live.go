package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// liveSetting is that of traces that are played on a clock nobody can set. Slots
// must divide the window: then offers meet the edges of slots as they were made to.
func liveSetting(seed uint64) setting {
	return setting{seed: seed, n: 20, window: 250_000, windows: 10, live: true}
}

// threeWays are the ways to count N units per W that are judged on servers.
func threeWays(n int64, window time.Duration) []core.Limit {
	limit := core.Per(n, window)
	return []core.Limit{limit, limit.Slotted(10), limit.Hybrid(10, 0.8)}
}

// storeOpener opens a store that no other limiter of the name uses.
type storeOpener func(name string) (core.Store, error)

// measureLive plays the traces, which are plain ones, against all limits at the same time, each on
// counts of its own.
func measureLive(ctx context.Context, c setting, under []trace, open storeOpener) ([]row, error) {
	limits := threeWays(c.n, time.Duration(c.window)*time.Microsecond)
	rows, errs := make([]row, len(limits)), make([]error, len(limits)*len(under))
	var all sync.WaitGroup
	for i, l := range limits {
		rows[i] = gateRow(c, nil, l)
		rows[i].cells = make([]cell, len(under))
		for k, t := range under {
			r := gateRow(c, openLive(ctx, c, rows[i].edge, open, fmt.Sprintf("%d-%d", i, k)), l)
			all.Go(func() {
				var err error
				if rows[i].cells[k], err = r.run(c, t); err != nil {
					errs[i*len(under)+k] = fmt.Errorf("%s under %q: %w", r.name, t.name, err)
				}
			})
		}
	}
	all.Wait()
	return rows, errors.Join(errs...)
}

// openLive opens a store and instead of setting its clock waits until it reads
// what the trace wants.
func openLive(ctx context.Context, c setting, edge core.Instant, open storeOpener, name string) opener {
	return func() (backend, error) {
		store, err := open(name)
		if err != nil {
			return backend{}, err
		}
		read, err := readClock(ctx, store)
		if err != nil {
			return backend{}, errors.Join(err, store.Close())
		}
		// Whole windows, so that edges stay edges.
		shift := (read(time.Now())-start)/c.window*c.window + 2*c.window
		return backend{store: store, set: func(t core.Instant) {
			if (t+1)%edge == 0 {
				// Just before an edge: all N calls must be through by then.
				t -= min(c.window/20, edge/2)
			}
			sleep(ctx, (t + shift).Sub(read(time.Now())))
		}}, nil
	}
}

// readClock returns what the store's clock reads at a time of ours.
func readClock(ctx context.Context, store core.Store) (func(time.Time) core.Instant, error) {
	l, err := core.New(core.Config{Name: "clock", Limits: []core.Limit{core.PerSecond(1)}, Store: store, Budget: patience})
	if err != nil {
		return nil, err
	}
	// The second answer comes without the time that it takes to connect.
	var ahead core.Instant
	for range 2 {
		d, err := l.Peek(ctx, keyfunc.Name("clock"))
		if err != nil {
			return nil, err
		}
		ahead = d.At() - core.InstantOf(time.Now())
	}
	return func(t time.Time) core.Instant { return core.InstantOf(t) + ahead }, nil
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
