package core_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
)

// backend is a kind of store on which a fault could come back.
type backend struct {
	// store returns a store that reads the clock, with counts of its own.
	store func(testing.TB, *handClock) core.Store
	// perMille is how much of a long test there is time for.
	perMille int
}

// calls returns how many of n calls there is time for.
func (b backend) calls(n int) int { return n * b.perMille / 1000 }

// backends returns every kind of store whose time a test can set.
func backends() map[string]backend {
	return map[string]backend{
		"memory": {func(t testing.TB, c *handClock) core.Store { return memoryOn(t, c) }, 1000},
		"redis":  {func(t testing.TB, c *handClock) core.Store { return redisOn(t, c) }, 100},
	}
}

// eachStore runs a test on every kind of store.
func eachStore(t *testing.T, test func(t *testing.T, in backend)) {
	t.Helper()
	for name, b := range backends() {
		t.Run(name, func(t *testing.T) { test(t, b) })
	}
}

// eachStoreAndAlgorithm runs a test on every kind of store with every way of
// counting.
func eachStoreAndAlgorithm(t *testing.T, test func(t *testing.T, in backend, as func(core.Limit) core.Limit)) {
	t.Helper()
	eachStore(t, func(t *testing.T, in backend) {
		eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) { test(t, in, as) })
	})
}

// onRedis is a store on a Redis server whose time is that of a hand clock. With
// each call it checks that no key is without a TTL.
type onRedis struct {
	*redisstore.Store
	client *redis.Client
	mini   *miniredis.Miniredis
	t      testing.TB
}

// redisOn returns a store on a server of its own that reads the clock.
func redisOn(t testing.TB, c *handClock) *onRedis {
	t.Helper()
	mini := miniredis.RunT(t)
	// A server holds the instants at which TTLs end, so that a step of its clock
	// changes what is left of them; miniredis holds what is left. It moves its clock
	// and its TTLs one after the other: calls in between see both moved in the end.
	c.follow(func(by time.Duration) {
		mini.SetTime(c.now())
		if by >= 0 {
			mini.FastForward(by)
			return
		}
		for _, k := range mini.Keys() {
			if ttl := mini.TTL(k); ttl > 0 {
				mini.SetTTL(k, ttl-by)
			}
		}
	})
	return redisAt(t, mini)
}

// redisAt returns a store with a client of its own to the server.
func redisAt(t testing.TB, mini *miniredis.Miniredis) *onRedis {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: mini.Addr(),
		// Not asked for, or a connection that is being set up prints a line when its
		// client is closed.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = client.Close() })
	s, err := redisstore.New(client, redisstore.Logger(slog.New(slog.DiscardHandler)), redisstore.NoRefusalCache())
	if err != nil {
		t.Fatal(err)
	}
	return &onRedis{Store: s, client: client, mini: mini, t: t}
}

// another returns one more instance of a store, on the same counts: what another
// process would have.
func another(t testing.TB, s core.Store) core.Store {
	t.Helper()
	if r, ok := s.(*onRedis); ok {
		return redisAt(t, r.mini)
	}
	return s // memory belongs to one process
}

// Do has the store answer.
func (s *onRedis) Do(ctx context.Context, c *core.Call) error {
	err := s.Store.Do(ctx, c)
	s.wantTTLs()
	return err
}

// wantTTLs fails the test if a key would stay for ever.
func (s *onRedis) wantTTLs() {
	s.t.Helper()
	for _, k := range s.mini.Keys() {
		// The TTL of a key that has just gone is 0 too.
		if s.mini.TTL(k) <= 0 && s.mini.Exists(k) && s.mini.TTL(k) <= 0 && s.mini.Exists(k) {
			s.t.Errorf("%s has no TTL", k)
		}
	}
}

// wantKeys fails the test unless the server holds that many keys.
func (s *onRedis) wantKeys(what string, want int) {
	s.t.Helper()
	if keys := s.mini.Keys(); len(keys) != want {
		s.t.Errorf("%s: %d keys are kept, want %d: %v", what, len(keys), want, keys)
	}
}
