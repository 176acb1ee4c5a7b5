package redisstore

import (
	"fmt"
	"time"
)

// warning is an option of a client that hurts a limiter.
type warning struct {
	Option  string // as go-redis spells it
	Value   string
	Problem string
	Remedy  string
}

// What is left alone below these limits. A dial is not bounded by the call that
// waits for it, and keeps one of the pool's places for as long as it lasts.
const (
	longDial   = 2 * time.Second
	longReload = 15 * time.Second
)

// warnings returns what to tell about the options of a client. They say nothing of
// MaxRetries, which the store's commands are not subject to (see command), of
// PoolTimeout, which the context of a call ends sooner, and of RouteByLatency and
// RouteRandomly beyond what ReadOnly does: EVALSHA is no read-only command, so that
// it goes to masters with any of them.
func warnings(c Client) []warning {
	s := describe(c)
	if s.kind == wrapped {
		return nil
	}
	list := append(s.warnOfReads(), s.warnOfDials()...)
	if s.limited {
		list = append(list, warning{
			Option: "Limiter", Value: "set",
			Problem: "it is asked 3 to 5 times for the first call on a connection, counts refused handshake commands and NOSCRIPT as failures, and as a breaker may never close again",
			Remedy:  "leave it out: what happens when Redis fails is the limiter's OnFailure",
		})
	}
	if s.kind == cluster {
		list = append(list, s.warnOfCluster()...)
	}
	return list
}

func (s *settings) warnOfReads() (list []warning) {
	for _, x := range []struct {
		option string
		limit  time.Duration
	}{{"ReadTimeout", s.readTimeout}, {"WriteTimeout", s.writeTimeout}} {
		if x.limit < 0 {
			list = append(list, warning{
				Option: x.option, Value: "-2",
				Problem: "it keeps even the deadlines of contexts from ending a read or write: while a server hangs, each call costs a connection and a goroutine for good",
				Remedy:  "set it to 1s",
			})
		}
	}
	if !s.contextTimeouts {
		busy := "for " + s.readTimeout.String() + " (ReadTimeout)"
		if s.readTimeout <= 0 {
			busy = "until the server answers"
		}
		list = append(list, warning{
			Option: "ContextTimeoutEnabled", Value: "false",
			Problem: "while the server hangs, each call that gave up keeps a connection and a goroutine busy " + busy + ", so that the pool runs out of connections",
			Remedy:  "set it to true",
		})
	}
	return list
}

func (s *settings) warnOfDials() (list []warning) {
	if s.dialerRetries > 1 {
		list = append(list, warning{
			Option: "DialerRetries", Value: fmt.Sprint(s.dialerRetries),
			Problem: "while nothing listens, each call waits for its whole budget: the dials are 100ms apart by default, and without them a call would fail within 1ms",
			Remedy:  "set it to 1",
		})
	}
	if whole := s.dialTimeout * time.Duration(s.dialerRetries); whole > longDial {
		list = append(list, warning{
			Option: "DialTimeout", Value: s.dialTimeout.String(),
			Problem: fmt.Sprintf("while the network loses packets, each dial keeps a place of the pool for %v (DialTimeout times DialerRetries), whoever stopped waiting for it", whole),
			Remedy:  "set it to 1s, with DialerRetries 1",
		})
	}
	return list
}

func (s *settings) warnOfCluster() (list []warning) {
	if s.maxRedirects < 1 {
		list = append(list, warning{
			Option: "MaxRedirects", Value: fmt.Sprint(min(s.maxRedirects, -1)), // go-redis keeps 0 for -1
			Problem: "MOVED and ASK are not followed: calls fail while slots move, and after each failover",
			Remedy:  "leave it out: scripts that lost their reply are not repeated anyway",
		})
	}
	if s.readOnly {
		list = append(list, warning{
			Option: "ReadOnly", Value: "true",
			Problem: "scripts go to masters all the same, but first all calls queue for one reply to COMMAND, which takes up to 5s for each while nodes hang, whatever their budgets",
			Remedy:  "leave ReadOnly, RouteByLatency and RouteRandomly out",
		})
	}
	if s.reloadInterval > longReload {
		list = append(list, warning{
			Option: "ClusterStateReloadInterval", Value: s.reloadInterval.String(),
			Problem: "after a master died, its keys get no decision for up to this long, since a failed dial does not make go-redis look for the new master",
			Remedy:  "set it to 5s",
		})
	}
	return list
}
