package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/keyfunc"
)

// Limiter decides requests against its limits. All its methods may be called by
// many goroutines at once. Make one with New.
type Limiter struct {
	cfg    Config
	limits []limitSpec
	store  Store
	owned  bool // the store is the limiter's own, and Close closes it
	timed  bool // the store keeps the budget by itself
	silent bool // the store logs its outages by itself
	sealer *keyfunc.Sealer
	byPeer keyfunc.Func
	log    *slog.Logger

	policies string   // RateLimit-Policy of Draft08 and Draft12, while quotas are as configured
	quotas   []string // that of Draft06 and Draft07, by the limit shown
	room     int      // how many header values the dialects write
	foreign  []string // headers that tell of use, in dialects that the limiter does not write
	marks    []string // headers by which a response shows who wrote it: see wroteHeaders

	calls  sync.Pool // of *Call, with room for all limits
	queues turns     // who waits, by key
	health health
	notice notices
}

// limitSpec is a limit as the hot path needs it.
type limitSpec struct {
	Limit
	name    string
	policy  string // the name in lists of limits: see LimitState.Policy
	counter *Counter
	hotFrom int64
	header  string // N in decimal
}

const defaultName = "default"

// newLimitSpec prepares a limit of cfg for the hot path.
func newLimitSpec(cfg *Config, limit Limit) limitSpec {
	s := limitSpec{
		Limit:   limit,
		name:    limit.Name(),
		policy:  limit.Name(),
		counter: NewCounter(cfg.Name, limit.Name(), limit.window, limit.algorithm, limit.slots),
		hotFrom: limit.hotFrom(),
		// A string of its own, by whose address a response shows who wrote it
		// (see wroteHeaders); strconv shares those of small numbers.
		header: strings.Clone(strconv.FormatInt(limit.n, 10)),
	}
	if limit.name == "" && len(cfg.Limits) == 1 {
		s.policy = cfg.Name
	}
	return s
}

// prepareHeaders makes what the headers of all responses have in common.
func (l *Limiter) prepareHeaders() {
	states := make([]LimitState, len(l.limits))
	for i := range l.limits {
		states[i] = LimitState{N: l.limits[i].n, limit: &l.limits[i]}
	}
	l.policies = policyList(states)
	l.quotas = make([]string, len(states))
	for i := range states {
		l.quotas[i] = quotaList(states, i)
	}
	for _, d := range l.cfg.Headers {
		l.room += dialects[d].fields
		if mark := dialects[d].mark; mark != "" && !slices.Contains(l.marks, mark) {
			l.marks = append(l.marks, mark)
		}
	}
	for _, name := range usageHeaders {
		if !slices.ContainsFunc(l.cfg.Headers, func(d Dialect) bool { return slices.Contains(dialects[d].usage, name) }) {
			l.foreign = append(l.foreign, name)
		}
	}
}

// newLimiter builds the limiter of a configuration that was checked.
func newLimiter(cfg Config) *Limiter {
	cfg.Limits = slices.Clone(cfg.Limits)
	cfg.Headers = slices.Clone(cfg.Headers)
	if cfg.Name == "" {
		cfg.Name = defaultName
	}
	if cfg.Budget == 0 {
		cfg.Budget = DefaultBudget
	}
	if cfg.Headers == nil {
		cfg.Headers = []Dialect{XRateLimit}
	}
	l := &Limiter{cfg: cfg, store: cfg.Store, byPeer: keyfunc.ByIP(), log: cfg.Logger, health: health{began: time.Now()}}
	if l.log == nil {
		l.log = slog.Default()
	}
	for _, limit := range cfg.Limits {
		l.limits = append(l.limits, newLimitSpec(&cfg, limit))
	}
	l.prepareHeaders()
	if len(cfg.Secret) > 0 {
		l.sealer, _ = keyfunc.NewSealer(cfg.Secret) // check has found the secret long enough
		l.cfg.Secret = nil                          // nobody who prints the limiter shall see it
	}
	if l.store == nil {
		m, _ := NewMemory(MemoryConfig{}) // the zero configuration is sound
		l.store, l.owned = m, true
	}
	b, ok := l.store.(Budgeted)
	l.timed = ok && b.KeepsBudget()
	g, ok := l.store.(Guarded)
	l.silent = ok && g.LogsOutages()
	l.calls.New = l.newCall
	l.notice.watch(cfg)
	return l
}

// Name returns the limiter's name.
func (l *Limiter) Name() string { return l.cfg.Name }

// Limits returns the limiter's limits in their order.
func (l *Limiter) Limits() []Limit { return slices.Clone(l.cfg.Limits) }

// Close frees the limiter's own store, if New made one; a store that was given
// stays open. After Close the limiter decides nothing: its methods return
// ErrClosed where the store was its own. It may be called more than once.
func (l *Limiter) Close() error {
	if l.owned {
		return l.store.Close()
	}
	return nil
}

// LimitKey is the key of one limit that has a key of its own. See ForLimit.
type LimitKey struct {
	Limit string
	Key   keyfunc.Key
}

// ForLimit gives the limit of that name its key, in calls outside HTTP.
func ForLimit(limit string, key keyfunc.Key) LimitKey { return LimitKey{limit, key} }

// Allow takes one unit for key if every limit has room for it. Limits with keys
// of their own need theirs in own; a missing or unknown one is an error before
// the store is asked. A refusal is a Decision, not an error. An error means that
// no decision was made: a fault in the arguments (*FieldError,
// *keyfunc.MissingError), the end of ctx, a store that gave no answer, ErrClosed.
//
// With the default store and up to four limits, a call allocates nothing once its
// key is known, but for what a log grows by, and takes well below a microsecond.
func (l *Limiter) Allow(ctx context.Context, key keyfunc.Key, own ...LimitKey) (Decision, error) {
	return l.ask(ctx, OpTake, 1, key, own)
}

// AllowN is Allow for a cost of n units, 1 to MaxUnits: all or none. A cost
// above the N of a limit never passes (Decision.Reason is NeverFits).
func (l *Limiter) AllowN(ctx context.Context, key keyfunc.Key, n int64, own ...LimitKey) (Decision, error) {
	return l.ask(ctx, OpTake, n, key, own)
}

// Peek tells what Allow would decide, and counts nothing.
func (l *Limiter) Peek(ctx context.Context, key keyfunc.Key, own ...LimitKey) (Decision, error) {
	return l.ask(ctx, OpPeek, 1, key, own)
}

// PeekN tells what AllowN would decide, and counts nothing.
func (l *Limiter) PeekN(ctx context.Context, key keyfunc.Key, n int64, own ...LimitKey) (Decision, error) {
	return l.ask(ctx, OpPeek, n, key, own)
}

// Reset forgets what was counted for key, reservations included, in all limits.
// A key that a full Memory counts together with others stays counted; the error
// is then ErrShared.
func (l *Limiter) Reset(ctx context.Context, key keyfunc.Key, own ...LimitKey) error {
	c := l.call(OpReset, 1)
	defer l.calls.Put(c)
	if err := l.address(c, key, own); err != nil {
		return err
	}
	if err := l.do(ctx, c); err != nil {
		return err
	}
	for i := range c.Parts {
		if !c.Parts[i].Done {
			return ErrShared
		}
	}
	return nil
}

// ask has the store decide a call of code outside HTTP.
func (l *Limiter) ask(ctx context.Context, op Op, cost int64, key keyfunc.Key, own []LimitKey) (d Decision, err error) {
	c := l.call(op, cost)
	if err = l.address(c, key, own); err == nil {
		err = l.decide(ctx, c, &d)
	}
	l.calls.Put(c)
	return d, err
}

// newCall makes a call for the pool.
func (l *Limiter) newCall() any {
	c := &Call{Parts: make([]Part, len(l.limits))}
	for i := range c.Parts {
		c.Parts[i].Counter = l.limits[i].counter
	}
	return c
}

// call returns a call that asks for cost units of each limit, and lacks their keys. The
// fields are set one by one: a struct set whole costs the write barriers of its pointers,
// and the hot path some 30 ns.
func (l *Limiter) call(op Op, cost int64) *Call {
	c := l.calls.Get().(*Call)
	c.Op, c.ID, c.Policy, c.Budget, c.Failure = op, ReservationID{}, l.cfg.OnFailure, l.cfg.Budget, NoFailure
	for i := range c.Parts {
		s, p := &l.limits[i], &c.Parts[i]
		p.N, p.HotFrom, p.Cost, p.Watched, p.Reserved, p.ReservedAt = s.n, s.hotFrom, cost, false, 0, 0
		p.At, p.Used, p.OldestLeaves, p.FitsAt, p.Done = 0, 0, 0, 0, false
	}
	return c
}

// address gives the parts of c their keys.
func (l *Limiter) address(c *Call, key keyfunc.Key, own []LimitKey) error {
	if len(own) > 0 {
		if err := l.checkOwn(own); err != nil {
			return err
		}
	}
	for i := range c.Parts {
		s, p := &l.limits[i], &c.Parts[i]
		if p.Key = key; s.key != nil {
			p.Key = keyFor(s.name, own)
		}
		if p.Key.IsZero() {
			return missingKey(s)
		}
		l.seal(&p.Key)
	}
	return nil
}

func keyFor(limit string, own []LimitKey) keyfunc.Key {
	for i := range own {
		if own[i].Limit == limit {
			return own[i].Key
		}
	}
	return keyfunc.Key{}
}

func missingKey(s *limitSpec) error {
	if s.key == nil {
		return &keyfunc.MissingError{What: "a key (the one given is empty)"}
	}
	return &keyfunc.MissingError{What: fmt.Sprintf("the key of limit %q: pass core.ForLimit(%[1]q, key)", s.name)}
}

// checkOwn finds keys for limits that do not exist, have no key of their own, or
// were given one already: a slip of the pen that would count somebody else.
func (l *Limiter) checkOwn(own []LimitKey) error {
	for i, o := range own {
		bad := func(problem, remedy string) error {
			return &FieldError{Field: "ForLimit", Value: o.Limit, Problem: problem, Remedy: remedy}
		}
		k := slices.IndexFunc(l.limits, func(s limitSpec) bool { return s.name == o.Limit })
		switch {
		case k < 0:
			return bad("the limiter has no such limit", "use the name of one of its limits")
		case l.limits[k].key == nil:
			return bad("the limit has no key of its own", "leave it out, or give the limit one with Limit.Key")
		case slices.ContainsFunc(own[:i], func(before LimitKey) bool { return before.Limit == o.Limit }):
			return bad("the limit is given two keys", "give it one")
		}
	}
	return nil
}

func (l *Limiter) seal(k *keyfunc.Key) {
	if l.sealer != nil {
		*k = l.sealer.Seal(*k)
	}
}

// decide has the store answer c and reads the answer into d. Where the store
// gives none and the policy is Open, it lets the request pass.
func (l *Limiter) decide(ctx context.Context, c *Call, d *Decision) error {
	cost := c.Parts[0].Cost
	d.Cost = cost
	if cost > MaxUnits {
		return fmt.Errorf("%w: %w", ErrNeverFits, badCost(cost))
	}
	if cost < 1 {
		return badCost(cost)
	}
	err := l.do(ctx, c)
	if err == nil {
		d.read(l, c)
		return nil
	}
	*d = Decision{Reason: Undecided, Cost: cost, limiter: l, failure: failureOf(err)}
	if c.Policy == Open && c.Op != OpPeek && errors.Is(err, ErrNoDecision) {
		d.Allowed = true
		return nil
	}
	return err
}

// failureOf returns the failure of the store, if it was asked and has failed.
func failureOf(err error) Failure {
	if !errors.Is(err, ErrNoDecision) {
		return NoFailure
	}
	return FailureOf(err)
}

func badCost(cost int64) error {
	return &FieldError{Field: "cost", Value: strconv.FormatInt(cost, 10), Problem: "not a cost", Remedy: "use 1 to 999999999999999; to look without taking, use Peek"}
}

// do has the store answer c. The error is that of ctx, ErrClosed, or one in
// which ErrNoDecision is.
func (l *Limiter) do(ctx context.Context, c *Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := l.bounded(ctx, c)
	switch {
	case err == nil:
		l.health.answered(l)
		return nil
	case ctx.Err() != nil:
		// The caller went away. That says nothing about the store.
		return ctx.Err()
	case errors.Is(err, ErrClosed):
		// Closed on purpose: no failure, and no policy for it.
		return err
	}
	return l.noDecision(err)
}

// bounded has the store answer c within the budget.
func (l *Limiter) bounded(ctx context.Context, c *Call) error {
	if l.timed {
		return l.store.Do(ctx, c)
	}
	ctx, stop := context.WithTimeout(ctx, c.Budget)
	defer stop()
	return l.store.Do(ctx, c)
}

// noDecision takes down that the store gave none, and why.
func (l *Limiter) noDecision(err error) error {
	l.health.failed(l, err)
	return fmt.Errorf("%w: %w", ErrNoDecision, err)
}

// health logs when the store stops and starts to answer: once per change, not
// once per request.
//
// A store that answers now and then is still failing: it answers again only once
// no call has failed for a second.
type health struct {
	began   time.Time // what the others count from, on the monotonic clock
	failing atomic.Bool
	missed  atomic.Int64 // calls without an answer since
	since   atomic.Int64 // nanoseconds until the first of them
	last    atomic.Int64 // nanoseconds until the latest
}

const quietPeriod = time.Second

func (h *health) answered(l *Limiter) {
	if !h.failing.Load() || time.Since(h.began)-time.Duration(h.last.Load()) < quietPeriod {
		return
	}
	if h.failing.CompareAndSwap(true, false) {
		l.log.Info("slidegate: the store answers again", "limiter", l.cfg.Name,
			"undecided", h.missed.Swap(0), "after", time.Since(h.began)-time.Duration(h.since.Load()))
	}
}

func (h *health) failed(l *Limiter, err error) {
	now := int64(time.Since(h.began))
	h.missed.Add(1)
	h.last.Store(now)
	if l.silent || h.failing.Load() {
		return
	}
	h.since.Store(now)
	if h.failing.CompareAndSwap(false, true) {
		l.log.Warn("slidegate: the store gives no decision", "limiter", l.cfg.Name,
			"policy", l.cfg.OnFailure.String(), "error", err)
	}
}
