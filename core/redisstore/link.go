package redisstore

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
)

// link asks Redis through one client.
type link struct {
	client Client
	prefix string // escaped, with its colon
	// apart says that keys with different hash tags need calls of their own: so in
	// a cluster, and behind anything that answered CROSSSLOT once.
	apart *atomic.Bool
	heeds bool  // the client ends what it does at the deadline of its context
	roads roads // nil if every call goes alone
	busy  *busy
	// gaveBack is told which counters a call has let go of, or will.
	gaveBack func(*core.Call)
	done     <-chan struct{} // closed by the store's Close
}

func newLink(client Client, prefix string, done <-chan struct{}) *link {
	l := &link{
		client: client, prefix: string(appendEscaped(nil, prefix)),
		apart: new(atomic.Bool), busy: new(busy), gaveBack: func(*core.Call) {}, done: done,
	}
	if l.prefix != "" {
		l.prefix += ":"
	}
	l.apart.Store(kindOf(client) == cluster)
	return l
}

// through returns a link that asks the same through another client. Every call goes
// alone by it.
func (s *link) through(client Client) *link {
	other := *s
	other.client, other.roads = client, nil
	return &other
}

// together returns a link by which calls that wait together travel together, where that
// can be done with the client.
func (s *link) together() *link {
	other := *s
	other.roads = newRoads(&other)
	return &other
}

// dispatch has a flight carried, and reports whether it has been.
func (s *link) dispatch(f *flight) bool {
	if s.roads != nil && together(f.call.Parts) {
		if r := s.roads.find(&f.call); r != nil {
			return r.submit(f)
		}
	}
	s.busy.Go(func() { s.carryAlone(f) })
	return false
}

// carryAlone has the client find who answers the flight.
func (s *link) carryAlone(f *flight) {
	ctx, stop := f.context()
	defer stop()
	err := guarded(func() error { return s.answer(ctx, &f.question, &f.call) })
	if s.roads != nil && err == nil && together(f.call.Parts) {
		s.roads.learn(ctx, &f.call, f.question.keys[0])
	}
	s.land(f, err)
}

// ask has one script answer calls that ask the same of the same counters.
func (s *link) ask(ctx context.Context, q *question, calls ...*core.Call) error {
	q.put(s.prefix, calls...)
	reply, err := q.script.run(ctx, s.client, q.keys, q.args)
	if err != nil {
		return err
	}
	return read(reply, calls...)
}

// answer has Redis answer the call, in as many scripts as that needs.
func (s *link) answer(ctx context.Context, q *question, c *core.Call) error {
	if together(c.Parts) {
		return s.ask(ctx, q, c)
	}
	if !s.apart.Load() {
		err := s.ask(ctx, q, c)
		if !redis.HasErrorPrefix(err, "CROSSSLOT") {
			return err
		}
		// Refused before it ran. Something in front of Redis divides the keys.
		s.apart.Store(true)
	}
	return s.answerApart(ctx, c)
}
