package keyfunc_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/keyfunc"
)

const peer = "203.0.113.9:4711"

func wantMissing(t *testing.T, f keyfunc.Func, q keyfunc.Request) {
	t.Helper()
	key, err := f(q)
	if !errors.Is(err, keyfunc.ErrMissing) || errors.Is(err, keyfunc.ErrRequired) || !key.IsZero() {
		t.Errorf("got %v, %v; want a missing key", key, err)
	}
	if m, ok := errors.AsType[*keyfunc.MissingError](err); !ok || m.What == "" {
		t.Errorf("error %v does not say what is missing", err)
	}
}

func wantAmbiguous(t *testing.T, f keyfunc.Func, q keyfunc.Request) {
	t.Helper()
	key, err := f(q)
	if !errors.Is(err, keyfunc.ErrAmbiguous) || errors.Is(err, keyfunc.ErrMissing) || !key.IsZero() {
		t.Errorf("got %v, %v; want an ambiguous key", key, err)
	}
}

func TestByUser(t *testing.T) {
	failure := errors.New("session store down")
	answer := func(id string, err error) keyfunc.Func {
		return keyfunc.ByUser(func(*http.Request) (string, error) { return id, err })
	}
	want(t, answer("42", nil), request(peer), "user:42")
	wantMissing(t, answer("", nil), request(peer))
	if key, err := answer("42", failure)(request(peer)); !errors.Is(err, failure) || errors.Is(err, keyfunc.ErrMissing) || !key.IsZero() {
		t.Errorf("got %v, %v", key, err)
	}
	if _, err := answer("", keyfunc.ErrMissing)(request(peer)); !errors.Is(err, keyfunc.ErrMissing) {
		t.Errorf("got %v, want ErrMissing as the function says", err)
	}
}

func TestByHeader(t *testing.T) {
	f := keyfunc.ByHeader("x-user")
	want(t, f, request(peer, "X-User: abc"), "header:X-User:abc")
	want(t, f, request(peer, "X-User: \t abc "), "header:X-User:abc")
	want(t, f, request(peer, "X-User: abc", "X-User: abc "), "header:X-User:abc")
	wantMissing(t, f, request(peer))
	wantMissing(t, f, request(peer, "X-User:  \t"))
	wantMissing(t, f, keyfunc.Request{})
	if read(t, f, request(peer, "X-User: abc")) != keyfunc.Header("X-User", "abc") {
		t.Error("the header's key is not that of the constructor")
	}
}

func TestHeaderLinesThatDifferAreNotGuessedAt(t *testing.T) {
	for _, f := range []keyfunc.Func{keyfunc.ByHeader("X-User"), keyfunc.ByAPIKey("X-User")} {
		wantAmbiguous(t, f, request(peer, "X-User: abc", "X-User: def"))
		wantAmbiguous(t, f, request(peer, "X-User: ", "X-User: abc"))
		wantAmbiguous(t, f, request(peer, "X-User: abc", "X-User: abc", "X-User: "))
		wantAmbiguous(t, keyfunc.First(f, keyfunc.ByIP()), request(peer, "X-User: abc", "X-User: def"))
	}
}

func TestRawPathParametersDoNotMakeAKeyPerID(t *testing.T) {
	keys := map[keyfunc.Key]bool{}
	for i := range 10 {
		r := request(peer).HTTP()
		r.URL.Path = fmt.Sprint("/users/", i)
		keys[read(t, keyfunc.ByRoute(), keyfunc.NewRequest(r, func(keyfunc.Request) string { return "GET /users/{id}" }, nil))] = true
	}
	if len(keys) != 1 || !keys[keyfunc.Route("/users/{id}")] {
		t.Errorf("keys %v", keys)
	}
}

func TestUnroutedRequestsShareOneKey(t *testing.T) {
	keys := map[keyfunc.Key]bool{}
	for i := range 1000 {
		r := request(peer).HTTP()
		r.URL.Path = fmt.Sprint("/random/", i)
		keys[read(t, keyfunc.ByRoute(), keyfunc.NewRequest(r, func(keyfunc.Request) string { return "" }, nil))] = true
	}
	keys[read(t, keyfunc.ByRoute(), keyfunc.Request{})] = true
	if len(keys) != 1 || !keys[keyfunc.Route(keyfunc.Unmatched)] {
		t.Errorf("%d keys", len(keys))
	}
}

func TestRoutesOfOneGroupShareItsKey(t *testing.T) {
	a, b := keyfunc.All(keyfunc.ByIP(), keyfunc.ByName("g")), keyfunc.All(keyfunc.ByIP(), keyfunc.ByName("g"))
	if read(t, a, request(peer)) != read(t, b, request(peer)) {
		t.Error("two routes of a group have two keys")
	}
	if read(t, a, request(peer)) == read(t, keyfunc.All(keyfunc.ByIP(), keyfunc.ByName("h")), request(peer)) {
		t.Error("two groups share a key")
	}
}

func TestHeadDoesNotDoubleTheQuota(t *testing.T) {
	for method, text := range map[string]string{"GET": "method:GET", "HEAD": "method:GET", "": "method:GET", "POST": "method:POST", "BREW": "method:OTHER"} {
		r := request(peer).HTTP()
		r.Method = method
		want(t, keyfunc.ByMethod(), keyfunc.NewRequest(r, nil, nil), text)
	}
	want(t, keyfunc.ByMethod(), keyfunc.Request{}, "method:GET")
}

func TestMethodOverrideHeaderIsNotRead(t *testing.T) {
	want(t, keyfunc.ByMethod(), request(peer, "X-HTTP-Method-Override: DELETE"), "method:GET")
}

func TestByName(t *testing.T) {
	want(t, keyfunc.ByName("all"), request(peer), "name:all")
}

func TestByAddressNormalisesTheFrameworksResult(t *testing.T) {
	for text, key := range map[string]string{
		"203.0.113.9": "ip:203.0.113.9", " 203.0.113.9\n": "ip:203.0.113.9", "203.0.113.9:80": "ip:203.0.113.9",
		"2001:DB8:0:0:0:0:0:7": "ip:2001:db8::/64", "[2001:db8::7]": "ip:2001:db8::/64", "[2001:db8::7]:80": "ip:2001:db8::/64",
		"::ffff:198.51.100.7": "ip:198.51.100.7", "[::ffff:198.51.100.7]:1": "ip:198.51.100.7", "::ffff:198.51.100.7%eth0": "ip:198.51.100.7",
		"fe80::1%eth0": "ip:fe80::/64", "[fe80::1%eth0]:80": "ip:fe80::/64", "2001:db8::1%anything at all": "ip:2001:db8::/64",
		"": "noaddress:", "<nil>": "noaddress:", "not an ip at all": "noaddress:", "@": "noaddress:", "unknown": "noaddress:",
		"203.0.113.09": "noaddress:", "203.0.113.9:": "noaddress:", "203.0.113.9:x": "noaddress:", "203.0.113.9:65536": "noaddress:",
		"203.0.113.9:+80": "noaddress:", "203.0.113.9:000080": "noaddress:", "203.0.113.9%eth0": "noaddress:", "203.0.113.9%eth0:80": "noaddress:",
		"[203.0.113.9]:80": "noaddress:", "[2001:db8::7": "noaddress:", "[2001:db8::7]80": "noaddress:", "[2001:db8::7]:": "noaddress:",
		"[]": "noaddress:", "[": "noaddress:", ":80": "noaddress:", "fe80::1%": "noaddress:", "1.1.1.1, 2.2.2.2": "noaddress:",
		"2001:db8::" + strings.Repeat("0", 200): "noaddress:", "fe80::1%" + strings.Repeat("z", 200): "noaddress:", "1": "noaddress:", "1.2.3.4.5": "noaddress:",
	} {
		want(t, keyfunc.ByAddress(func(keyfunc.Request) string { return text }), request(peer), key)
	}
}

func TestByAddressReadsTheFrameworksContext(t *testing.T) {
	f := keyfunc.ByAddress(func(q keyfunc.Request) string { return q.Native().(string) })
	want(t, f, keyfunc.NewRequest(nil, nil, "198.51.100.7"), "ip:198.51.100.7")
}
