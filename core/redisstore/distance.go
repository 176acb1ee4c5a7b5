package redisstore

import "time"

// distance is how long a trip to a server takes when nothing is in its way: the quickest
// of the last 10 to 20 seconds, as BBR finds the round-trip time of a connection
// (https://datatracker.ietf.org/doc/draft-ietf-ccwg-bbr/, section 5.5.7).
type distance struct {
	quickest, before time.Duration // 0 if none was
	period           time.Time
}

const (
	distancePeriod = 10 * time.Second
	// fewTogether is how many flights a trip may carry to tell the distance: with more, it
	// would be their number that it tells.
	fewTogether = 4
	// lineEvery is the distance that one more line per processor is worth, and more than
	// a trip within one machine takes.
	lineEvery = 250 * time.Microsecond
)

func (d *distance) learn(now time.Time, took time.Duration, flights int) {
	if flights > fewTogether || took <= 0 {
		return
	}
	if now.Sub(d.period) > distancePeriod {
		d.before, d.quickest, d.period = d.quickest, 0, now
	}
	if d.quickest == 0 || took < d.quickest {
		d.quickest = took
	}
}

// lines is how many trips may be under way at a time. To a server near by they are as
// many as keep the processors of this process busy, and the server with it: with more,
// less would travel together, and all of it would cost more. See docs/performance.md. The
// farther the server, the longer whoever finds no line waits for one, so the more there
// are, up to the places of the client's pool.
func (r *road) lines() int {
	near := r.distance.quickest
	if b := r.distance.before; b != 0 && (near == 0 || b < near) {
		near = b
	}
	return min(r.least*max(1, int(near/lineEvery)), r.most)
}
