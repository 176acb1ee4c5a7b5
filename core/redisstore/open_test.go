package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
)

// opened is what the URL of a kind led to, in one form for all kinds.
type opened struct {
	addrs                                  []string
	network, user, password, name          string
	db                                     int
	tls                                    *tls.Config
	dial, read, write, pool                time.Duration
	dials, retries                         int
	contexts, anonymous                    bool
	master, sentinelUser, sentinelPassword string
}

func open(t *testing.T, rawURL string) (o opened) {
	t.Helper()
	s, c, f, err := redisstore.Options(rawURL)
	switch {
	case err != nil:
		t.Fatalf("%s: %v", rawURL, err)
	case s != nil:
		o = opened{[]string{s.Addr}, s.Network, s.Username, s.Password, s.ClientName, s.DB, s.TLSConfig, s.DialTimeout, s.ReadTimeout,
			s.WriteTimeout, s.PoolTimeout, s.DialerRetries, s.MaxRetries, s.ContextTimeoutEnabled, s.DisableIdentity, "", "", ""}
		if s.MaintNotificationsConfig == nil || s.MaintNotificationsConfig.Mode != maintnotifications.ModeDisabled {
			t.Errorf("%s: notifications of maintenance are not off", rawURL)
		}
	case c != nil:
		o = opened{c.Addrs, "", c.Username, c.Password, c.ClientName, 0, c.TLSConfig, c.DialTimeout, c.ReadTimeout,
			c.WriteTimeout, c.PoolTimeout, c.DialerRetries, c.MaxRetries, c.ContextTimeoutEnabled, c.DisableIdentity, "", "", ""}
		if c.MaintNotificationsConfig == nil || c.MaintNotificationsConfig.Mode != maintnotifications.ModeDisabled {
			t.Errorf("%s: notifications of maintenance are not off", rawURL)
		}
	default:
		o = opened{f.SentinelAddrs, "", f.Username, f.Password, f.ClientName, f.DB, f.TLSConfig, f.DialTimeout, f.ReadTimeout,
			f.WriteTimeout, f.PoolTimeout, f.DialerRetries, f.MaxRetries, f.ContextTimeoutEnabled, f.DisableIdentity,
			f.MasterName, f.SentinelUsername, f.SentinelPassword}
	}
	return o
}

func TestURLNamesServersUserAndDatabase(t *testing.T) {
	for _, x := range []struct {
		url, addrs, user, password string
		db                         int
	}{
		{"redis://localhost", "localhost:6379", "", "", 0},
		{"redis://localhost/", "localhost:6379", "", "", 0},
		{"redis://10.0.0.1:7000/3", "10.0.0.1:7000", "", "", 3},
		{"redis://[::1]", "[::1]:6379", "", "", 0},
		{"redis://[2001:db8::1]:65535/15", "[2001:db8::1]:65535", "", "", 15},
		{"redis://u:p@my_host.local:1?db=2", "my_host.local:1", "u", "p", 2},
		{"redis://u:p@h/1?db=2", "h:6379", "u", "p", 2},
		{"redis://u:p@h/1?db=2&db=4", "h:6379", "u", "p", 4},
		{"redis://u@h", "h:6379", "u", "", 0},
		{"redis://:p@h", "h:6379", "", "p", 0},
		{"redis://:a:b@c@h", "h:6379", "", "a:b@c", 0},
		{"redis://:%2F%3F%23%40%25+@h", "h:6379", "", "/?#@%+", 0},
		{"rediss://u%40x:p@h/7", "h:6379", "u@x", "p", 7},
		{"unix:///run/redis.sock", "/run/redis.sock", "", "", 0},
		{"unix://u:p@/run/my%20redis.sock?db=2", "/run/my redis.sock", "u", "p", 2},
		{"redis-cluster://u:p@a:1", "a:1", "u", "p", 0},
		{"redis-cluster://u:p@a:1,b,[::1]:2/0", "a:1 b:6379 [::1]:2", "u", "p", 0},
		{"redis-cluster://a:1?addr=b:2&addr=c", "a:1 b:2 c:6379", "", "", 0},
		{"rediss-cluster://a,b", "a:6379 b:6379", "", "", 0},
		{"redis-sentinel://u:p@a,b:1/m", "a:26379 b:1", "u", "p", 0},
		{"redis-sentinel://a/m/5?addr=b", "a:26379 b:26379", "", "", 5},
		{"redis-sentinel://a/5?master_name=m", "a:26379", "", "", 5},
		{"redis-sentinel://a/m?db=6&username=u&password=p%26q", "a:26379", "u", "p&q", 6},
		{"rediss-sentinel://:p@a/m", "a:26379", "", "p", 0},
	} {
		o := open(t, x.url)
		if got := strings.Join(o.addrs, " "); got != x.addrs || o.user != x.user || o.password != x.password || o.db != x.db {
			t.Errorf("%s: got %s, %q, %q, %d", x.url, got, o.user, o.password, o.db)
		}
		if strings.Contains(x.url, "sentinel") != (o.master == "m") {
			t.Errorf("%s: master %q", x.url, o.master)
		}
		if want := map[bool]string{true: "unix", false: "tcp"}[strings.HasPrefix(x.url, "unix")]; o.network != "" && o.network != want {
			t.Errorf("%s: network %s, want %s", x.url, o.network, want)
		}
		if strings.HasPrefix(x.url, "rediss") != (o.tls != nil) {
			t.Errorf("%s: TLS %v", x.url, o.tls != nil)
		}
	}
	o := open(t, "redis-sentinel://u:p@a/m?sentinel_username=su&sentinel_password=s%3Ap")
	if o.user != "u" || o.password != "p" || o.sentinelUser != "su" || o.sentinelPassword != "s:p" {
		t.Errorf("got %+v", o)
	}
}

func TestCertificatesAreVerifiedForTheHost(t *testing.T) {
	for _, x := range []struct {
		url, name string
		skip      bool
	}{
		{"rediss://redis.example", "redis.example", false},
		{"rediss://redis.example?server_name=other.example", "other.example", false},
		{"rediss://[::1]:7000", "::1", false},
		{"rediss://h?skip_verify=true", "h", true},
		{"rediss-cluster://a:1", "a", false},
		{"rediss-cluster://a,b", "", false}, // the host that is dialed
		{"rediss-cluster://a,b,c?server_name=redis.example", "redis.example", false},
		{"rediss-sentinel://a/m", "a", false},
		{"rediss-sentinel://a/m?addr=b", "", false},
		{"rediss-sentinel://a/m?skip_verify=1", "a", true},
	} {
		o := open(t, x.url)
		if o.tls.ServerName != x.name || o.tls.InsecureSkipVerify != x.skip || o.tls.MinVersion != tls.VersionTLS12 {
			t.Errorf("%s: name %q, skip %v, version %x", x.url, o.tls.ServerName, o.tls.InsecureSkipVerify, o.tls.MinVersion)
		}
	}
}

var kindsOfURL = []string{"redis://h?", "unix:///s?", "redis-cluster://h?", "redis-sentinel://h/m?"}

func TestOptionsSuitALimiterUnlessTheURLSaysOtherwise(t *testing.T) {
	for _, u := range kindsOfURL {
		for _, blank := range []string{"", "max_retries=&read_timeout=&pool_timeout="} {
			o := open(t, u+blank)
			if o.dial != time.Second || o.read != time.Second || o.write != time.Second || o.pool != time.Second ||
				o.retries != -1 || o.dials != 1 || !o.contexts || !o.anonymous {
				t.Errorf("%s: got %+v", u+blank, o)
			}
		}
		o := open(t, u+"dial_timeout=3s&read_timeout=250ms&write_timeout=2&pool_timeout=5s&max_retries=2&client_name=x")
		if o.dial != 3*time.Second || o.read != 250*time.Millisecond || o.write != 2*time.Second || o.pool != 5*time.Second ||
			o.retries != 2 || o.name != "x" {
			t.Errorf("%s: got %+v", u, o)
		}
	}
	for _, u := range kindsOfURL[2:] {
		if o := open(t, u+"dialer_retries=4"); o.dials != 4 {
			t.Errorf("%s: %d dials", u, o.dials)
		}
	}
	o := open(t, kindsOfURL[3]+"context_timeout_enabled=false&disableIdentity=false")
	if o.contexts || o.anonymous {
		t.Errorf("got %+v", o)
	}
	_, c, _, err := redisstore.Options(kindsOfURL[2] + "max_redirects=5&read_only=true")
	if err != nil || c.MaxRedirects != 5 || !c.ReadOnly || c.ClusterStateReloadInterval != 5*time.Second {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestServerWithoutATrustedCertificateIsRefused(t *testing.T) {
	web := httptest.NewUnstartedServer(nil)
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	defer web.Close()
	addr := strings.TrimPrefix(web.URL, "https://")
	for _, x := range []struct {
		url     string
		refused bool
	}{
		{"rediss://" + addr, true},
		{"rediss://" + addr + "?server_name=example.com", true},
		{"rediss-cluster://" + addr, true},
		{"rediss://" + addr + "?skip_verify=true", false}, // it is no Redis, but that is found out later
	} {
		s, err := redisstore.Open(x.url)
		if err != nil {
			t.Fatal(err)
		}
		_, err = redisstore.NewScript("return 1").Run(t.Context(), redisstore.ClientIn(s), keys, nil)
		var untrusted *tls.CertificateVerificationError
		if err == nil || errors.As(err, &untrusted) != x.refused {
			t.Errorf("%s: got %v", x.url, err)
		}
		s.Close()
	}
}

func TestOpenMakesNoConnection(t *testing.T) {
	var dials atomic.Int32
	for _, u := range kindsOfURL {
		c, err := redisstore.ClientOf(u, func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			return nil, errors.New("no network here")
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
		if n := dials.Swap(0); n != 0 {
			t.Errorf("%s: %d dials at the start", u, n)
		}
		_, err = redisstore.NewScript("return 1").Run(t.Context(), c, keys, nil)
		if n := dials.Swap(0); err == nil || n == 0 {
			t.Errorf("%s: %d dials for a call, %v: this test shows nothing", u, n, err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
}

func TestOpenedStoreCountsAndClosesItsClient(t *testing.T) {
	m := miniredis.RunT(t)
	m.RequireUserAuth("u", "p")
	s, err := redisstore.Open("redis://u:p@"+m.Addr()+"/2", nil, redisstore.Prefix("mine"))
	if err != nil {
		t.Fatal(err)
	}
	c := redisstore.ClientIn(s)
	reply, err := redisstore.NewScript(`return {redis.call("INCR", KEYS[1])}`).Run(t.Context(), c, keys[:1], nil)
	if n, _ := m.DB(2).Get(keys[0]); err != nil || !slices.Equal(reply, []int64{1}) || n != "1" {
		t.Errorf("got %v, %v; database 2 holds %q", reply, err, n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := redisstore.NewScript("return {1}").Run(t.Context(), c, keys, nil); err == nil {
		t.Error("the client works after the store was closed")
	}
}

func ExampleOpen() {
	store, err := redisstore.Open("rediss-sentinel://app:secret@sentinel1,sentinel2/mymaster?pool_size=50")
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter, err := core.New(core.Config{Name: "api", Store: store, Limits: []core.Limit{core.PerMinute(100)}})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close()
}

func ExampleOpen_fault() {
	_, err := redisstore.Open("redis://app:secret@localhost:6379?pool_size=fifty")
	fmt.Println(err)
	// Output: slidegate: url: pool_size = fifty: not a value of this parameter; use a whole number, true or false, or a duration such as 500ms
}
