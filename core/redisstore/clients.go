package redisstore

import (
	"errors"
	"sync"
	"time"
)

// clients makes the clients of a store that Open has made. After an outage a new one
// takes the place of the old one: the pool of a client that has failed to dial as often
// as it has places sleeps for a second between dials, whoever has seen Redis answer
// meanwhile (go-redis 9.23, pool.go, tryDial), and a cluster's layout may have changed.
type clients struct {
	target *target

	mu      sync.Mutex
	now     closingClient
	retired []closingClient
	closed  bool
}

// grace is how long calls that are under way may use a client that was replaced.
const grace = 2 * time.Second

func newClients(t *target) *clients { return &clients{target: t, now: t.client()} }

func (c *clients) current() closingClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// replace makes another client the current one, and closes the old one after a while.
// It reports false, and takes nothing over, after close.
func (c *clients) replace(by closingClient) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	old := c.now
	c.now = by
	c.retired = append(c.retired, old)
	time.AfterFunc(grace, func() { c.retire(old) })
	return true
}

// retire closes a client that was replaced.
func (c *clients) retire(old closingClient) {
	c.mu.Lock()
	mine := false
	for i, r := range c.retired {
		if r == old {
			c.retired = append(c.retired[:i], c.retired[i+1:]...)
			mine = true
			break
		}
	}
	c.mu.Unlock()
	if mine {
		_ = old.Close() // nobody waits for it
	}
}

// close closes all clients.
func (c *clients) close() error {
	c.mu.Lock()
	all := append(c.retired, c.now)
	c.retired, c.closed = nil, true
	c.mu.Unlock()
	var errs []error
	for _, each := range all {
		errs = append(errs, each.Close())
	}
	return errors.Join(errs...)
}
