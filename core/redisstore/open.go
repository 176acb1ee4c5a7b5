package redisstore

import (
	"errors"
	"io"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/slidegate/slidegate/core"
)

// FieldError is one fault in what New or Open was given: see core.FieldError.
type FieldError = core.FieldError

// Open returns a store over a client of its own, with options that suit a limiter.
// The store's Close closes the client too. Open makes no connection, unless the URL
// asks for some in advance with min_idle_conns. The URL is one of
//
//	redis://user:password@host:6379/0               one server, database 0
//	unix://user:password@/run/redis.sock?db=0       one server, by its socket
//	redis-cluster://user:password@host:6379,host2   a cluster, by some of its nodes
//	redis-sentinel://user:password@host:26379,host2/mymaster/0
//	                                                the master that Sentinel names
//
// or has rediss in place of redis for TLS 1.2 or later. User and password are those
// of the Redis servers; what Sentinel wants goes into the parameters
// sentinel_username and sentinel_password. In all of them / ? # @ and % are to be
// percent-encoded. The port may be left out, as may the database.
//
// Certificates are verified for the host of the URL, or, if it names several, each
// for the host that was dialed; the parameter server_name=… sets another name for
// all. With one host that is also the name of the nodes and masters it leads to.
//
// All parameters of go-redis's ParseURL, ParseClusterURL or ParseFailoverURL can be
// given behind a question mark, such as pool_size=50&read_timeout=500ms. Without
// them scripts are bounded by their budgets, a dial is tried once, for 1s, reads and
// writes end after 1s where no budget does it sooner, a cluster's layout is asked
// for every 5s, CLIENT SETINFO and notifications of maintenance are off, and go-redis
// repeats nothing.
//
// The error joins a FieldError for each fault. It holds no password.
func Open(rawURL string, opts ...Option) (*Store, error) {
	t, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	c := newClients(t)
	s, err := newStore(c.current(), c, opts...)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	if s.prober != nil {
		// What the prober finds to work becomes the store's client, so it is made like it.
		s.prober.fresh = t.client
	}
	return s, nil
}

// closingClient is a client that can be closed.
type closingClient interface {
	Client
	io.Closer
}

// target is what a URL describes: exactly one field is set.
type target struct {
	single   *redis.Options
	cluster  *redis.ClusterOptions
	sentinel *redis.FailoverOptions
}

// parseURL returns the options that a URL stands for. net/url is of no use for it:
// it takes only one host, and its errors quote the URL with the password.
func parseURL(rawURL string) (*target, error) {
	a := address{}
	t := a.parse(rawURL)
	if len(a.faults) > 0 {
		return nil, errors.Join(a.faults...)
	}
	return t, nil
}

func (a *address) parse(rawURL string) *target {
	if !a.split(rawURL) {
		return nil
	}
	switch a.scheme {
	case "redis", "unix":
		return &target{single: a.toSingle()}
	case "redis-cluster":
		return &target{cluster: a.toCluster()}
	default:
		return &target{sentinel: a.toSentinel()}
	}
}

// client makes a client, of copies: go-redis fills in the options that it is given.
func (t *target) client() closingClient {
	switch {
	case t.cluster != nil:
		o := *t.cluster
		return redis.NewClusterClient(&o)
	case t.sentinel != nil:
		o := *t.sentinel
		return redis.NewFailoverClient(&o)
	default:
		o := *t.single
		return redis.NewClient(&o)
	}
}

// What Open sets where the URL does not. The budget of a call, 100ms by default,
// ends reads and writes by its deadline (ContextTimeoutEnabled), and the wait for a
// connection too, so that these limits are only for what has no budget: the
// layout of a cluster, Sentinel's answers. They are not shorter, since a limiter may
// have a longer budget, and what takes longer than 1s is of no use to any.
//
// A dial goes on when the call that wanted it has given up, and the connection
// serves the next call. With 100ms a TLS handshake between continents, three round
// trips of 150ms, would never come to its end; with more than 1s, lost packets would
// keep a place of the pool longer, and TCP sends a lost SYN again after 1s anyway
// (RFC 6298, section 2). It is tried once: the next call tries again.
const (
	patience       = time.Second
	reloadInterval = 5 * time.Second // costs each instance one CLUSTER SLOTS
)

func orDefault[T comparable](option *T, byDefault T) {
	var zero T
	if *option == zero {
		*option = byDefault
	}
}

// suit fills in the options of a single server.
func suit(o *redis.Options) {
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	orDefault(&o.DialerRetries, 1)
	orDefault(&o.MaxRetries, -1)
	suitTimes(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
}

// suitCluster fills in the options of a cluster. MaxRedirects stays what go-redis
// takes, 3: it is needed to follow MOVED and ASK.
func suitCluster(o *redis.ClusterOptions) {
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.ClusterStateReloadInterval = reloadInterval
	orDefault(&o.DialerRetries, 1)
	orDefault(&o.MaxRetries, -1)
	suitTimes(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
}

// suitSentinel fills in the options of a client by Sentinel, whose parameters alone
// include two that may say no. It never has notifications of maintenance.
func suitSentinel(o *redis.FailoverOptions, query url.Values) {
	o.ContextTimeoutEnabled = o.ContextTimeoutEnabled || query.Get("context_timeout_enabled") == ""
	o.DisableIdentity = o.DisableIdentity || query.Get("disableIdentity") == ""
	orDefault(&o.DialerRetries, 1)
	orDefault(&o.MaxRetries, -1)
	suitTimes(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
}

func suitTimes(options ...*time.Duration) {
	for _, o := range options {
		orDefault(o, patience)
	}
}
