package outages

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

const (
	budget = 100 * time.Millisecond
	window = time.Second
	quota  = 20
	keys   = 8
	// Two workers per policy, each with a pause between requests, leave the two
	// processors of a small machine to the servers.
	workers = 4
	pause   = 4 * time.Millisecond
)

// policies are asked side by side through limiters of one store.
var policies = []core.Policy{core.Local, core.Open, core.Closed}

// sample is one request.
type sample struct {
	policy  core.Policy
	key     int
	began   time.Duration // since the load began
	ended   time.Duration
	status  int
	retry   string
	shared  bool // the store decided
	failure core.Failure
}

func (s *sample) waited() time.Duration { return s.ended - s.began }

// load sends requests until it is stopped.
type load struct {
	began    time.Time
	limiters []*core.Limiter
	each     time.Duration // between two requests of a worker
	shift    time.Duration // from the beginning of all loads to that of this one
	stop     context.CancelFunc
	running  sync.WaitGroup
	mu       sync.Mutex
	samples  []sample
	late     lateness
	// lastShared is when the store decided last, and how often it has, for those who
	// wait for it.
	shared atomic.Int64
}

func newLimiters(t testing.TB, store core.Store, log *slog.Logger) (all []*core.Limiter) {
	t.Helper()
	for _, p := range policies {
		l, err := core.New(core.Config{
			Name: "outage-" + p.String(), Limits: []core.Limit{core.Per(quota, window)}, Store: store, OnFailure: p, Budget: budget,
			Key: keyfunc.Required(keyfunc.ByHeader("X-User")), Logger: log,
		})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// startLoad has n workers per limiter send requests.
func startLoad(limiters []*core.Limiter, n int) *load {
	ctx, stop := context.WithCancel(context.Background())
	l := &load{began: time.Now(), limiters: limiters, stop: stop, each: pause}
	l.running.Go(func() { l.late.watch(ctx, l.began) })
	for _, lim := range limiters {
		for w := range n {
			l.running.Go(func() { l.work(ctx, lim, uint64(w)) })
		}
	}
	return l
}

func (l *load) work(ctx context.Context, lim *core.Limiter, seed uint64) {
	random := rand.New(rand.NewPCG(seed, uint64(len(lim.Name()))))
	var mine []sample
	for ctx.Err() == nil {
		mine = append(mine, l.request(lim, random.IntN(keys)))
		// What is refused may be known from before.
		if s := &mine[len(mine)-1]; s.shared && s.status == http.StatusOK {
			l.shared.Add(1)
		}
		time.Sleep(l.each/2 + time.Duration(random.Int64N(int64(l.each))))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.samples = append(l.samples, mine...)
}

// request sends one request through the way that all adapters take.
func (l *load) request(lim *core.Limiter, key int) sample {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-User", fmt.Sprintf("user-%d", key))
	w := httptest.NewRecorder()
	s := sample{key: key, began: time.Since(l.began)}
	v := lim.Admit(w.Header(), keyfunc.NewRequest(r, nil, nil))
	s.ended = time.Since(l.began)
	s.failure = v.Decision.Failure()
	s.shared = v.Err == nil && s.failure == core.NoFailure
	s.status = http.StatusOK
	if !v.Proceed() {
		lim.Refuse(w, r, v)
		s.status, s.retry = w.Code, w.Header().Get("Retry-After")
	}
	s.policy = policyOf(lim)
	return s
}

func policyOf(lim *core.Limiter) core.Policy {
	for _, p := range policies {
		if strings.HasSuffix(lim.Name(), "-"+p.String()) {
			return p
		}
	}
	panic("no policy in " + lim.Name())
}

// end stops the load and returns all requests in the order of their beginnings.
func (l *load) end() []sample {
	l.stop()
	l.running.Wait()
	byBeginning(l.samples)
	return l.samples
}

func byBeginning(all []sample) {
	slices.SortFunc(all, func(a, b sample) int { return int(a.began - b.began) })
}

// waitShared returns when the store has decided once more, and false after a while.
func (l *load) waitShared(patience time.Duration) (time.Time, bool) {
	before := l.shared.Load()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if l.shared.Load() > before {
			return time.Now(), true
		}
	}
	return time.Time{}, false
}

// lateness is how much too late timers of this process fire, in slices of time: what
// the machine adds to any wait.
type lateness struct {
	mu   sync.Mutex
	most []time.Duration
}

const slice = 250 * time.Millisecond

func (l *lateness) watch(ctx context.Context, began time.Time) {
	for ctx.Err() == nil {
		start := time.Now()
		time.Sleep(time.Millisecond)
		l.add(start.Sub(began), time.Since(began), time.Since(start)-time.Millisecond)
	}
}

func (l *lateness) add(from, to, late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := int(from / slice); i <= int(to/slice); i++ {
		for len(l.most) <= i {
			l.most = append(l.most, 0)
		}
		l.most[i] = max(l.most[i], late)
	}
}

// during returns the worst lateness in a stretch of time, and a slice around it.
func (l *lateness) during(from, to time.Duration) (worst time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := max(int(from/slice)-1, 0); i <= int(to/slice)+1 && i < len(l.most); i++ {
		worst = max(worst, l.most[i])
	}
	return worst
}

// fullest returns the most requests of a key that passed in one window for certain:
// that began and ended within less than a window.
func fullest(samples []sample, p core.Policy) (most int) {
	for key := range keys {
		var passed []sample
		for _, s := range samples {
			if s.policy == p && s.key == key && s.status == http.StatusOK {
				passed = append(passed, s)
			}
		}
		for i := range passed {
			n := 0
			for j := i; j < len(passed) && passed[j].began < passed[i].began+window; j++ {
				if passed[j].ended < passed[i].began+window {
					n++
				}
			}
			most = max(most, n)
		}
	}
	return most
}

// lines counts log lines, and keeps the first.
type lines struct {
	mu  sync.Mutex
	n   int
	all []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n++; len(l.all) < 60 {
		l.all = append(l.all, strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

// Printf takes go-redis's lines.
func (l *lines) Printf(_ context.Context, format string, v ...any) {
	_, _ = l.Write(fmt.Appendf(nil, format, v...))
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}
