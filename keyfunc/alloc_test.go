//go:build !race

package keyfunc_test

import (
	"hash/maphash"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/keyfunc"
)

// The race detector allocates by itself, so these run without it only.
func TestAllocations(t *testing.T) {
	trusted := []string{"192.0.2.0/24", "10.0.0.0/8"}
	apiKey, byIP := keyfunc.ByAPIKey("X-API-Key"), keyfunc.ByIP()
	for _, c := range []struct {
		name string
		f    keyfunc.Func
		q    keyfunc.Request
	}{
		{"peer", byIP, request(peer)},
		{"IPv6 peer", byIP, request("[2001:db8:1:2::3]:4711")},
		{"unix peer", byIP, request("@")},
		{"X-Forwarded-For", keyfunc.ByIP(keyfunc.XForwardedFor(trusted...)), request(proxy, xff("9.9.9.9, 2001:db8::1", "198.51.100.7:80, 10.0.0.2")...)},
		{"X-Forwarded-For absent", keyfunc.ByIP(keyfunc.XForwardedFor(trusted...)), request(proxy)},
		{"Forwarded", keyfunc.ByIP(keyfunc.Forwarded(trusted...)), request(proxy, `Forwarded: for=9.9.9.9;proto=https, for="[2001:db8::1]:80", for=10.0.0.2`)},
		{"single header", keyfunc.ByIP(keyfunc.ClientIPHeader("CF-Connecting-IP", trusted...)), request(proxy, "CF-Connecting-IP: 198.51.100.7")},
		{"API key", apiKey, request(peer, "X-API-Key: sk_live_abc")},
		{"API key of 400 bytes", apiKey, request(peer, "X-API-Key: "+strings.Repeat("k", 400))},
		{"bearer", keyfunc.ByBearer(), request(peer, "Authorization: Bearer abc")},
		{"header", keyfunc.ByHeader("X-User"), request(peer, "X-User: abc")},
		{"long header", keyfunc.ByHeader("X-User"), request(peer, "X-User: "+strings.Repeat("a", 300))},
		{"route", keyfunc.ByRoute(), keyfunc.NewRequest(request(peer).HTTP(), func(keyfunc.Request) string { return "GET /users/{id}" }, nil)},
		{"method", keyfunc.ByMethod(), request(peer)},
		{"API key or else address", keyfunc.First(apiKey, byIP), request(peer)},
		{"joined", keyfunc.All(byIP, keyfunc.ByMethod(), keyfunc.ByHeader("X-User")), request(peer, "X-User: abc")},
	} {
		if n := testing.AllocsPerRun(100, func() { sinkKey, _ = c.f(c.q) }); n != 0 || sinkKey.IsZero() {
			t.Errorf("%s: %v allocations for %v", c.name, n, sinkKey)
		}
	}
	for name, f := range map[string]keyfunc.Func{"missing": apiKey, "required": keyfunc.Required(apiKey), "first": keyfunc.First(apiKey, keyfunc.ByHeader("X-User"))} {
		q := request(peer)
		if n := testing.AllocsPerRun(100, func() { sinkKey, _ = f(q) }); n != 0 {
			t.Errorf("a %s key: %v allocations", name, n)
		}
	}
	double := request(peer, "X-API-Key: a", "X-API-Key: b")
	if n := testing.AllocsPerRun(100, func() { sinkKey, _ = apiKey(double) }); n != 0 {
		t.Errorf("an ambiguous key: %v allocations", n)
	}
}

var (
	sinkKey  keyfunc.Key
	sinkHash uint64
)

func TestFormsDoNotAllocate(t *testing.T) {
	sealer, seed := newSealer(t, "0123456789abcdef"), maphash.MakeSeed()
	buf := make([]byte, 0, keyfunc.MaxText)
	for name, k := range everyKey(strings.Repeat("u", 100), "X-User") {
		if n := testing.AllocsPerRun(100, func() { _, _ = k.AppendBinary(buf) }); n != 0 {
			t.Errorf("binary form of %s: %v allocations", name, n)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = k.AppendText(buf) }); n != 0 {
			t.Errorf("text of %s: %v allocations", name, n)
		}
		if n := testing.AllocsPerRun(1000, func() { sinkKey = sealer.Seal(k) }); n != 0 {
			t.Errorf("sealing %s: %v allocations", name, n)
		}
		if n := testing.AllocsPerRun(100, func() { sinkHash = k.Hash(seed) }); n != 0 {
			t.Errorf("hash of %s: %v allocations", name, n)
		}
	}
}
