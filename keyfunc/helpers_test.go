package keyfunc_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/keyfunc"
)

// request returns a request from the peer with the given header lines, each
// written "Name: value".
func request(peer string, lines ...string) keyfunc.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = peer
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return keyfunc.NewRequest(r, nil, nil)
}

// read returns the key that f reads from q, and fails the test on an error.
func read(t testing.TB, f keyfunc.Func, q keyfunc.Request) keyfunc.Key {
	t.Helper()
	key, err := f(q)
	if err != nil {
		t.Fatalf("no key: %v", err)
	}
	return key
}

// want fails the test unless f reads the key with the given text from q.
func want(t testing.TB, f keyfunc.Func, q keyfunc.Request, text string) {
	t.Helper()
	if got := read(t, f, q).String(); got != text {
		t.Errorf("key %q, want %q", got, text)
	}
}

func ip(text string) keyfunc.Key { return keyfunc.IP(netip.MustParseAddr(text)) }

func subnet(text string) keyfunc.Key { return keyfunc.Subnet(netip.MustParsePrefix(text)) }

func binary(k keyfunc.Key) string {
	b, _ := k.AppendBinary(nil)
	return string(b)
}

// strangeTexts are parts of keys that have broken separators, braces, logs or
// lengths.
var strangeTexts = []string{
	"a", "b", "a:b", "b:c", "c", ":", "::", ",", "", " ", "a ", "{", "}", "{}", "}a", "a}b", "a}c", "{x",
	"\x00", "\xff", "a\x00", "\x00a", "a\xff", "\xffa", "\r\nSet: x", "ü", "~", "~a", "%", "%7E", "%25", "/users/{id}",
	"0123456789abcdef0123456789abcdef", "~0123456789abcdef0123456789abcdef", "~sealed:0123456789abcdef0123456789abcdef",
	"203.0.113.9", "2001:db8::/64", "user:42", "apikey:00", "GET", "OTHER", "X-User", "unmatched",
	strings.Repeat("a", 114), strings.Repeat("a", 123), strings.Repeat("a", 124), strings.Repeat("{", 41), strings.Repeat("{", 42),
	strings.Repeat("a", 500), strings.Repeat("a", 501), strings.Repeat("x", 5000),
}
