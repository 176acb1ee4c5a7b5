// Package fallback keeps limits while their store is out of order. Its [Store] goes
// in front of another one, the primary store, and answers in its place: each limiter
// says by core.Config.OnFailure whether a window in this process's memory decides
// (core.Local, the default), requests pass (core.Open) or are refused with 503
// (core.Closed).
//
// Package redisstore puts it in front of Redis by itself. It is of use by itself for
// stores of one's own:
//
//	store, err := fallback.New(mine, fallback.Config{Replicas: 4})
//
// While the primary store answers, the local window counts what this instance has
// admitted, so that taking over hands out no fresh quota. After a few failures in a
// row a circuit breaker stops asking: no request waits for a store that is known to
// be down. One probe at a time finds out when it answers again.
//
// # What holds through an outage
//
// Under core.Local, whatever fails and however often, no window holds more than
//
//	N + n₁ + n₂ + … + nᵢ
//
// units of a key: N that the primary store admits, and for each instance i what its
// local window may: nᵢ = max(1, ⌊N × share⌋), or the cost of a single request if that
// is more. If the primary store loses its counts, it can admit N once more. Under
// core.Closed it is N, and under core.Open there is no bound while the store is down.
// The page docs/failure.md has the proof.
package fallback
