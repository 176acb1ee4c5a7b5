package redisstore

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
)

// roads find the road to the server of a call.
type roads interface {
	// find returns nil where the client has to find the server.
	find(c *core.Call) *road
	// learn is told that the client has found the server of a call's first key.
	learn(ctx context.Context, c *core.Call, key string)
	// leave takes down that the road no longer leads to the server of a call.
	leave(r *road, c *core.Call)
}

// newRoads returns the roads of a link, or nil for a client that cannot be asked for a
// pipeline to one server.
func newRoads(l *link) roads {
	switch c := l.client.(type) {
	case *redis.Client:
		return oneRoad{newRoad(l, c)}
	case *redis.ClusterClient:
		return &roadMap{link: l, client: c, byNode: map[*redis.Client]*road{}}
	}
	return nil
}

// oneRoad is that to a single server, or to the master that Sentinel names.
type oneRoad struct{ road *road }

func (o oneRoad) find(*core.Call) *road                   { return o.road }
func (oneRoad) learn(context.Context, *core.Call, string) {}
func (oneRoad) leave(*road, *core.Call)                   {}

// roadMap is those to the masters of a cluster. Which slot is whose the client knows,
// and may have to ask the network for it; so a call whose slot is not on the map goes
// alone, by the client, and then the slot is.
type roadMap struct {
	link   *link
	client *redis.ClusterClient
	slots  [1 << slotBits]atomic.Pointer[road]

	mu     sync.Mutex
	byNode map[*redis.Client]*road
}

func (m *roadMap) find(c *core.Call) *road {
	if len(c.Parts) == 0 {
		return nil
	}
	slot := &m.slots[slotOf(&c.Parts[0])]
	r := slot.Load()
	if r != nil && r.gone.Load() {
		slot.CompareAndSwap(r, nil)
		return nil
	}
	return r
}

func (m *roadMap) learn(ctx context.Context, c *core.Call, key string) {
	node, err := m.client.MasterForKey(ctx, key)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.byNode[node]
	if r == nil || r.gone.Load() {
		r = newRoad(m.link, node)
		m.byNode[node] = r
		for node, other := range m.byNode { // nodes that have left
			if other.gone.Load() {
				delete(m.byNode, node)
			}
		}
	}
	m.slots[slotOf(&c.Parts[0])].Store(r)
}

func (m *roadMap) leave(r *road, c *core.Call) {
	m.slots[slotOf(&c.Parts[0])].CompareAndSwap(r, nil)
}

// leadsElsewhere has the client of a cluster find the server of a bundle that was refused
// because another one has its keys now, and reports whether it does. Nothing was counted:
// see command. Where no server answered, it only has the next calls look for another.
func (r *road) leadsElsewhere(b *bundle) bool {
	m, ok := r.link.roads.(*roadMap)
	if !ok {
		return false
	}
	if !moved(b.err) {
		if failureOf(b.err).Outage() {
			r.gone.Store(true)
		}
		return false
	}
	m.leave(r, b.calls[0])
	for _, f := range b.flights {
		if f.state.Load() == abandoned {
			f.recycle()
			continue
		}
		r.link.busy.Go(func() { r.link.carryAlone(f) })
	}
	return true
}

// moved reports whether the error says that the server has not run the script, and
// another one would.
func moved(err error) bool {
	for _, prefix := range [...]string{"MOVED", "ASK", "READONLY"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return err == redis.ErrClosed // the node has left, and its client with it
}
