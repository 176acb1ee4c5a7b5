package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

const (
	paceRounds = 50
	paceCalls  = 10_000
)

// printTime measures decisions on one key by one goroutine, in real time.
func printTime(out io.Writer, markdown bool) error {
	t := &table{
		title: "Time per decision, one key, one goroutine, the real clock; and the ratio to exact:",
		notes: []string{
			"Admitted: in a window of 1 ms, so that units and slots leave as fast as they come.",
			"Refused: 1000 units in a window of an hour.",
		},
	}
	t.add("limit", "admitted", "to exact", "refused", "to exact")
	limits := busyLimits(1000)
	var admitting, refusing []core.Limit
	for _, how := range limits {
		admitting = append(admitting, like(core.Per(core.MaxUnits, time.Millisecond), how))
		refusing = append(refusing, like(core.PerHour(1000), how))
	}
	admitted, err := pace(admitting, paceRounds)
	if err != nil {
		return err
	}
	refused, err := pace(refusing, paceRounds)
	if err != nil {
		return err
	}
	for i, l := range limits {
		t.add(gateRow(defaultSetting(1), openMemory, l).name,
			fmt.Sprintf("%.0f ns", admitted[i]), fmt.Sprintf("%.2f", admitted[i]/admitted[0]),
			fmt.Sprintf("%.0f ns", refused[i]), fmt.Sprintf("%.2f", refused[i]/refused[0]))
	}
	t.print(out, markdown)
	return nil
}

// like returns limit counted as how is.
func like(limit, how core.Limit) core.Limit {
	switch how.Algorithm() {
	case core.Slotted:
		return limit.Slotted(how.Slots())
	case core.Hybrid:
		return limit.Hybrid(how.Slots(), how.Hot())
	default:
		return limit
	}
}

// pace returns the nanoseconds per decision of each limit: those of its fastest
// round, since the others were disturbed. The limits take turns, so that a slow
// spell of the machine meets them all.
func pace(limits []core.Limit, rounds int) ([]float64, error) {
	limiters := make([]*core.Limiter, len(limits))
	nanos := make([]float64, len(limits))
	for i, limit := range limits {
		l, err := core.New(core.Config{Limits: []core.Limit{limit}})
		if err != nil {
			return nil, err
		}
		defer l.Close()
		limiters[i], nanos[i] = l, math.Inf(1)
	}
	for range rounds {
		for i, l := range limiters {
			took, err := paceRound(l)
			if err != nil {
				return nil, err
			}
			nanos[i] = min(nanos[i], float64(took.Nanoseconds())/paceCalls)
		}
	}
	return nanos, nil
}

func paceRound(l *core.Limiter) (time.Duration, error) {
	ctx, key := context.Background(), keyfunc.User("somebody")
	began := time.Now()
	for range paceCalls {
		if _, err := l.Allow(ctx, key); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}
