package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// The tests of this file are named for faults that rate limiters have had with what
// they keep in Redis, where decisions alone do not show them.

// lifeOf returns how long a unit of the limit counts at most, and a window more: no
// key may be kept for longer.
func lifeOf(l core.Limit) time.Duration {
	return 2*l.Window() + 2*slotOf(l) + 2*time.Millisecond
}

// wantTTL fails the test unless each key lives for so long.
func (s *onRedis) wantTTL(what string, least, most time.Duration) {
	s.t.Helper()
	for _, k := range s.mini.Keys() {
		if ttl := s.mini.TTL(k); ttl < least || ttl > most {
			s.t.Errorf("%s: %s has a TTL of %v, want %v to %v", what, k, ttl, least, most)
		}
	}
}

// sizes returns the entries of all sorted sets and the fields of all hashes.
func (s *onRedis) sizes() (entries, fields int) {
	s.t.Helper()
	for _, k := range s.mini.Keys() {
		switch kind := s.mini.Type(k); kind {
		case "zset":
			members, err := s.mini.ZMembers(k)
			if err != nil {
				s.t.Fatal(err)
			}
			entries += len(members)
		case "hash":
			names, err := s.mini.HKeys(k)
			if err != nil {
				s.t.Fatal(err)
			}
			fields += len(names)
		default:
			s.t.Errorf("%s is a %s", k, kind)
		}
	}
	return entries, fields
}

func TestExpiredUnitsLeaveTheSortedSetAndTheHash(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		s := redisOn(t, c)
		limit := as(core.PerSecond(3))
		l := limiterAt(t, s, limit)
		for range 3 {
			allow(t, l, 1)
			c.advance(time.Microsecond)
		}
		c.at(time.Second + slotOf(limit) + 2*time.Microsecond)
		if d := allow(t, l, 1); !d.Allowed || d.Shown().Remaining() != 2 {
			t.Errorf("%v, %d remaining", d.Allowed, d.Shown().Remaining())
		}
		// One that counts, and one dead entry that totals may need. Of slots: the one
		// that counts, with what the hash says of all of them.
		if entries, fields := s.sizes(); entries > 2 || fields > 5 {
			t.Errorf("%d entries and %d fields", entries, fields)
		}
		for range 60 {
			c.advance(350 * time.Millisecond)
			allow(t, l, 1)
			// Dead entries leave some at a time, slots as soon as they are dead.
			if entries, fields := s.sizes(); entries > 3+16 || fields > 11+5 {
				t.Fatalf("%d entries and %d fields", entries, fields)
			}
		}
	})
}

func TestUnitsOfOneInstantAreOneEntryThatCountsThemAll(t *testing.T) {
	s := redisOn(t, newHandClock())
	l := limiterAt(t, s, core.PerMinute(100))
	for want := int64(99); want >= 0; want-- {
		if d := allow(t, l, 1); d.Shown().Remaining() != want {
			t.Errorf("%d remaining, want %d", d.Shown().Remaining(), want)
		}
	}
	if entries, _ := s.sizes(); entries != 1 {
		t.Errorf("%d entries", entries)
	}
	wantUsed(t, l, 100)
}

func TestNothingBesideTheCountsIsNeededToTellUnitsApart(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		s := redisOn(t, c)
		limit := as(core.PerMinute(100)) // 6 units are cold
		l := limiterAt(t, s, limit)
		for range 3 {
			allow(t, l, 1)
		}
		s.wantKeys("one client", 1)
		for range 3 {
			allow(t, l, 1)
		}
		wantUsed(t, l, 6)
		for i := range 20 {
			allowKey(t, l, keyfunc.User(fmt.Sprint(i)), 1)
		}
		s.wantKeys("21 clients", 21)
		c.advance(lifeOf(limit))
		s.wantKeys("later", 0)
	})
}

func TestADecisionOnAllLimitsIsOneCommand(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		s := redisOn(t, newHandClock())
		l := limiterAt(t, s, as(core.PerMinute(2)), as(core.PerHour(100)), as(core.PerSecond(10)))
		allow(t, l, 1) // loads the script
		peek(t, l, 1)
		r := reserve(t, l, 1)
		if err := r.Cancel(context.Background()); err != nil {
			t.Fatal(err)
		}
		sent := &commands{}
		s.client.AddHook(sent)
		for range 3 { // the third is refused
			allow(t, l, 1)
		}
		peek(t, l, 1)
		if got := strings.Join(sent.names, " "); got != "evalsha evalsha evalsha evalsha" {
			t.Errorf("sent: %s", got)
		}
	})
}

// commands is a hook that notes what a client sends.
type commands struct {
	redis.Hook
	mu    sync.Mutex
	names []string
}

func (c *commands) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.mu.Lock()
		c.names = append(c.names, cmd.Name())
		c.mu.Unlock()
		return next(ctx, cmd)
	}
}

func TestABadCostIsNeverSentToRedis(t *testing.T) {
	s := redisOn(t, newHandClock())
	l := limiterAt(t, s, core.PerMinute(10))
	sent := &commands{}
	s.client.AddHook(sent)
	for _, cost := range []int64{0, -1, -5, -1 << 63, core.MaxUnits + 1, 1<<63 - 1} {
		if _, err := l.AllowN(context.Background(), someone, cost); err == nil {
			t.Errorf("a cost of %d was decided", cost)
		}
	}
	if len(sent.names) > 0 {
		t.Errorf("sent: %v", sent.names)
	}
	s.wantKeys("after costs that are none", 0)
}

func TestInstancesWithClientsOfTheirOwnDoNotOvershootTogether(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		s := redisOn(t, newHandClock())
		limit := as(core.PerMinute(50))
		instances := []*core.Limiter{limiterAt(t, s, limit), limiterAt(t, redisAt(t, s.mini), limit)}
		var admitted atomic.Int64
		together(200, func(i int) {
			if d := allow(t, instances[i%2], 1); d.Allowed {
				admitted.Add(1)
			}
		})
		if got := admitted.Load(); got != 50 {
			t.Errorf("%d were admitted", got)
		}
		wantUsed(t, instances[1], 50)
	})
}

// The clock of this process is years from that of the server, either way.
func TestClocksOfInstancesDoNotMatter(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		limit := as(core.Per(4, 10*time.Second))
		for _, year := range []int{1971, 2001, 2023, 2038, 2060} {
			c := newHandClock()
			c.set(core.InstantOf(time.Date(year, time.June, 1, 0, 0, 0, 0, time.UTC)))
			s := redisOn(t, c)
			instances := []*core.Limiter{limiterAt(t, s, limit), limiterAt(t, redisAt(t, s.mini), limit)}
			admitted := 0
			for i := range 8 {
				d := allow(t, instances[i%2], 1)
				if d.At() != c.instant() {
					t.Errorf("%d: decided at %v, the server has %v", year, d.At(), c.instant())
				}
				if d.Allowed {
					admitted++
				} else {
					wantWait(t, fmt.Sprint(year), limit, d, 10*time.Second)
				}
			}
			if admitted != 4 {
				t.Errorf("%d: %d were admitted", year, admitted)
			}
			c.advance(10*time.Second + slotOf(limit))
			if d := allow(t, instances[0], 4); !d.Allowed {
				t.Errorf("%d, a window later: %+v", year, d.Shown())
			}
		}
	})
}

func TestTTLOfWindowsThatAreNoWholeSeconds(t *testing.T) {
	for _, w := range []time.Duration{
		time.Millisecond, 1001 * time.Microsecond, 100 * time.Millisecond, 300 * time.Millisecond, 999 * time.Millisecond,
		1001 * time.Millisecond, 1500 * time.Millisecond, 2718281 * time.Microsecond, 365 * 24 * time.Hour, core.MaxWindow,
	} {
		eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
			c := newHandClock()
			s := redisOn(t, c)
			limit := as(core.Per(5, w))
			l := limiterAt(t, s, limit)
			if d := allow(t, l, 1); !d.Allowed {
				t.Fatalf("%v: %+v", w, d.Shown())
			}
			s.wantTTL(w.String(), w, lifeOf(limit))
			if err := l.Reset(context.Background(), someone); err != nil {
				t.Fatal(err)
			}
			reserve(t, l, 5)
			s.wantTTL("reserved in "+w.String(), w, lifeOf(limit))
			c.advance(lifeOf(limit))
			s.wantKeys(w.String(), 0)
		})
	}
}

func TestRefusalsAndLooksDoNotProlongTheLifeOfAKey(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		s := redisOn(t, c)
		limit := as(core.Per(5, 10*time.Second))
		l := limiterAt(t, s, limit)
		allow(t, l, 5)
		left := map[string]time.Duration{}
		for _, k := range s.mini.Keys() {
			left[k] = s.mini.TTL(k)
		}
		for i := range 30 {
			c.advance(300 * time.Millisecond)
			if d := allow(t, l, 1); d.Allowed {
				t.Fatalf("call %d: %+v", i, d.Shown())
			}
			peek(t, l, 1)
			for k := range left {
				left[k] -= 300 * time.Millisecond
				if ttl := s.mini.TTL(k); ttl != left[k] {
					t.Fatalf("call %d: %s has a TTL of %v, want %v", i, k, ttl, left[k])
				}
			}
		}
		for range 30 { // looks alone, until the key goes
			c.advance(time.Second)
			peek(t, l, 1)
		}
		s.wantKeys("after looks alone", 0)
	})
}

func TestAKeyGoesWithItsLastUnitHoweverLongItWasUsed(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		random := rand.New(rand.NewPCG(10, 11))
		for _, w := range []time.Duration{100 * time.Millisecond, 1500 * time.Millisecond} {
			c := newHandClock()
			s := redisOn(t, c)
			limit := as(core.Per(5, w))
			l := limiterAt(t, s, limit)
			for range 100 {
				allow(t, l, 1+random.Int64N(3))
				s.wantTTL(w.String(), time.Microsecond, lifeOf(limit))
				c.advance(time.Duration(random.Int64N(w.Microseconds()*2/3)) * time.Microsecond)
			}
			c.advance(lifeOf(limit))
			s.wantKeys(w.String(), 0)
		}
	})
}

func TestUnitsGivenBackAfterTheWindowLeaveNoKey(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		ctx := context.Background()
		limit := as(core.PerMinute(3))
		for name, end := range map[string]func(*core.Reservation) error{
			"cancel":       func(r *core.Reservation) error { return r.Cancel(ctx) },
			"correct to 0": func(r *core.Reservation) error { return r.Correct(ctx, 0) },
			"correct to 1": func(r *core.Reservation) error { return r.Correct(ctx, 1) },
			"commit":       func(r *core.Reservation) error { return r.Commit(ctx) },
		} {
			// As its units have left, and as its key has.
			for _, idle := range []time.Duration{time.Minute + slotOf(limit), lifeOf(limit), time.Hour} {
				c := newHandClock()
				s := redisOn(t, c)
				l := limiterAt(t, s, limit)
				r := reserve(t, l, 1)
				c.advance(idle)
				before := len(s.mini.Keys())
				if err := end(r); !errors.Is(err, core.ErrLapsed) {
					t.Errorf("%s: %v", name, err)
				}
				if after := len(s.mini.Keys()); after > before {
					t.Errorf("%s after %v: %d keys, %d before", name, idle, after, before)
				}
				s.wantTTLs()
				for want := int64(2); want >= 0; want-- {
					if d := allow(t, l, 1); !d.Allowed || d.Shown().Remaining() != want {
						t.Errorf("%s after %v: %v, %d remaining, want %d", name, idle, d.Allowed, d.Shown().Remaining(), want)
					}
				}
				if d := allow(t, l, 1); d.Allowed {
					t.Errorf("%s after %v: one unit too many", name, idle)
				}
				c.advance(lifeOf(limit))
				s.wantKeys(name, 0)
			}
		}
	})
}

func TestMoreThanWasReservedLeavesNoKeyForEver(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		limit := as(core.PerMinute(3))
		for _, idle := range []time.Duration{0, time.Minute, time.Minute + slotOf(limit), time.Hour} {
			c := newHandClock()
			s := redisOn(t, c)
			l := limiterAt(t, s, limit)
			r := reserve(t, l, 1)
			c.advance(idle)
			if err := r.Correct(context.Background(), 3); err != nil && !errors.Is(err, core.ErrLapsed) {
				t.Error(err)
			}
			if want := map[bool]int64{true: 3, false: 2}[idle == 0]; used(t, l) != want {
				t.Errorf("after %v: %d are used, want %d", idle, used(t, l), want)
			}
			s.wantTTL(idle.String(), time.Minute, lifeOf(limit))
			c.advance(lifeOf(limit))
			s.wantKeys(idle.String(), 0)
		}
	})
}

func TestAClockSetBackLeavesNoKeyForEver(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		s := redisOn(t, c)
		limit := as(core.Per(5, 10*time.Second))
		l := limiterAt(t, s, limit)
		allow(t, l, 2)
		c.advance(-time.Hour)
		peek(t, l, 1)
		allow(t, l, 1)
		reserve(t, l, 1)
		// The key's own time goes on, and so does its life.
		s.wantTTL("set back", 10*time.Second, lifeOf(limit))
		c.advance(10*time.Second + slotOf(limit))
		wantUsed(t, l, 0)
		c.advance(lifeOf(limit))
		s.wantKeys("later", 0)
	})
}

func TestAnOldWindowsKeyGoesByItself(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		s := redisOn(t, c)
		before, after := as(core.PerMinute(10)), as(core.Per(10, 30*time.Second))
		allow(t, limiterAt(t, s, before), 1)
		l := limiterAt(t, s, after)
		allow(t, l, 1)
		s.wantKeys("both", 2)
		for range 10 { // the new one stays in use
			c.advance(lifeOf(before) / 10)
			allow(t, l, 1)
		}
		s.wantKeys("the new one alone", 1)
		c.advance(lifeOf(after))
		s.wantKeys("none", 0)
	})
}

func TestNoKeyIsEverWithoutATTL(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		s := redisOn(t, c) // looks at all keys with each call
		limit := as(core.Per(5, 50*time.Millisecond))
		together(8, func(worker int) {
			random := rand.New(rand.NewPCG(12, uint64(worker)))
			l := limiterAt(t, redisAt(t, s.mini), limit)
			for range 40 {
				ctx, cancel := context.WithCancel(context.Background())
				switch random.IntN(8) {
				case 0: // goes away at once
					cancel()
				case 1: // goes away while Redis is asked
					go cancel()
				case 2: // the connection breaks, and the next call has a new client
					own := redisAt(t, s.mini)
					go func() { _ = own.client.Close() }()
					_ = own.Do(ctx, question(core.OpTake, limit, keyfunc.User(fmt.Sprint(random.IntN(100)))))
				}
				key := keyfunc.User(fmt.Sprint(random.IntN(100)))
				if r, _, err := l.Reserve(ctx, key, 1); err == nil && r != nil && random.IntN(3) > 0 {
					_ = r.Correct(ctx, random.Int64N(4))
				}
				_, _ = l.AllowN(ctx, key, 1+random.Int64N(3))
				cancel()
				c.advance(time.Duration(random.IntN(2000)) * time.Microsecond)
			}
		})
		s.wantTTLs()
		if len(s.mini.Keys()) == 0 {
			t.Error("no key is left to be looked at")
		}
		// What was abandoned may come late: it has a TTL too.
		deadline := time.Now().Add(5 * time.Second)
		for len(s.mini.Keys()) > 0 && time.Now().Before(deadline) {
			s.wantTTLs()
			c.advance(lifeOf(limit))
		}
		s.wantKeys("after a while of quiet", 0)
	})
}

// question returns a call on one limit, as a limiter named "test" would ask it.
func question(op core.Op, l core.Limit, key keyfunc.Key) *core.Call {
	counter := core.NewCounter("test", l.Name(), l.Window(), l.Algorithm(), l.Slots())
	return &core.Call{Op: op, Budget: 10 * time.Second, Parts: []core.Part{{Counter: counter, Key: key, N: l.N(), HotFrom: l.N() / 2, Cost: 1}}}
}

func TestALimiterWhoseClientIsClosedLeavesTheCountsToOthers(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		s := redisOn(t, c)
		limit := as(core.PerMinute(5))
		gone, stays := redisAt(t, s.mini), limiterAt(t, s, limit)
		l := limiterAt(t, gone, limit)
		allow(t, l, 3)
		reserve(t, l, 1) // never ended
		if err := gone.client.Close(); err != nil {
			t.Fatal(err)
		}
		if d, err := l.Allow(context.Background(), someone); err != nil || !d.Failure().Outage() || !d.Allowed {
			t.Errorf("without a client the local window decides, with 4 of 5 used: %+v, %v", d, err)
		}
		if d := allow(t, stays, 1); !d.Allowed || d.Shown().Remaining() != 0 {
			t.Errorf("%v, %d remaining", d.Allowed, d.Shown().Remaining())
		}
		wantWait(t, "one more", limit, allow(t, stays, 1), time.Minute)
		c.advance(lifeOf(limit))
		s.wantKeys("later", 0)
	})
}

func TestSeveralPeriodsOnOneClientHaveKeysAndTTLsOfTheirOwn(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, as func(core.Limit) core.Limit) {
		c := newHandClock()
		s := redisOn(t, c)
		minute, hour := as(core.PerMinute(100)), as(core.PerHour(100))
		both := limiterAt(t, s, minute, hour)
		allow(t, both, 1)
		s.wantKeys("both", 2)
		s.wantTTL("both", time.Minute, lifeOf(hour))
		c.advance(lifeOf(minute))
		s.wantKeys("the hour's", 1)
		d := peek(t, both, 1)
		for i, want := range []int64{0, 1} {
			if got := slicesOf(d)[i].Used; got != want {
				t.Errorf("limit %d: %d are used, want %d", i, got, want)
			}
		}
		c.advance(lifeOf(hour))
		s.wantKeys("none", 0)
	})
}

func slicesOf(d core.Decision) (states []core.LimitState) {
	for s := range d.Limits() {
		states = append(states, s)
	}
	return states
}
