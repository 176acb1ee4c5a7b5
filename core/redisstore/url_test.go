package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
)

func TestFaultyURLGetsAnErrorThatNamesThePart(t *testing.T) {
	for _, x := range []struct{ url, field, value string }{
		{"", "scheme", ""},
		{"localhost:6379", "scheme", ""},
		{":pa77@localhost", "scheme", ""},
		{"pa77 w0rd://localhost", "scheme", ""},
		{"http://localhost", "scheme", "http"},
		{"redisss://localhost", "scheme", "redisss"},
		{"redis-sentinels://h/m", "scheme", "redis-sentinels"},
		{"unixs:///s", "scheme", "unixs"},
		{"redis://", "host", ""},
		{"redis:///0", "host", ""},
		{"redis://u:p@/0", "host", ""},
		{"redis://u:p@:6379", "host", ":6379"},
		{"redis://h1,h2", "host", ""},
		{"redis-cluster://h1,,h2", "host", ""},
		{"redis://::1", "host", ""},
		{"redis://[::1", "host", ""},
		{"redis://u@[::g]:1", "host", "[::g]:1"},
		{"redis://[h]", "host", ""},
		{"redis://u@ho st:1", "host", "ho st:1"},
		{"redis://u@h%41:1", "host", "h%41:1"},
		{"redis://h:0", "port", ""},
		{"redis://u@h:65536", "port", "h:65536"},
		{"redis://u@h:-1", "port", "h:-1"},
		{"redis://u@h:", "port", "h:"},
		{"redis://u@[::1]7000", "host", "[::1]7000"},
		{"redis://u@[::1]:x", "port", "[::1]:x"},
		{"redis://u@[127.0.0.1]:7000", "host", "[127.0.0.1]:7000"},
		{"redis://user:pa77", "port", ""},
		{"redis-cluster://h?addr=h:x", "port", ""},
		{"redis-sentinel://h/m?addr=", "host", ""},
		{"redis://u:%zz@h", "user and password", ""},
		{"redis://%zz:p@h", "user and password", ""},
		{"redis://u:pa/77@h", "text", ""},
		{"redis://u:pa?77@h", "text", ""},
		{"redis://u:pa#77", "text", ""},
		{"redis://h/x", "db", "x"},
		{"redis://h/-1", "db", "-1"},
		{"redis://h?db=x", "db", "x"},
		{"redis://h/99999999999", "db", "99999999999"},
		{"redis://h/0/1", "path", "/0/1"},
		{"redis://h/%zz", "path", ""},
		{"redis-cluster://h/1", "db", "1"},
		{"redis-cluster://h?db=2", "db", "2"},
		{"redis-sentinel://h", "path", ""},
		{"redis-sentinel://h/m/x", "db", "x"},
		{"redis-sentinel://h/m/0/1", "path", "/m/0/1"},
		{"redis-sentinel://u@h/m?username=x", "user and password", ""},
		{"unix://", "path", ""},
		{"unix:///", "path", ""},
		{"unix:///%zz", "path", ""},
		{"unix://run/redis.sock", "host", ""},
		{"redis://h?%zz=1", "parameters", ""},
		{"redis://h?a=1;b=2", "parameters", ""},
		{"redis://h?pasword=pa77", "pasword", ""},
		{"redis://h?pool_sise=5", "pool_sise", ""},
		{"redis://h?password=pa&77=1", "parameters", ""},
		{"redis://h?skip_verify=true", "skip_verify", ""},
		{"redis://h?server_name=x", "server_name", "x"},
		{"redis://h?master_name=x", "master_name", ""},
		{"redis://h?read_timeout=soon", "read_timeout", "soon"},
		{"redis://h?pool_fifo=yes", "pool_fifo", "yes"},
		{"redis://h?pool_size=many", "pool_size", "many"},
		{"redis://h?pool_size=-1", "pool_size", "-1"},
		{"redis://h?pool_size=2147483648", "pool_size", "2147483648"},
		{"redis://h?pipeline_pool_size=-2", "pipeline_pool_size", "-2"},
		{"redis://h?max_retries=-2", "max_retries", "-2"},
		{"redis-cluster://h?max_redirects=-2", "max_redirects", "-2"},
		{"redis://h?dial_timeout=0", "dial_timeout", "0"},
		{"redis://h?pool_timeout=-1s", "pool_timeout", "-1s"},
		{"redis-sentinel://h/m?replica_only=true", "replica_only", "true"},
		{"redis-sentinel://h/m?route_randomly=1", "route_randomly", "1"},
		{"redis-sentinel://h/m?route_by_latency=true", "route_by_latency", "true"},
	} {
		s, err := redisstore.Open(x.url)
		faults := slices.Collect(core.Faults(err))
		if s != nil || len(faults) == 0 {
			t.Errorf("%q: got %v, %v, want an error", x.url, s, err)
			continue
		}
		f := faults[0]
		if len(faults) > 1 || f.Field != "url: "+x.field || f.Value != x.value || f.Problem == "" || f.Remedy == "" {
			t.Errorf("%q: got %d faults, first %+v", x.url, len(faults), f)
		}
		if strings.Contains(err.Error(), "77") {
			t.Errorf("%q: the error shows the password: %v", x.url, err)
		}
	}
}

func TestParametersThatDoNotGoTogetherAreAFault(t *testing.T) {
	err := redisstore.FaultOf(url.Values{"a": {"1"}, "b": {"2"}}, func(query string) error {
		if strings.Contains(query, "&") {
			return errors.New("one at a time")
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "url: parameters") {
		t.Errorf("got %v", err)
	}
}

func TestAllFaultsOfAURLAreNamedAtOnce(t *testing.T) {
	_, err := redisstore.Open("redis-cluster://h:x,h:1/2?pool_size=x&nothing=1&max_retries=-7")
	var fields []string
	for f := range core.Faults(err) {
		fields = append(fields, f.Field)
	}
	if !slices.Contains(fields, "url: port") {
		t.Errorf("got %q", fields)
	}
	_, err = redisstore.Open("redis-cluster://h:1/2?pool_size=x&nothing=1&max_retries=-7")
	fields = nil
	for f := range core.Faults(err) {
		fields = append(fields, f.Field)
	}
	if want := []string{"url: db", "url: max_retries", "url: nothing", "url: pool_size"}; !slices.Equal(fields, want) {
		t.Errorf("got %q, want %q", fields, want)
	}
	var f *redisstore.FieldError
	if !errors.As(err, &f) {
		t.Errorf("no FieldError in %v", err)
	}
}

// FuzzURL has an URL of parts, whose password nothing may show.
func FuzzURL(f *testing.F) {
	for _, u := range []string{"redis", "rediss", "unix", "redis-cluster", "rediss-cluster", "redis-sentinel", "http", "", "x://y"} {
		f.Add(u, "user", "", "host:1", "/0", "pool_size=5")
		f.Add(u, "", "/?#@", "a,b:2,[::1]:3", "/m/1", "max_retries=-9&db=x&dial_timeout=-1")
		f.Add(u, "%zz", "%zz:&", "", "", "addr=h:1&skip_verify=maybe&%zz;")
		f.Add(u, "a@b", "&x=", "h@i", "/run/@s", "route_randomly=1&pool_size=99999999999")
	}
	f.Fuzz(func(t *testing.T, scheme, user, middle, hosts, path, query string) {
		// Both ends of it can be told apart from all other text.
		const head, tail = "Xq7vJ", "Zk9wB"
		secret := head + middle + tail
		for _, u := range []string{
			scheme + "://" + user + ":" + secret + "@" + hosts + path + "?" + query,
			scheme + "://" + hosts + path + "?" + query + "&password=" + secret,
			scheme + "://" + hosts + path + "?sentinel_password=" + url.QueryEscape(secret) + "&" + query,
			user + ":" + secret + "@" + hosts + path,
		} {
			plain, _ := url.QueryUnescape(u)
			c, err := redisstore.ClientOf(u, func(context.Context, string, string) (net.Conn, error) {
				if !strings.Contains(plain, "min_idle_conns") {
					t.Error("dialed")
				}
				return nil, errors.New("no network here")
			})
			if err == nil {
				c.Close()
				continue
			}
			if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, head) || strings.Contains(text, tail) {
				t.Errorf("%q: the error shows the password: %s", u, text)
			}
			for f := range core.Faults(err) {
				if f.Field == "" || f.Problem == "" || f.Remedy == "" {
					t.Errorf("%q: incomplete: %+v", u, f)
				}
			}
		}
	})
}
