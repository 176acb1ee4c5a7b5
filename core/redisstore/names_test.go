package redisstore_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
	"github.com/slidegate/slidegate/keyfunc"
)

func TestKeyNames(t *testing.T) {
	st := newStage(t)
	user := keyfunc.User("42")
	for _, x := range []struct {
		prefix  []redisstore.Option
		counter *core.Counter
		want    []string
	}{
		{nil, core.NewCounter("api", "1m", 60e9, core.Exact, 0), []string{"slidegate:{api:user:42}:1m:60000000:ev1"}},
		{nil, core.NewCounter("api", "1m", 60e9, core.Slotted, 10), []string{"slidegate:{api:user:42}:1m:60000000:s10v1", "slidegate:{api:user:42}:1m:60000000:s10v1:log"}},
		{nil, core.NewCounter("api", "1m", 60e9, core.Hybrid, 7), []string{"slidegate:{api:user:42}:1m:60000000:h7v1", "slidegate:{api:user:42}:1m:60000000:h7v1:log"}},
		{[]redisstore.Option{redisstore.Prefix("shop/eu")}, core.NewCounter("api", "1m", 60e9, core.Exact, 0), []string{"shop/eu:{api:user:42}:1m:60000000:ev1"}},
		{[]redisstore.Option{redisstore.Prefix("")}, core.NewCounter("api", "1m", 60e9, core.Exact, 0), []string{"{api:user:42}:1m:60000000:ev1"}},
		{[]redisstore.Option{redisstore.Prefix("{a} b:c%\n")}, core.NewCounter("api", "1m", 60e9, core.Exact, 0), []string{"%7Ba%7D%20b%3Ac%25%0A:{api:user:42}:1m:60000000:ev1"}},
	} {
		c := &core.Call{Op: core.OpTake, Parts: []core.Part{{Counter: x.counter, Key: user, N: 1, Cost: 1}}}
		if got := st.store(t, x.prefix...).Keys(c); fmt.Sprint(got) != fmt.Sprint(x.want) {
			t.Errorf("keys %q, want %q", got, x.want)
		}
	}
}

// tag is the part of a key that a cluster hashes.
func tag(key string) string {
	_, rest, ok := strings.Cut(key, "{")
	inner, _, closed := strings.Cut(rest, "}")
	if !ok || !closed || inner == "" {
		return key
	}
	return inner
}

// Whatever clients send as their names, the keys of one counter share a slot, other
// clients lie elsewhere, and no two counters are one.
func TestNoNameSteersTheHashTag(t *testing.T) {
	s := newStage(t).store(t, redisstore.Prefix("}{"))
	texts := rapid.OneOf(rapid.SampledFrom([]string{"", "}a", "a}b", "a}c", "{x", "{}", "}", ":", "a:b", "\x00", "ä"}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		seen := make(map[string]string)
		for range rapid.IntRange(1, 6).Draw(t, "counters") {
			limiter, limit := texts.Draw(t, "limiter"), texts.Draw(t, "limit")
			user := texts.Draw(t, "user")
			if user == "" {
				user = "nobody"
			}
			c := core.NewCounter(limiter, limit, 60e9, core.Hybrid, 1+rapid.IntRange(0, 2).Draw(t, "slots"))
			x := &core.Call{Parts: []core.Part{{Counter: c, Key: keyfunc.User(user)}}}
			keys := s.Keys(x)
			if tag(keys[0]) != tag(keys[1]) {
				t.Fatalf("%q and %q differ in their tags", keys[0], keys[1])
			}
			if strings.Count(keys[0], "{") != 1 || strings.Count(keys[0], "}") != 1 {
				t.Fatalf("%q has other braces than those of the tag", keys[0])
			}
			name := fmt.Sprintf("%s user %q", c.Identity(), user)
			for _, k := range keys {
				if other, ok := seen[k]; ok && other != name {
					t.Fatalf("%q is the key of %s and of %s", k, other, name)
				}
				seen[k] = name
			}
		}
	})
}

// Braces around a constant would put everything on one node.
func TestClientsSpreadOverTheSlots(t *testing.T) {
	s := newStage(t).store(t)
	tags := make(map[string]bool)
	for i := range 1000 {
		c := &core.Call{Parts: []core.Part{{Counter: counter("limit", core.Exact, 60e9, 0), Key: keyfunc.User(fmt.Sprint(i))}}}
		tags[tag(s.Keys(c)[0])] = true
	}
	if len(tags) != 1000 {
		t.Errorf("1000 clients have %d tags", len(tags))
	}
}

// A changed N keeps the counts; a changed window, algorithm or number of slots
// counts anew, and what was there before goes by itself.
func TestAChangedLimit(t *testing.T) {
	st := newStage(t)
	s := st.store(t)
	minute := counter("limit", core.Exact, 60e9, 0)
	take(t, s, minute, 10, 6)
	if x := take(t, s, minute, 8, 1); !x.Done || x.Used != 7 {
		t.Errorf("N lowered to 8: %+v, want 1 left", x)
	}
	if x := take(t, s, minute, 6, 1); x.Done || x.Used != 7 {
		t.Errorf("N lowered to 6: %+v, want a refusal", x)
	}
	for _, c := range []*core.Counter{
		counter("limit", core.Exact, 30e9, 0), counter("limit", core.Slotted, 60e9, 10),
		counter("limit", core.Slotted, 60e9, 11), counter("limit", core.Hybrid, 60e9, 10), counter("other", core.Exact, 60e9, 0),
	} {
		if x := take(t, s, c, 8, 1); x.Used != 1 {
			t.Errorf("%s: %d used, want a fresh count", c.Identity(), x.Used)
		}
	}
	st.advance(5 * 60e9)
	if keys := st.mini.Keys(); len(keys) != 0 {
		t.Errorf("left behind: %v", keys)
	}
}
