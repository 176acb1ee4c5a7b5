package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"time"
)

// result is what a limiter adds to a request, and for a subject without a limiter
// what the framework costs.
type result struct {
	framework, limiter string
	low, median        float64 // nanoseconds
	allocs, bytes      float64
}

// sink is a response that keeps nothing but its header and status.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(status int)      { s.status = status }

// serve sends n requests of one client, and fails if one is answered with another
// status.
func serve(h http.Handler, n, status int) error {
	w := sink{header: http.Header{}}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for range n {
		clear(w.header)
		w.status = http.StatusOK
		h.ServeHTTP(&w, r)
		if w.status != status {
			return fmt.Errorf("answered with %d, want %d", w.status, status)
		}
	}
	return nil
}

// measure lets the subjects take turns. Each is compared with the bare framework
// of the same round.
func measure(ctx context.Context, subjects []subject, m mode, o options) ([]result, error) {
	times := make([][]float64, len(subjects))
	bare := map[string]float64{}
	for round := -1; round < o.rounds; round++ {
		for i, s := range subjects {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			start := time.Now()
			if err := serve(s.handler, o.calls, s.status(m)); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", s.framework, s.limiter, err)
			}
			each := float64(time.Since(start).Nanoseconds()) / float64(o.calls)
			if s.limiter == "" {
				bare[s.framework] = each
			} else {
				each -= bare[s.framework]
			}
			if round >= 0 { // the first one warms up
				times[i] = append(times[i], each)
			}
		}
	}
	results := make([]result, len(subjects))
	for i, s := range subjects {
		slices.Sort(times[i])
		results[i] = result{
			framework: s.framework, limiter: s.limiter,
			low: times[i][len(times[i])/10], median: times[i][len(times[i])/2],
		}
		if err := results[i].count(s, m, o.calls); err != nil {
			return nil, err
		}
	}
	subtractBare(results)
	return results, nil
}

// count counts allocations.
func (r *result) count(s subject, m mode, n int) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := serve(s.handler, n, s.status(m)); err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	r.allocs = float64(after.Mallocs-before.Mallocs) / float64(n)
	r.bytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
	return nil
}

func subtractBare(results []result) {
	bare := map[string]result{}
	for _, r := range results {
		if r.limiter == "" {
			bare[r.framework] = r
		}
	}
	for i := range results {
		if r := &results[i]; r.limiter != "" {
			r.allocs -= bare[r.framework].allocs
			r.bytes -= bare[r.framework].bytes
		}
	}
}
