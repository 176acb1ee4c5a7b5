package redisstore

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// road leads to one server. Flights that wait for it together travel together: one sets
// off at once while fewer trips are under way than there are lines, and when all are
// taken, it waits for the first to come back, which takes all that have gathered
// meanwhile. No timer delays anything, and a call that comes alone goes alone.
type road struct {
	link   *link
	client *redis.Client
	least  int // of lines
	most   int // of lines: the places of the client's pool

	mu          sync.Mutex
	distance    distance
	under       []*trip // but for those that are late
	first, last *flight // the queue
	length      int

	// gone says that the server was not reached, or not as the one that has the keys:
	// the client of the cluster has to find it anew.
	gone atomic.Bool
}

// trip is one goroutine's way to the server and back, with one flight or many.
type trip struct {
	began   time.Time // when its first flight did
	sent    time.Time
	late    bool // no longer counted: its flights have given up
	flights []*flight
	bundles []*bundle
	spare   []*bundle // of earlier trips
	found   map[counted]*bundle
}

// mostTogether bounds the flights of a trip: with 15 µs of Redis for a script it is back
// after some milliseconds, even if each has a key of its own.
const mostTogether = 256

func newRoad(l *link, client *redis.Client) *road {
	return &road{link: l, client: client, least: 2 * runtime.GOMAXPROCS(0), most: max(1, client.Options().PoolSize)}
}

// submit has the flight carried, and reports whether it has been: it waits for that only
// if the trip is the flight's own and short.
func (r *road) submit(f *flight) (carried bool) {
	f.road = r
	r.mu.Lock()
	if len(r.under) >= r.lines() {
		r.enqueue(f)
		r.mu.Unlock()
		return false
	}
	t := &trip{began: f.began, sent: f.began}
	t.flights = append(t.flights, f)
	r.under = append(r.under, t)
	r.mu.Unlock()
	if !r.short(f) {
		r.link.busy.Go(func() { r.drive(t) })
		return false
	}
	r.link.busy.begin()
	defer r.link.busy.end()
	r.carry(t)
	if r.load(t) {
		r.link.busy.Go(func() { r.drive(t) })
	}
	return true
}

// short reports whether the flight's caller may make the trip itself, which spares it two
// changes of goroutines, a third of the time of a call where processors are few. It
// cannot leave then when its context is cancelled, only when its time is up, for which a
// client of Open's sees to; so that has to be soon.
func (r *road) short(f *flight) bool {
	return r.link.heeds && !f.until.IsZero() && f.until.Sub(f.began) <= patience
}

func (r *road) enqueue(f *flight) {
	if r.last == nil {
		r.first = f
	} else {
		r.last.next = f
	}
	r.last = f
	r.length++
}

// drive makes trips until nobody waits for one.
func (r *road) drive(t *trip) {
	for {
		r.carry(t)
		if len(t.flights) > 1 {
			// Whoever has an answer now may ask again at once, and would set off alone. Here
			// they run before this goroutine goes on, and travel together again: with 64
			// callers of one key 15 instead of 11 share a script.
			runtime.Gosched()
		}
		if !r.load(t) {
			return
		}
	}
}

// load has the trip begin anew with those who wait, and reports whether there are any.
func (r *road) load(t *trip) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.distance.learn(now, now.Sub(t.sent), len(t.flights))
	t.sent = now
	if t.late {
		return false // another has taken its place
	}
	r.board(t)
	if len(t.flights) > 0 {
		return true
	}
	r.remove(t)
	return false
}

// board puts those who wait on the trip, but for those who have given up.
func (r *road) board(t *trip) {
	t.flights = t.flights[:0]
	for r.first != nil && len(t.flights) < mostTogether {
		f := r.first
		r.first, f.next = f.next, nil
		if r.first == nil {
			r.last = nil
		}
		r.length--
		if f.state.Load() == abandoned {
			f.recycle()
			continue
		}
		t.flights = append(t.flights, f)
	}
	if len(t.flights) > 0 {
		t.began = t.flights[0].began
	}
}

func (r *road) remove(t *trip) {
	for i, other := range r.under {
		if other == t {
			last := len(r.under) - 1
			r.under[i] = r.under[last]
			r.under[last] = nil
			r.under = r.under[:last]
			return
		}
	}
}

// writeOff is called by a flight that began at an instant and has waited as long as its
// budget: trips that have been under way for as long may never come back, whatever other
// connections do, and must not keep those who wait now.
func (r *road) writeOff(began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 0; i < len(r.under); {
		t := r.under[i]
		if t.began.After(began) {
			i++
			continue
		}
		t.late = true
		r.remove(t)
	}
	for r.first != nil && len(r.under) < r.lines() {
		t := &trip{sent: time.Now()}
		if r.board(t); len(t.flights) == 0 {
			return
		}
		r.under = append(r.under, t)
		r.link.busy.Go(func() { r.drive(t) })
	}
}

// context returns the context of a trip: with the values of the first flight's caller,
// and with the time of the flight that has most. Each caller keeps its own budget by
// itself.
func (t *trip) context() (context.Context, context.CancelFunc) {
	until := t.flights[0].until
	for _, f := range t.flights {
		if f.until.IsZero() {
			until = f.until
			break
		}
		if f.until.After(until) {
			until = f.until
		}
	}
	return endingAt(context.WithoutCancel(t.flights[0].ctx), until)
}
