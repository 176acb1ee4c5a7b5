package outages

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
	"github.com/slidegate/slidegate/keyfunc"
)

// rows are the ways in which Redis fails. Those with always fail every call.
var rows = []struct {
	name   string
	always bool
	start  func(t *testing.T) *scene
}{
	{"absent at start", true, absent},
	{"killed, restarted empty", true, killed},
	{"killed, restarted with its data", false, killedWithData},
	{"SIGSTOP for 3 s", false, stopped},
	{"CLIENT PAUSE for 2 s", false, paused},
	{"black hole", true, blackHole},
	{"half-open connections", false, halfOpen},
	{"replies lost after the script ran", false, repliesLost},
	{"reset amid a reply", false, cutReplies},
	{"latency 30 ms", false, latency},
	{"latency above the budget", false, tooSlow},
	{"SCRIPT FLUSH under load", false, scriptFlush},
	{"maxmemory reached, noeviction", false, outOfMemory},
	{"maxmemory, allkeys-lru evicts", false, evicting},
	{"demoted to a read-only replica", false, demoted},
	{"Sentinel failover", false, sentinelFailover},
	{"cluster master killed, replica promoted", false, clusterFailover},
	{"cluster slot migrated", false, slotMigrated},
	{"rights taken away", false, rightsTaken},
	{"pool of 2, 200 callers", false, smallPool},
	{"new master's clock 5 s behind", false, clockBehind},
}

var network = []core.Failure{core.FailureTimeout, core.FailureRefused, core.FailureReset, core.FailurePool}

// freshCall makes a client, has it write, and closes it.
func freshCall(options *redis.UniversalOptions) func(context.Context) error {
	return func(ctx context.Context) error {
		o := *options
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond
		o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
		c := redis.NewUniversalClient(&o)
		defer func() { _ = c.Close() }()
		ctx, stop := context.WithTimeout(ctx, 500*time.Millisecond)
		defer stop()
		return c.Set(ctx, "fresh", 1, time.Second).Err()
	}
}

// single is a server behind a proxy.
func single(t *testing.T, args ...string) (*redistest.Server, *scene) {
	t.Helper()
	s := redistest.Need(t, args...)
	p := redistest.NeedProxy(t, s.Addr())
	return s, &scene{
		url: "redis://" + p.Addr(), proxy: p, lasts: 1500 * time.Millisecond,
		fresh: freshCall(&redis.UniversalOptions{Addrs: []string{p.Addr()}}), failures: network,
	}
}

func absent(t *testing.T) *scene {
	s, sc := single(t)
	sc.absent, sc.always, sc.fault, sc.heal = true, true, s.Kill, s.Restart
	return sc
}

func killed(t *testing.T) *scene {
	s, sc := single(t)
	sc.always, sc.loses, sc.fault, sc.heal = true, true, s.Kill, s.Restart
	return sc
}

func killedWithData(t *testing.T) *scene {
	s, sc := single(t, "--appendonly", "yes", "--appendfsync", "always")
	sc.always, sc.fault, sc.heal = true, s.Kill, s.Restart
	sc.failures = append([]core.Failure{core.FailureLoading}, network...)
	return sc
}

func stopped(t *testing.T) *scene {
	s, sc := single(t)
	sc.always, sc.lasts, sc.fault, sc.heal = true, 3*time.Second, s.Pause, s.Resume
	return sc
}

func paused(t *testing.T) *scene {
	s, sc := single(t)
	sc.always, sc.lasts = true, 2*time.Second
	sc.fault = func() error { _, err := s.Do("CLIENT", "PAUSE", "2000"); return err }
	return sc
}

func blackHole(t *testing.T) *scene {
	_, sc := single(t)
	sc.always, sc.fault, sc.heal = true, func() error { sc.proxy.BlackHole(); return nil }, sc.proxy.Heal
	return sc
}

// halfOpen leaves the connections there are silent for good; new ones work.
func halfOpen(t *testing.T) *scene {
	_, sc := single(t)
	sc.fault = func() error { sc.proxy.BlackHole(); return sc.proxy.Heal() }
	return sc
}

func repliesLost(t *testing.T) *scene {
	_, sc := single(t)
	sc.fault = func() error { sc.proxy.DropReplies(50); return nil }
	sc.heal = sc.proxy.Heal
	return sc
}

func cutReplies(t *testing.T) *scene {
	_, sc := single(t)
	sc.lasts = 500 * time.Millisecond
	sc.fault = func() error {
		for range 10 {
			sc.proxy.CutReply()
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	}
	sc.heal = sc.proxy.Heal
	sc.failures = append([]core.Failure{core.FailureOther}, network...)
	return sc
}

func latency(t *testing.T) *scene {
	_, sc := single(t)
	sc.callers = 12
	sc.fault = func() error { sc.proxy.Delay(15 * time.Millisecond); return nil }
	sc.heal = sc.proxy.Heal
	sc.failures = nil
	return sc
}

func tooSlow(t *testing.T) *scene {
	_, sc := single(t)
	sc.always, sc.fault, sc.heal = true, func() error { sc.proxy.Delay(80 * time.Millisecond); return nil }, sc.proxy.Heal
	return sc
}

func scriptFlush(t *testing.T) *scene {
	s, sc := single(t)
	sc.failures, sc.lasts = nil, 500*time.Millisecond
	sc.fault = func() error {
		for range 50 {
			if _, err := s.Do("SCRIPT", "FLUSH"); err != nil {
				return err
			}
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	}
	return sc
}

func outOfMemory(t *testing.T) *scene {
	s, sc := single(t)
	sc.always = true
	sc.failures = append([]core.Failure{core.FailureMemory}, network...)
	sc.fault = func() error { _, err := s.Do("CONFIG", "SET", "maxmemory", "1"); return err }
	sc.heal = func() error { _, err := s.Do("CONFIG", "SET", "maxmemory", "0"); return err }
	return sc
}

func evicting(t *testing.T) *scene {
	s, sc := single(t)
	sc.loses = true
	sc.failures = append([]core.Failure{core.FailureMemory}, network...)
	sc.fault = func() error {
		if _, err := s.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru"); err != nil {
			return err
		}
		// Less than it has: all keys go, and then as they come.
		_, err := s.Do("CONFIG", "SET", "maxmemory", "800kb")
		return err
	}
	sc.lasts = 600 * time.Millisecond
	sc.heal = func() error { _, err := s.Do("CONFIG", "SET", "maxmemory", "0"); return err }
	return sc
}

func demoted(t *testing.T) *scene {
	s, sc := single(t)
	other := redistest.NeedReplica(t, s)
	sc.always = true
	sc.failures = append([]core.Failure{core.FailureReadOnly, core.FailureMasterDown, core.FailureLoading}, network...)
	sc.fault = func() error {
		if err := other.Promote(); err != nil {
			return err
		}
		return s.Demote(other)
	}
	sc.heal = s.Promote
	return sc
}

func sentinelFailover(t *testing.T) *scene {
	s := redistest.NeedSentinel(t)
	master, err := s.Master()
	if err != nil {
		t.Fatal(err)
	}
	return &scene{
		url:   "redis-sentinel://" + strings.Join(s.Addrs(), ",") + "/" + s.MasterName(),
		fresh: freshCall(&redis.UniversalOptions{Addrs: s.Addrs(), MasterName: s.MasterName()}),
		fault: master.Kill, lasts: 200 * time.Millisecond, always: true, loses: true,
		failures: append([]core.Failure{core.FailureReadOnly, core.FailureMasterDown, core.FailureLoading, core.FailureOther}, network...),
	}
}

func clusterFailover(t *testing.T) *scene {
	c := redistest.NeedCluster(t, 3, 3, "--cluster-node-timeout", "1000")
	sc := cluster(c)
	sc.loses, sc.lasts = true, 200*time.Millisecond
	sc.fault = c.Nodes()[0].Kill
	return sc
}

func cluster(c *redistest.Cluster) *scene {
	return &scene{
		url:   "redis-cluster://" + strings.Join(c.Addrs(), ","),
		fresh: freshCall(&redis.UniversalOptions{Addrs: c.Addrs(), IsClusterMode: true}),
		failures: append([]core.Failure{core.FailureClusterDown, core.FailureReadOnly, core.FailureMasterDown, core.FailureLoading,
			core.FailureOther}, network...),
	}
}

// slotMigrated moves the slots of all the keys to other masters, key by key.
func slotMigrated(t *testing.T) *scene {
	c := redistest.NeedCluster(t, 3, 0)
	sc := cluster(c)
	sc.lasts = 200 * time.Millisecond
	sc.fault = func() error {
		for _, p := range policies {
			for key := range keys {
				tag := fmt.Sprintf("outage-%s:%s", p, keyfunc.Header("X-User", fmt.Sprintf("user-%d", key)))
				if err := migrate(t.Context(), c, tag); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return sc
}

func rightsTaken(t *testing.T) *scene {
	s, sc := single(t)
	sc.failures = append([]core.Failure{core.FailureDenied}, network...)
	sc.fault = func() error { _, err := s.Do("ACL", "SETUSER", "default", "-zadd"); return err }
	sc.heal = func() error { _, err := s.Do("ACL", "SETUSER", "default", "+zadd"); return err }
	return sc
}

func smallPool(t *testing.T) *scene {
	_, sc := single(t)
	sc.url += "?pool_size=2"
	sc.callers, sc.lasts = 66, 500*time.Millisecond
	sc.fault = func() error { return nil }
	return sc
}

// clockBehind fails over to a replica whose clock is 5 s behind.
func clockBehind(t *testing.T) *scene {
	s := redistest.Need(t)
	replica, clock := redistest.NeedWithClock(t)
	if err := replica.Demote(s); err != nil {
		t.Fatal(err)
	}
	clock.Step(-5 * time.Second)
	d := newDoor(t, s.Addr())
	sc := &scene{
		url: "redis://" + d.addr(), lasts: 300 * time.Millisecond, loses: true,
		fresh: freshCall(&redis.UniversalOptions{Addrs: []string{d.addr()}}), failures: network,
	}
	sc.fault = func() error {
		if err := s.Kill(); err != nil {
			return err
		}
		return replica.Promote()
	}
	sc.heal = func() error {
		d.lead(replica.Addr())
		return nil
	}
	return sc
}
