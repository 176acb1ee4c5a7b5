package redisstore

import (
	"context"
	"errors"
	"net"
	"net/url"

	"github.com/redis/go-redis/v9"
)

type Warning = warning

var Warnings = warnings

func Kind(c Client) string {
	return [...]string{wrapped: "wrapped", single: "single", cluster: "cluster", ring: "ring"}[kindOf(c)]
}

// Options returns what Open makes its client of: one of the three is not nil.
func Options(rawURL string) (*redis.Options, *redis.ClusterOptions, *redis.FailoverOptions, error) {
	t, err := parseURL(rawURL)
	if err != nil {
		return nil, nil, nil, err
	}
	return t.single, t.cluster, t.sentinel, nil
}

// ClientOf returns the client that Open makes, with another way to dial.
func ClientOf(rawURL string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (interface {
	Client
	Close() error
}, error) {
	t, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	switch {
	case t.cluster != nil:
		t.cluster.Dialer = dial
	case t.sentinel != nil:
		t.sentinel.Dialer = dial
	default:
		t.single.Dialer = dial
	}
	return t.client(), nil
}

// ClientIn returns the client of a store that Open made.
func ClientIn(s *Store) Client { return s.link.Load().client }

// TimesOf returns what is taken to be the client's dialing, reading and writing.
func TimesOf(c Client) [4]int64 {
	s := describe(c)
	return [4]int64{int64(s.dialTimeout), int64(s.dialerRetries), int64(s.readTimeout), int64(s.writeTimeout)}
}

// FaultOf returns the fault of parameters that parse takes only one by one.
func FaultOf(query url.Values, parse func(query string) error) error {
	a := address{query: query}
	a.parameters(parse)
	return errors.Join(a.faults...)
}
