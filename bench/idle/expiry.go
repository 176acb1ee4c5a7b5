package main

import (
	"context"
	"fmt"
	"time"

	"github.com/slidegate/slidegate/bench/internal/record"
	"github.com/slidegate/slidegate/bench/internal/server"
)

// expiry is the longest PING while keys expired.
type expiry struct {
	name    string
	longest time.Duration
}

// expireAfter is the TTL of keys whose expiry is watched.
const expireAfter = time.Second

// expiries measures a key that expires under both values of lazyfree-lazy-expire,
// and as long a time in which nothing happens.
func (b *bench) expiries(ctx context.Context) ([]expiry, error) {
	quiet, err := b.pings(ctx, func() error { return pause(ctx, expireAfter) })
	if err != nil {
		return nil, err
	}
	list := []expiry{{"longest PING, nothing happens", quiet}}
	for _, value := range []string{"no", "yes"} {
		longest, err := b.expiry(ctx, value)
		if err != nil {
			return nil, err
		}
		list = append(list, expiry{
			fmt.Sprintf("longest PING while a key of %d units expires, lazyfree-lazy-expire %s", b.options.idle, value), longest,
		})
	}
	return list, nil
}

func (b *bench) expiry(ctx context.Context, lazy string) (longest time.Duration, err error) {
	restore, err := b.set(ctx, "lazyfree-lazy-expire", lazy)
	if err != nil {
		return 0, err
	}
	defer func() {
		if e := restore(); err == nil {
			err = e
		}
	}()
	r, err := record.NewRecorder(b.server.Client)
	if err != nil {
		return 0, err
	}
	x, err := b.fill(ctx, r, "expires", b.options.idle, b.options.window)
	if err != nil {
		return 0, err
	}
	// What an expiry costs does not depend on how long it was waited for.
	if err := b.server.PExpire(ctx, x.redisKey, expireAfter).Err(); err != nil {
		return 0, err
	}
	return b.pings(ctx, func() error { return b.gone(ctx, expireAfter+10*time.Second) })
}

// gone waits until the server holds no key. It asks for no key by its name, which
// would have the asking expire it.
func (b *bench) gone(ctx context.Context, most time.Duration) error {
	for from := time.Now(); ; {
		size, err := b.server.DBSize(ctx).Result()
		switch {
		case err != nil || size == 0:
			return err
		case time.Since(from) > most:
			return fmt.Errorf("%d keys are left, %v after the last should have expired", size, most)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// pings returns the longest PING on a connection of its own while during runs.
func (b *bench) pings(ctx context.Context, during func() error) (time.Duration, error) {
	c := server.Dial(b.server.Options().Addr)
	defer c.Close()
	if err := c.Ping(ctx).Err(); err != nil {
		return 0, err
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	var longest time.Duration
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			case <-time.After(500 * time.Microsecond):
			}
			from := time.Now()
			if err := c.Ping(ctx).Err(); err != nil {
				done <- err
				return
			}
			longest = max(longest, time.Since(from))
		}
	}()
	err := during()
	close(stop)
	if e := <-done; err == nil {
		err = e
	}
	return longest, err
}
