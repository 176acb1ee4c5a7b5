package redisstore

import (
	"time"

	"github.com/slidegate/slidegate/core/fallback"
)

// Replicas tells how many instances share the limits: while Redis is down, the local
// window of each admits its part of N, and at least 1. The default is 1: then each
// instance admits up to N by itself. See fallback.Config.
func Replicas(n int) Option { return func(o *options) { o.fallback.Replicas = n } }

// Share is Replicas for a number of instances that changes: f returns the part of N
// that this instance admits while Redis is down, above 0 up to 1.
func Share(f func() float64) Option { return func(o *options) { o.fallback.Share = f } }

// Cold has the local window not count while Redis answers, which saves about a third of a
// microsecond per call and the memory of the keys. An outage then begins with a fresh
// local quota.
func Cold() Option { return func(o *options) { o.fallback.Cold = true } }

// NoFallback leaves out the local window, the breaker and the log lines about outages:
// each call waits for Redis as long as its budget, and is an error if there is no
// answer. It is for those who put a fallback.Store of their own in front.
func NoFallback() Option { return func(o *options) { o.noFallback = true } }

// NoRefusalCache has each call ask Redis. Without it, an instance remembers that a limit
// is full, until the first unit leaves and for a second at most: then who is refused and
// goes on asking costs Redis one call per second and instance, and one for each unit
// that leaves. A reset, a cancelled reservation, a raised limit or a step of Redis's
// clock that comes from elsewhere is seen within that second; what this instance does,
// at once. The announced instant is the same. Refusals of a cost that is greater than
// what is left are not remembered, nor those of limiters whose limits count different
// keys.
func NoRefusalCache() Option { return func(o *options) { o.noRefusals = true } }

// NoBatch has each call go to Redis by itself. Without it a call goes out at once too
// while fewer than 2 × GOMAXPROCS are under way to the same server (or as many as the
// client's pool has places, if those are fewer). When all are, it waits for the first
// to come back, and goes with all others that have gathered meanwhile: in one pipeline,
// and those about the same limits and key in one script call, in their order. No timer is
// involved, contexts and budgets are kept for each call, and what happens to one call does
// not happen to the others of its batch. Calls through a redis.Ring, through a client that
// wraps another, and on limits that count different keys in a cluster go by themselves.
func NoBatch() Option { return func(o *options) { o.noBatch = true } }

// Leases has this instance take units in advance where a key is busy, and admit from them
// without asking Redis: for limits of many thousand units per second. No window holds
// more than N all the same, on any number of instances: see docs/leases.md, also for what
// it costs: requests can be refused earlier than they had to be.
//
// A lease lasts as long as d, 1ms to 1s, but at most a twentieth of the limit's window; 0
// stands for 50ms.
func Leases(d time.Duration) Option {
	return func(o *options) {
		length, err := leaseLength(d)
		if err != nil {
			o.faults = append(o.faults, err)
		}
		o.lease = length
	}
}

// leaseHooks have the local window count what leases admit, and the refusal cache forget
// what they free.
func (s *Store) leaseHooks() (h leaseHooks) {
	if s.front != nil {
		h.spent = s.front.Count
	}
	if s.refusals != nil {
		h.freed = s.refusals.forget
	}
	return h
}

// Status tells whether Redis answers, for health checks and metrics; see
// fallback.Store.Status. With NoFallback it knows nothing, and says that it does.
func (s *Store) Status() fallback.Status {
	if s.front == nil {
		return fallback.Status{Healthy: true}
	}
	return s.front.Status()
}

// guard puts the fallback in front.
func (s *Store) guard(o options) (err error) {
	if o.noFallback {
		return nil
	}
	l := s.link.Load()
	s.prober = &prober{store: s, fresh: likeClient(l.client)}
	o.fallback.Probe, o.fallback.Logger = s.prober.probe, o.log
	if kindOf(l.client) == cluster {
		o.fallback.Lanes = lanes
	}
	s.front, err = fallback.New(direct{s}, o.fallback)
	return err
}
