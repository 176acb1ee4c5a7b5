package outages

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// scene is Redis in one form, and a way to break it.
type scene struct {
	url   string
	proxy *redistest.Proxy // in front of it, or nil
	// fresh is a call of a client that was made for it, and that writes.
	fresh func(ctx context.Context) error
	// fault breaks it. What it takes to do so is part of the outage.
	fault func() error
	lasts time.Duration
	heal  func() error

	absent bool // the load begins after the fault
	loses  bool // the counts may be lost, and be admitted once more
	// failures are those that may be seen; with none the store has to decide throughout.
	failures []core.Failure
	callers  int // workers per policy, if not the usual number
	// always says that the fault fails every call, so that the breaker opens.
	always bool
}

// report is what became of a row.
type report struct {
	name        string
	requests    int
	p50, p99    time.Duration
	most, late  time.Duration
	statuses    string
	decided     string // by whom
	fullest     string
	back        string
	log, driver int
	goroutines  string
	accepted    string
	fresh       int // clients of the test's own
}

var header = []string{"row", "requests", "p50", "p99", "max", "timer", "statuses: local | open | closed", "not decided by Redis", "fullest: local, closed", "back after", "log, go-redis", "goroutines", "connections"}

func (r *report) cells() []string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)) }
	return []string{
		r.name, fmt.Sprint(r.requests), ms(r.p50), ms(r.p99), ms(r.most), ms(r.late), r.statuses, r.decided, r.fullest, r.back,
		fmt.Sprintf("%d, %d", r.log, r.driver), r.goroutines, r.accepted,
	}
}

// TestOutages runs the rows one after another, since they measure time, and prints
// them as one table.
func TestOutages(t *testing.T) {
	redistest.Need(t) // skips without a redis-server
	driver := new(lines)
	redis.SetLogger(driver)
	all := os.Getenv("SLIDEGATE_OUTAGES") == "all"
	var reports []*report
	for _, row := range rows {
		if !all && !row.always {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			r := run(t, row.start(t), driver)
			r.name = row.name
			reports = append(reports, r)
		})
	}
	if !all {
		t.Logf("%d of %d rows; SLIDEGATE_OUTAGES=all runs the others", len(reports), len(rows))
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, r := range reports {
		fmt.Fprintln(w, strings.Join(r.cells(), "\t"))
	}
	_ = w.Flush()
	t.Logf("times in ms\n%s", &b)
}

const (
	before = 700 * time.Millisecond
	after  = 1300 * time.Millisecond
)

// run plays one row: load, fault, healing, and load again.
func run(t *testing.T, sc *scene, driver *lines) *report {
	t.Helper()
	log, driverLines := new(lines), driver.count()
	goroutines := runtime.NumGoroutine()
	if sc.absent {
		if err := sc.fault(); err != nil {
			t.Fatal(err)
		}
	}
	store, err := redisstore.Open(sc.url, redisstore.Logger(slog.New(slog.NewTextHandler(log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	l := startLoad(newLimiters(t, store, slog.New(slog.NewTextHandler(log, nil))), max(sc.callers, workers))
	defer l.end()
	r := &report{}
	if !sc.absent {
		time.Sleep(before)
		if err := sc.fault(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(min(sc.lasts, 500*time.Millisecond))
	accepted := acceptedBy(sc.proxy)
	time.Sleep(max(sc.lasts-500*time.Millisecond, 0))
	r.probes(t, sc, accepted)
	if sc.heal != nil {
		if err := sc.heal(); err != nil {
			t.Fatal(err)
		}
	}
	accepted = acceptedBy(sc.proxy)
	r.recovery(t, sc, l)
	time.Sleep(after)
	if sc.proxy != nil {
		storm := acceptedBy(sc.proxy) - accepted
		r.accepted += fmt.Sprintf(", %d back", storm)
		if storm > 60 { // the places of a pool, and fresh clients
			t.Errorf("%d connections after healing", storm)
		}
	}
	samples := l.end()
	for end := time.Now().Add(6 * time.Second); !store.Status().Healthy && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond) // the prober says so without any call
	}
	if st := store.Status(); len(sc.failures) > 0 && !st.Healthy {
		t.Errorf("not healthy: %+v", st)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	r.judge(t, sc, samples, &l.late)
	r.leftovers(t, goroutines)
	r.log, r.driver = log.count(), driver.count()-driverLines
	r.judgeLog(t, sc, log)
	if t.Failed() {
		t.Logf("log:\n%s\ngo-redis, since its beginning:\n%s", log, driver)
	}
	return r
}

func acceptedBy(p *redistest.Proxy) int64 {
	if p == nil {
		return 0
	}
	return p.Accepted()
}

// probes judges what Redis sees while it is down: one probe at a time, and no more
// than one in an interval.
func (r *report) probes(t *testing.T, sc *scene, accepted int64) {
	t.Helper()
	if sc.proxy == nil {
		r.accepted = "-"
		return
	}
	n := acceptedBy(sc.proxy) - accepted
	r.accepted = fmt.Sprintf("%d down", n)
	// From half a second on the waits are at least a quarter of a second; go-redis may
	// dial once more for a call that was given up.
	if most := int64((sc.lasts-500*time.Millisecond)/(200*time.Millisecond)) + 4; sc.always && n > most {
		t.Errorf("%d connections in %v of outage, more than %d", n, sc.lasts-500*time.Millisecond, most)
	}
}

// recovery measures how long after a fresh client's first success the store decides.
func (r *report) recovery(t *testing.T, sc *scene, l *load) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	for {
		r.fresh++
		if err := sc.fresh(ctx); err == nil {
			break
		} else if ctx.Err() != nil {
			t.Fatalf("Redis does not come back: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	works := time.Now()
	decided, ok := l.waitShared(5 * time.Second)
	if !ok {
		t.Error("the store does not decide again")
		return
	}
	r.back = fmt.Sprintf("%.0f", float64(decided.Sub(works))/float64(time.Millisecond))
	if d := decided.Sub(works); d > time.Second {
		t.Errorf("the store decides again only %v after a fresh client", d)
	}
}

// judge judges what the callers saw.
func (r *report) judge(t *testing.T, sc *scene, samples []sample, late *lateness) {
	t.Helper()
	r.requests = len(samples)
	waits := make([]time.Duration, len(samples))
	slow, undecided, wrong := 0, 0, 0
	statuses := map[core.Policy]map[int]int{core.Local: {}, core.Open: {}, core.Closed: {}}
	failures := map[core.Failure]int{}
	for i := range samples {
		s := &samples[i]
		waits[i] = s.waited()
		over := s.waited() - budget - late.during(s.began, s.ended)
		if over > 50*time.Millisecond {
			slow++
		}
		if over > 250*time.Millisecond {
			t.Errorf("a request waited %v, with timers up to %v late", s.waited(), late.during(s.began, s.ended))
		}
		statuses[s.policy][s.status]++
		if s.failure != core.NoFailure {
			failures[s.failure]++
			undecided++
		}
		if !rightStatus(s) {
			if wrong++; wrong < 5 {
				t.Errorf("%v: status %d, Retry-After %q, failure %v", s.policy, s.status, s.retry, s.failure)
			}
		}
	}
	if slow*10_000 > len(samples) && slow > 1 {
		t.Errorf("%d of %d requests waited longer than the budget and 50ms", slow, len(samples))
	}
	slices.Sort(waits)
	r.p50, r.p99, r.most = waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1]
	r.late = late.during(0, time.Hour)
	r.statuses = fmt.Sprintf("%s | %s | %s", told(statuses[core.Local]), told(statuses[core.Open]), told(statuses[core.Closed]))
	r.decided = told(failures)
	r.judgeFailures(t, sc, failures)
	r.judgeFullest(t, sc, samples)
}

// rightStatus reports whether a request was answered as its policy wants.
func rightStatus(s *sample) bool {
	switch s.status {
	case http.StatusOK:
		return true
	case http.StatusTooManyRequests:
		return s.retry == "1" && (s.failure == core.NoFailure || s.policy == core.Local)
	case http.StatusServiceUnavailable:
		return s.policy == core.Closed && s.failure != core.NoFailure && s.retry == ""
	}
	return false
}

func (r *report) judgeFailures(t *testing.T, sc *scene, failures map[core.Failure]int) {
	t.Helper()
	for f, n := range failures {
		if !slices.Contains(sc.failures, f) {
			t.Errorf("%d requests failed as %v, want only %v", n, f, sc.failures)
		}
	}
	if sc.always && len(failures) == 0 {
		t.Error("the fault was not noticed")
	}
}

func (r *report) judgeFullest(t *testing.T, sc *scene, samples []sample) {
	t.Helper()
	local, closed := fullest(samples, core.Local), fullest(samples, core.Closed)
	mostLocal, mostClosed := 2*quota, quota
	if sc.loses {
		mostLocal, mostClosed = mostLocal+quota, mostClosed+quota
	}
	r.fullest = fmt.Sprintf("%d ≤ %d, %d ≤ %d", local, mostLocal, closed, mostClosed)
	if local > mostLocal || closed > mostClosed {
		t.Errorf("a window holds too much: %s", r.fullest)
	}
	if local < quota || closed < quota {
		t.Errorf("too little load to fill a window: %s", r.fullest)
	}
}

// leftovers waits for what the store has started to end.
func (r *report) leftovers(t *testing.T, goroutines int) {
	t.Helper()
	now := 0
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if now = runtime.NumGoroutine(); now <= goroutines {
			break
		}
	}
	r.goroutines = fmt.Sprintf("%d, then %d", goroutines, now)
	if now > goroutines+2 { // a proxy may still notice ends
		var stacks [1 << 16]byte
		t.Errorf("%d goroutines are left of %d\n%s", now, goroutines, stacks[:runtime.Stack(stacks[:], true)])
	}
}

// judgeLog bounds the lines: a beginning and an end for each change, of outages and of
// faults.
func (r *report) judgeLog(t *testing.T, sc *scene, log *lines) {
	t.Helper()
	if r.log > 6 || sc.always && r.log < 2 {
		t.Errorf("%d lines:\n%s", r.log, log)
	}
	// A line for each dial that failed of the calls under way when it began, and of the
	// probes; a few for each of the test's clients.
	if most := 70 + 4*r.fresh; r.driver > most {
		t.Errorf("%d lines of go-redis, more than %d", r.driver, most)
	}
}

// told prints counts in the order of their keys.
func told[K interface {
	~int | ~uint8
}](counts map[K]int) string {
	var all []K
	for k := range counts {
		all = append(all, k)
	}
	slices.Sort(all)
	var b strings.Builder
	for _, k := range all {
		fmt.Fprintf(&b, " %v %d", any(k), counts[k])
	}
	if b.Len() == 0 {
		return "-"
	}
	return b.String()[1:]
}
