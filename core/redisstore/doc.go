// Package redisstore keeps the counts of limiters in Redis, so that all instances of
// a service share them: a single server, Sentinel, Cluster, or a Ring; Redis from 6.2
// on and what speaks its protocol with Lua.
//
//	store, err := redisstore.Open("redis://localhost:6379")
//	…
//	lim, err := core.New(core.Config{Name: "api", Limits: limits, Store: store})
//
// One script decides all limits of a request at once, by the server's clock: units
// counted exactly are in a sorted set, those of slots in a hash, and what a call
// touches does not grow with the limit. docs/redis.md says what is stored, what each
// kind of limit costs, and what happens when keys are lost.
//
// # What Redis can lose
//
// A reply that was lost may have been counted; scripts are never sent again but for
// NOSCRIPT. Redis replicates asynchronously: a failover forgets what the replica had
// not received, so up to that many units can pass once more. Eviction forgets whole
// keys: use a maxmemory policy that evicts none, or none with a TTL.
package redisstore
