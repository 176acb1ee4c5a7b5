package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/fallback"
)

// ErrKeysApart is returned for a call on limits that count different keys when
// the client is a redis.Ring. A Ring sends a script where its first key belongs,
// so the other limits would be counted on several shards without any error. Give
// each key a limiter of its own there, or use a Cluster.
var ErrKeysApart = fmt.Errorf("slidegate: a redis.Ring can hold only limiters whose limits count the same key: %w", errors.ErrUnsupported)

// Store keeps the counts in Redis, where all instances of a service share them.
// It is safe for concurrent use, and one Store serves any number of limiters. It
// makes no connection before the first call.
//
// Where Redis gives no answer, the Store answers by the policy of the limiter: see
// package fallback, whose local window and breaker it has, and Status.
type Store struct {
	link     atomic.Pointer[link]
	owned    *clients // the clients, if Open makes them
	log      *slog.Logger
	ring     bool
	front    *fallback.Store // nil with NoFallback
	prober   *prober
	refusals *refusals // nil with NoRefusalCache
	leases   *leases   // nil without Leases
	alone    bool      // with NoBatch
	closed   atomic.Bool
	done     chan struct{} // closed by Close
}

type options struct {
	prefix     string
	log        *slog.Logger
	fallback   fallback.Config
	noFallback bool
	noRefusals bool
	lease      time.Duration // 0 without Leases
	faults     []error
	noBatch    bool
	clock      func() time.Duration // of the refusal cache, for tests
}

// Option is an option of New and Open.
type Option func(*options)

// Prefix is put in front of all keys, with a colon behind it: use it to tell apart
// applications, or stages of one, that share a Redis. The default is "slidegate".
// Control characters, blanks, colons, percent signs and braces are percent-escaped,
// so that the prefix cannot steer where a cluster keeps the keys.
func Prefix(prefix string) Option {
	return func(o *options) { o.prefix = prefix }
}

// Logger gets the warnings about options of the client that hurt a limiter, once
// each. The default is slog.Default().
func Logger(l *slog.Logger) Option {
	return func(o *options) {
		if l != nil {
			o.log = l
		}
	}
}

// New returns a store over a client of go-redis: a *redis.Client to a single
// server or by Sentinel, a *redis.ClusterClient or a *redis.Ring. The client stays
// the caller's, who closes it after the store.
//
// Whatever the options of the client, a call waits no longer than its budget, and
// no script is sent twice but for NOSCRIPT, which says that it has not run. New
// warns about those that hurt in other ways, and refuses none; Open makes a client
// that gives no warning. The error is a FieldError: the client is nil.
func New(client Client, opts ...Option) (*Store, error) {
	if isNil(client) {
		return nil, &FieldError{Field: "client", Value: fmt.Sprintf("%v", client), Problem: "there is none", Remedy: "pass a *redis.Client, *redis.ClusterClient or *redis.Ring, or use Open"}
	}
	return newStore(client, nil, opts...)
}

func newStore(client Client, owned *clients, opts ...Option) (*Store, error) {
	o := options{prefix: "slidegate", log: slog.Default()}
	for _, set := range opts {
		if set != nil {
			set(&o)
		}
	}
	if len(o.faults) > 0 {
		return nil, errors.Join(o.faults...)
	}
	s := &Store{log: o.log, done: make(chan struct{}), ring: kindOf(client) == ring, alone: o.noBatch, owned: owned}
	l := newLink(client, o.prefix, s.done)
	l.heeds = owned != nil && describe(client).heedsDeadlines()
	if !o.noRefusals {
		s.refusals = newRefusals(o.clock)
		if o.lease > 0 {
			s.refusals.life = o.lease // leases of others give units back all the time
		}
		l.gaveBack = s.refusals.forget
	}
	s.use(l)
	if err := s.guard(o); err != nil {
		return nil, err
	}
	if o.lease > 0 {
		s.leases = newLeases(s.query, o.lease, s.leaseHooks())
	}
	for _, w := range warnings(client) {
		s.log.Warn("slidegate: an option of the Redis client hurts a limiter",
			"option", w.Option, "value", w.Value, "problem", w.Problem, "remedy", w.Remedy)
	}
	return s, nil
}

// use has all further calls go by the link.
func (s *Store) use(l *link) {
	if !s.alone {
		l = l.together()
	}
	s.link.Store(l)
}

// isNil reports whether the client is nil, or a nil pointer of go-redis.
func isNil(client Client) bool {
	switch c := client.(type) {
	case nil:
		return true
	case *redis.Client:
		return c == nil
	case *redis.ClusterClient:
		return c == nil
	case *redis.Ring:
		return c == nil
	}
	return false
}

// KeepsBudget says that no call waits longer than its budget.
func (s *Store) KeepsBudget() bool { return true }

// LogsOutages says that the Store logs when Redis fails and answers again, unless
// NoFallback was given.
func (s *Store) LogsOutages() bool { return s.front != nil }

// Do has Redis answer the call: see core.Store. It returns after Call.Budget at
// the latest, if that is above zero, and when ctx ends, whatever the client is
// doing: the command goes on in a goroutine of its own, until the client gives it
// up, and may still be counted, unless it was still waiting to be sent. Units of a reservation that comes too late, or whose
// reply is lost, are given back if Redis answers within some seconds; else they leave
// when it lapses.
//
// It costs one round trip, which it shares with others that wait at the same time: see
// NoBatch. Where limits count different keys in a cluster, it
// costs one to look at all of them in parallel; if all would pass, one for each
// key in turn to reserve, and one to commit.
//
// What Redis has refused is refused again without asking it, until the first unit
// leaves and for a second at most: see NoRefusalCache.
//
// If Redis does not decide, Call.Policy does: see fallback.Store.Do.
//
// Errors: core.ErrClosed, that of ctx, errors.ErrUnsupported, ErrKeysApart, and, where
// nobody decided, a core.StoreError with the failure: in it are
// context.DeadlineExceeded for the budget, and the errors of go-redis. Where a script finds something
// under its keys that it has not written, the error is a redis.Error, most with
// "SLIDEGATE" or "WRONGTYPE" in their text; Reset clears that.
func (s *Store) Do(ctx context.Context, c *core.Call) error {
	if s.closed.Load() {
		return core.ErrClosed
	}
	if len(c.Parts) == 0 && c.Op <= core.OpReset {
		return nil
	}
	if c.Op == opLease {
		return fmt.Errorf("slidegate: redisstore: operation %s: %w", c.Op, errors.ErrUnsupported) // not from outside
	}
	if s.leases != nil && s.leases.spend(c) {
		return nil
	}
	if s.refusals == nil || c.Op == core.OpPeek || c.Op > core.OpReset || !together(c.Parts) {
		return s.ask(ctx, c)
	}
	if givesBack(c.Op) {
		// Before, for whoever asks from now on, and after, for what has been answered
		// meanwhile.
		s.refusals.forget(c)
		defer s.refusals.forget(c)
		return s.ask(ctx, c)
	}
	ticket, known := s.refusals.answer(c)
	if known {
		return ctx.Err()
	}
	err := s.ask(ctx, c)
	if err == nil && c.Failure == core.NoFailure {
		s.refusals.keep(c, ticket)
	}
	return err
}

// ask answers from a lease, or asks.
func (s *Store) ask(ctx context.Context, c *core.Call) error {
	if s.leases != nil {
		return s.leases.Do(ctx, c)
	}
	return s.query(ctx, c)
}

// query asks Redis, or what answers in its place.
func (s *Store) query(ctx context.Context, c *core.Call) error {
	if s.front != nil {
		return s.front.Do(ctx, c)
	}
	return direct{s}.Do(ctx, c)
}

// direct is the Store without a fallback: a call is answered by Redis or not at all.
type direct struct{ *Store }

// Do has Redis answer the call.
func (s direct) Do(ctx context.Context, c *core.Call) error {
	switch {
	case s.closed.Load():
		return core.ErrClosed
	case c.Op > core.OpReset && c.Op != opLease:
		return fmt.Errorf("slidegate: redisstore: operation %s: %w", c.Op, errors.ErrUnsupported)
	case s.ring && !together(c.Parts):
		return ErrKeysApart
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.link.Load().fly(ctx, c)
	if err != nil && s.closed.Load() && ctx.Err() == nil {
		return core.ErrClosed // what was closed under the call
	}
	if err != nil {
		return named(err)
	}
	return nil
}

// Close is for what stands in front: Store.Close closes.
func (direct) Close() error { return nil }

// Close has all further calls return core.ErrClosed, and closes the client if Open
// made it. The counts stay in Redis. It waits for calls that are under way, and for a
// probe, but not longer than a second: they end as their budgets and the client let them.
func (s *Store) Close() error {
	if s.leases != nil {
		s.leases.close() // while Redis can still be told
	}
	if s.closed.Swap(true) {
		return nil
	}
	close(s.done)
	if s.front != nil {
		_ = s.front.Close() // closes memory, and cannot fail
	}
	s.prober.close()
	s.link.Load().busy.wait(patience)
	if s.owned == nil {
		return nil
	}
	if err := s.owned.close(); err != nil {
		return fmt.Errorf("slidegate: close the Redis client: %w", err)
	}
	return nil
}
