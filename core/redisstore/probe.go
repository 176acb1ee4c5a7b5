package redisstore

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// prober finds out whether Redis answers again, on a connection of its own: those of
// the client may be broken or all be waiting, and its pool may have given up dialing
// for a while.
//
// It asks what limiters ask, a take, since a server can answer PING and still refuse
// to write (READONLY, OOM), or be too slow. The key lives for two seconds.
type prober struct {
	store *Store
	// fresh makes a client like that of the store; nil if it is of a kind unknown here,
	// which is then asked itself.
	fresh func() closingClient

	mu      sync.Mutex // close may come while probe is busy
	client  closingClient
	closed  bool
	late    int       // probes in a row without an answer in time; of probe alone
	renewed time.Time // when the store's client was last found or made to work
}

// settled is how long what has just been found to work is probed itself: the lanes of
// a cluster need no client each.
const settled = time.Second

// probe is called by one goroutine at a time: see fallback.Config.Probe.
func (p *prober) probe(ctx context.Context, lane int, budget time.Duration) error {
	through, err := p.open()
	if err != nil {
		return err
	}
	l := p.store.link.Load().through(through)
	// The first call dials and makes itself known: three round trips more, with TLS. It
	// does not wait long, for what is silent may be lost for good while a new connection
	// would work. A dial that takes longer goes on, and serves the next probe. The second
	// call has to be as quick as those of limiters.
	for _, limit := range [...]time.Duration{max(3*budget, 300*time.Millisecond), budget} {
		c := probeCall(lane)
		c.Budget = limit
		if err := l.fly(ctx, c); err != nil && failureOf(err).Outage() {
			p.failed(err)
			return err
		}
	}
	p.late = 0
	p.recovered(ctx)
	return nil
}

// manyLate probes in a row that got no answer in time are reason for a new client.
const manyLate = 5

// failed closes the prober's client, unless it may be dialing still.
func (p *prober) failed(err error) {
	if p.late++; failureOf(err) == core.FailureTimeout && p.late%manyLate != 0 {
		p.mu.Lock()
		p.renewed = time.Time{}
		p.mu.Unlock()
		return
	}
	p.drop()
}

// open returns the client to probe through.
func (p *prober) open() (Client, error) {
	if p.fresh == nil {
		return p.store.link.Load().client, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, core.ErrClosed
	}
	if time.Since(p.renewed) < settled {
		return p.store.link.Load().client, nil
	}
	if p.client == nil {
		p.client = p.fresh()
	}
	return p.client, nil
}

// drop closes the prober's client: its pool counts failed dials as well, and what it
// knows of a cluster may be wrong.
func (p *prober) drop() {
	if c := p.take(); c != nil {
		_ = c.Close()
	}
}

func (p *prober) take() closingClient {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.client
	p.client, p.renewed = nil, time.Time{}
	return c
}

// recovered has the store use what works: the prober's client, if Open made the store's,
// and else the layout of the cluster as it is now.
func (p *prober) recovered(ctx context.Context) {
	s := p.store
	c := p.take()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.renewed = time.Now()
	}()
	if c == nil {
		return // it was the store's own that was probed
	}
	if s.owned != nil && s.owned.replace(c) {
		s.use(s.link.Load().through(c))
		return
	}
	if cluster, ok := s.link.Load().client.(*redis.ClusterClient); ok {
		cluster.ReloadState(ctx)
	}
	_ = c.Close()
}

func (p *prober) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.drop()
}

// likeClient returns a function that makes clients with the options of the user's, for
// one connection.
func likeClient(c Client) func() closingClient {
	switch c := c.(type) {
	case *redis.Client:
		return func() closingClient {
			o := *c.Options()
			o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = 1, 0, 0, 0
			o.MaxRetries, o.DialerRetries = -1, 1
			o.ContextTimeoutEnabled, o.Limiter = true, nil
			shorten(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
			return redis.NewClient(&o)
		}
	case *redis.ClusterClient:
		return func() closingClient {
			o := *c.Options()
			o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = 1, 0, 0, 0
			o.MaxRetries, o.DialerRetries = -1, 1
			o.ContextTimeoutEnabled = true
			shorten(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout)
			return redis.NewClusterClient(&o)
		}
	}
	return nil
}

func shorten(options ...*time.Duration) {
	for _, o := range options {
		if *o <= 0 || *o > patience {
			*o = patience
		}
	}
}

// probeCounter is what probes count: a limit that nothing reaches.
var probeCounter = core.NewCounter("slidegate.probe", "1s", time.Second, core.Exact, 0)

// probeCall returns a call on a key in the lane.
func probeCall(lane int) *core.Call {
	return &core.Call{Op: core.OpTake, Policy: core.Closed, Parts: []core.Part{{
		Counter: probeCounter, Key: probeKey(lane), N: core.MaxUnits, Cost: 1,
	}}}
}

// probeKey looks for a key in the lane: one in 64 names is.
func probeKey(lane int) keyfunc.Key {
	for i := 0; ; i++ {
		x := core.Part{Counter: probeCounter, Key: keyfunc.Name(strconv.Itoa(i))}
		if laneOf(&x) == lane {
			return x.Key
		}
	}
}
