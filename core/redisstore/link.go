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
	done  <-chan struct{} // closed by the store's Close
}

func newLink(client Client, prefix string, done <-chan struct{}) *link {
	l := &link{client: client, prefix: string(appendEscaped(nil, prefix)), apart: new(atomic.Bool), done: done}
	if l.prefix != "" {
		l.prefix += ":"
	}
	l.apart.Store(kindOf(client) == cluster)
	return l
}

// through returns a link that asks the same through another client.
func (s *link) through(client Client) *link {
	other := *s
	other.client = client
	return &other
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
