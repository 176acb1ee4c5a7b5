package redisstore

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// kind says how a client finds the server of a key.
type kind uint8

const (
	wrapped kind = iota // something else that has the methods; its options are unknown
	single              // one server, or the master that Sentinel names
	cluster
	ring
)

func kindOf(c Client) kind {
	switch c.(type) {
	case *redis.Client:
		return single
	case *redis.ClusterClient:
		return cluster
	case *redis.Ring:
		return ring
	default:
		return wrapped
	}
}

// settings are the options of a client that matter to a limiter, with go-redis's
// defaults filled in: the three kinds of client keep them in different forms.
type settings struct {
	kind            kind
	contextTimeouts bool
	dialTimeout     time.Duration
	dialerRetries   int
	// Of reads and writes 0 means no limit but the context's, and below 0 that not
	// even the context's is kept.
	readTimeout  time.Duration
	writeTimeout time.Duration
	limited      bool // has an Options.Limiter

	// Of a cluster.
	maxRedirects   int
	readOnly       bool
	reloadInterval time.Duration
}

// heedsDeadlines reports whether reads and writes end at the deadline of a context.
func (s settings) heedsDeadlines() bool {
	return s.contextTimeouts && s.readTimeout >= 0 && s.writeTimeout >= 0
}

// go-redis 9.23's defaults, from (*Options).init. A RingOptions leaves them to its
// shards and shows zeros.
const (
	defaultTimeout       = 5 * time.Second
	defaultDialerRetries = 5
)

func describe(c Client) settings {
	s := settings{kind: kindOf(c)}
	switch c := c.(type) {
	case *redis.Client:
		o := c.Options()
		s.contextTimeouts, s.limited = o.ContextTimeoutEnabled, o.Limiter != nil
		s.dialTimeout, s.dialerRetries = o.DialTimeout, o.DialerRetries
		s.readTimeout, s.writeTimeout = o.ReadTimeout, o.WriteTimeout
	case *redis.ClusterClient:
		o := c.Options()
		s.contextTimeouts = o.ContextTimeoutEnabled
		s.dialTimeout, s.dialerRetries = o.DialTimeout, dialsOf(o.DialerRetries)
		s.readTimeout, s.writeTimeout = max(o.ReadTimeout, -1), max(o.WriteTimeout, -1)
		s.maxRedirects, s.readOnly, s.reloadInterval = o.MaxRedirects, o.ReadOnly, o.ClusterStateReloadInterval
	case *redis.Ring:
		o := c.Options()
		s.contextTimeouts, s.limited = o.ContextTimeoutEnabled, o.Limiter != nil
		s.dialTimeout, s.dialerRetries = o.DialTimeout, dialsOf(o.DialerRetries)
		if s.dialTimeout == 0 {
			s.dialTimeout = defaultTimeout
		}
		s.readTimeout = limitOf(o.ReadTimeout, defaultTimeout)
		s.writeTimeout = limitOf(o.WriteTimeout, s.readTimeout)
	}
	return s
}

// dialsOf returns how often the pool dials: it takes what is not positive for the
// default.
func dialsOf(retries int) int {
	if retries <= 0 {
		return defaultDialerRetries
	}
	return retries
}

// limitOf returns the limit that an option for reads or writes stands for.
func limitOf(option, byDefault time.Duration) time.Duration {
	switch option {
	case 0:
		return byDefault
	case -1:
		return 0
	case -2:
		return -1
	default:
		return option
	}
}
