package redisstore_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core/redisstore"
)

// good are options that give no warning, for tests that spoil one of them.
func good() *redis.Options {
	return &redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true, DialTimeout: 2 * time.Second, DialerRetries: 1}
}

func goodCluster() *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs: []string{"127.0.0.1:1"}, ContextTimeoutEnabled: true, DialTimeout: 2 * time.Second, DialerRetries: 1,
		ClusterStateReloadInterval: 15 * time.Second,
	}
}

func goodRing() *redis.RingOptions {
	return &redis.RingOptions{
		Addrs: map[string]string{"a": "127.0.0.1:1"}, ContextTimeoutEnabled: true, DialTimeout: 2 * time.Second, DialerRetries: 1,
	}
}

type admitAll struct{}

func (admitAll) Allow() error       { return nil }
func (admitAll) ReportResult(error) {}

// warned returns option and value of each warning.
func warned(t *testing.T, c closer) string {
	t.Helper()
	defer c.Close()
	var got []string
	for _, w := range redisstore.Warnings(c) {
		if w.Problem == "" || w.Remedy == "" {
			t.Errorf("incomplete: %+v", w)
		}
		got = append(got, w.Option+"="+w.Value)
	}
	return strings.Join(got, " ")
}

func TestOptionThatHurtsIsWarnedOf(t *testing.T) {
	for _, x := range []struct {
		spoil func(*redis.Options, *redis.ClusterOptions, *redis.RingOptions)
		want  string // of all three
		more  string // of the cluster too
	}{
		{func(o *redis.Options, c *redis.ClusterOptions, r *redis.RingOptions) {}, "", ""},
		{func(o *redis.Options, c *redis.ClusterOptions, r *redis.RingOptions) {
			o.ContextTimeoutEnabled, c.ContextTimeoutEnabled, r.ContextTimeoutEnabled = false, false, false
		}, "ContextTimeoutEnabled=false", ""},
		{func(o *redis.Options, c *redis.ClusterOptions, r *redis.RingOptions) {
			o.ReadTimeout, c.ReadTimeout, r.ReadTimeout = -2, -2, -2
		}, "ReadTimeout=-2 WriteTimeout=-2", ""},
		{func(o *redis.Options, c *redis.ClusterOptions, r *redis.RingOptions) {
			o.WriteTimeout, c.WriteTimeout, r.WriteTimeout = -2, -2, -2
		}, "WriteTimeout=-2", ""},
		{func(o *redis.Options, c *redis.ClusterOptions, r *redis.RingOptions) {
			o.DialerRetries, c.DialerRetries, r.DialerRetries = 2, 2, 2
			o.DialTimeout, c.DialTimeout, r.DialTimeout = time.Second, time.Second, time.Second
		}, "DialerRetries=2", ""},
		{func(o *redis.Options, c *redis.ClusterOptions, r *redis.RingOptions) {
			o.DialTimeout, c.DialTimeout, r.DialTimeout = 2001*time.Millisecond, 2001*time.Millisecond, 2001*time.Millisecond
		}, "DialTimeout=2.001s", ""},
		{func(o *redis.Options, c *redis.ClusterOptions, r *redis.RingOptions) {
			c.MaxRedirects = -1
		}, "", "MaxRedirects=-1"},
		{func(o *redis.Options, c *redis.ClusterOptions, r *redis.RingOptions) {
			c.MaxRedirects = -5
		}, "", "MaxRedirects=-5"},
		{func(o *redis.Options, c *redis.ClusterOptions, r *redis.RingOptions) { c.ReadOnly = true }, "", "ReadOnly=true"},
		{func(o *redis.Options, c *redis.ClusterOptions, r *redis.RingOptions) { c.RouteByLatency = true }, "", "ReadOnly=true"},
		{func(o *redis.Options, c *redis.ClusterOptions, r *redis.RingOptions) { c.RouteRandomly = true }, "", "ReadOnly=true"},
		{func(o *redis.Options, c *redis.ClusterOptions, r *redis.RingOptions) {
			c.ClusterStateReloadInterval++
		}, "", "ClusterStateReloadInterval=15.000000001s"},
		// These do nothing to scripts that are sent once and bounded outside the client.
		{func(o *redis.Options, c *redis.ClusterOptions, r *redis.RingOptions) {
			o.MaxRetries, c.MaxRetries, r.MaxRetries = 9, 9, 9
			o.PoolTimeout, c.PoolTimeout, r.PoolTimeout = time.Hour, time.Hour, time.Hour
			o.ReadTimeout, c.ReadTimeout, r.ReadTimeout = time.Hour, -1, -1
		}, "", ""},
	} {
		o, c, r := good(), goodCluster(), goodRing()
		x.spoil(o, c, r)
		if got := warned(t, redis.NewClient(o)); got != x.want {
			t.Errorf("a client: got %q, want %q", got, x.want)
		}
		if got := warned(t, redis.NewRing(r)); got != x.want {
			t.Errorf("a ring: got %q, want %q", got, x.want)
		}
		if got, want := warned(t, redis.NewClusterClient(c)), strings.TrimSpace(x.want+" "+x.more); got != want {
			t.Errorf("a cluster: got %q, want %q", got, want)
		}
	}
}

func TestLimiterInsideTheClientIsWarnedOf(t *testing.T) {
	o, r := good(), goodRing()
	o.Limiter, r.Limiter = admitAll{}, admitAll{}
	for _, c := range []closer{redis.NewClient(o), redis.NewRing(r)} {
		if got := warned(t, c); got != "Limiter=set" {
			t.Errorf("%T: got %q", c, got)
		}
	}
}

func TestDefaultOptionsAreWarnedOfWithTheirFigures(t *testing.T) {
	for i, want := range []string{
		"ContextTimeoutEnabled=false DialerRetries=5 DialTimeout=5s",
		"ContextTimeoutEnabled=false DialerRetries=5 DialTimeout=5s ClusterStateReloadInterval=1m0s",
		"ContextTimeoutEnabled=false DialerRetries=5 DialTimeout=5s",
	} {
		c := clients[i].open("127.0.0.1:1")
		list := redisstore.Warnings(c)
		if !strings.Contains(list[0].Problem, "5s (ReadTimeout)") || !strings.Contains(list[2].Problem, "25s") {
			t.Errorf("%T: figures are missing in %+v", c, list)
		}
		if got := warned(t, c); got != want {
			t.Errorf("%T: got %q, want %q", c, got, want)
		}
	}
	o := good()
	o.ContextTimeoutEnabled, o.ReadTimeout = false, -1
	c := redis.NewClient(o)
	defer c.Close()
	if list := redisstore.Warnings(c); len(list) != 1 || !strings.Contains(list[0].Problem, "until the server answers") {
		t.Errorf("got %+v", list)
	}
}

func TestNothingIsSaidOfAClientThatIsWrapped(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer c.Close()
	if list := redisstore.Warnings(wrapping{c}); len(list) != 0 {
		t.Errorf("got %+v", list)
	}
}

func TestOpenedClientGivesNoWarning(t *testing.T) {
	for _, u := range append([]string{"rediss://h", "rediss-cluster://h", "rediss-sentinel://h/m"}, kindsOfURL...) {
		var log bytes.Buffer
		s, err := redisstore.Open(u, redisstore.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if log.Len() > 0 {
			t.Errorf("%s: %s", u, log.String())
		}
		if list := redisstore.Warnings(redisstore.ClientIn(s)); len(list) > 0 {
			t.Errorf("%s: %+v", u, list)
		}
	}
}

func TestEachWarningIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer c.Close()
	if _, err := redisstore.New(c, redisstore.Logger(slog.New(slog.NewTextHandler(&log, nil)))); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	for i, w := range redisstore.Warnings(c) {
		if len(lines) != 3 || !strings.Contains(lines[i], "level=WARN") || !strings.Contains(lines[i], "option="+w.Option+" value="+w.Value) {
			t.Errorf("line %d of %q does not tell of %+v", i, lines, w)
		}
	}
}

// What the warning of ReadOnly says, and why no other cluster is subject to it.
func TestReadOnlyClusterHasCallsQueueForCOMMAND(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		over := make(chan struct{})
		fake := serve(t, func(words []string) string {
			if words[0] == "command" {
				<-over
			}
			return three
		})
		c := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{fake.addr}, ReadOnly: readOnly, ContextTimeoutEnabled: true, ReadTimeout: 40 * time.Millisecond,
		})
		// On a busy machine a call may begin when its time is up already, and not queue.
		took := time.Duration(0)
		for tries := 0; tries < 5 && took < 160*time.Millisecond; tries++ {
			var calls sync.WaitGroup
			start := time.Now()
			for range 4 {
				calls.Go(func() {
					ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
					defer stop()
					_, _ = redisstore.NewScript("return 1").Run(ctx, c, keys, nil)
				})
			}
			calls.Wait()
			took = time.Since(start)
		}
		if readOnly && took < 160*time.Millisecond {
			t.Errorf("4 calls took %v, less than 4 times ReadTimeout: the warning is not true any more", took)
		}
		for _, name := range fake.asked() {
			if name == "command" && !readOnly {
				t.Error("COMMAND was asked for without ReadOnly")
			}
		}
		close(over)
		c.Close()
	}
}
