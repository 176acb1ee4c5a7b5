package redisstore_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core/redisstore"
)

func TestRedirectionsAreFollowed(t *testing.T) {
	for _, x := range []struct {
		kind string
		want []string
	}{{"MOVED", []string{"evalsha"}}, {"ASK", []string{"asking", "evalsha"}}} {
		for _, gone := range []bool{false, true} {
			target := serve(t, func(words []string) string {
				if words[0] == "asking" {
					return "+OK\r\n"
				} else if gone {
					return lost
				}
				return three
			})
			source := serve(t, always("-"+x.kind+" 1 "+target.addr+"\r\n"))
			target.slots = source.slots
			c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{source.addr}, MaxRetries: 3})
			defer c.Close()
			reply, err := redisstore.NewScript("return 1").Run(t.Context(), c, keys, nil)
			if gone != (err != nil) || gone == (len(reply) == 3) {
				t.Errorf("%s, lost %v: got %v, %v", x.kind, gone, reply, err)
			}
			if got := target.asked(); len(source.asked()) != 1 || !slices.Equal(got, x.want) {
				t.Errorf("%s, lost %v: the first saw %q, the second %q", x.kind, gone, source.asked(), got)
			}
		}
	}
}

func TestScriptGoesWhereItsFirstKeyIs(t *testing.T) {
	a, b := serve(t, always(three)), serve(t, always(three))
	a.slots = func() string { return slotsOf(a, b) }
	b.slots = a.slots
	nodes := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{a.addr}})
	shards := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": a.addr, "b": b.addr}})
	defer nodes.Close()
	defer shards.Close()
	s := redisstore.NewScript("return 1")
	// A ClusterClient asks for COMMAND before its own GET.
	asked := func(s *server) int {
		return len(slices.DeleteFunc(s.asked(), func(name string) bool { return name == "command" }))
	}
	for _, c := range []redis.UniversalClient{nodes, shards} {
		both := map[int]bool{}
		for i := range 64 {
			k := []string{fmt.Sprintf("{key%d}:limit", i), fmt.Sprintf("{key%d}:limit:log", i)}
			before := asked(a)
			if _, err := s.Run(t.Context(), c, k, args("x")); err != nil {
				t.Fatal(err)
			}
			there := asked(a) - before
			c.Get(t.Context(), k[0])
			if got := asked(a) - before; got != 2*there {
				t.Errorf("%T: script and key %q are not on one server", c, k[0])
			}
			both[there] = true
		}
		if len(both) != 2 {
			t.Errorf("%T: all keys on one server: this test shows nothing", c)
		}
	}
}
