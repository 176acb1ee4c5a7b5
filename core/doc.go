// Package core limits rates: in any window of length W at most N units pass,
// and whoever is refused is told when to come back.
//
// A [Limiter] holds one or more limits and decides them together. HTTP services
// use it through the adapter of their framework (package nethttp and its
// siblings); jobs, queues and RPC servers call it directly:
//
//	lim, err := core.New(core.Config{
//		Limits: []core.Limit{core.PerSecond(10), core.PerDay(100_000).Slotted(48)},
//	})
//	…
//	d, err := lim.Allow(ctx, keyfunc.User("42"))
//	if err == nil && !d.Allowed {
//		// come back after d.RetryAfter()
//	}
//
// # The promise
//
// A window is half-open: a unit counted at t counts at every instant before its
// release, t + W, and no longer at it. Exact limits admit whenever there is
// room. Slotted and Hybrid limits may keep a unit up to one slot longer, never
// shorter. A refusal costs nothing. Several limits are one decision: all take
// the cost of a request, or none does.
//
// The instants of all answers are of the store's clock, which for a [Memory] is
// the process's monotonic clock.
//
// # Failures
//
// Refusals are decisions. An error means that no decision was made; faults of
// the arguments are [FieldError] values, which name the field, its value and the
// remedy. Only [Must] panics.
//
// Everything in the package may be used by many goroutines at once.
package core
