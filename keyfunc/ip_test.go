package keyfunc_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/keyfunc"
)

const proxy = "10.0.0.1:4711"

// addressCase is a request and the key that it must have.
type addressCase struct {
	peer  string
	lines []string
	want  string
}

func runAddressCases(t *testing.T, f keyfunc.Func, cases []addressCase) {
	t.Helper()
	for _, c := range cases {
		if got := read(t, f, request(c.peer, c.lines...)).String(); got != c.want {
			t.Errorf("peer %.60q, lines %.200q: key %q, want %q", c.peer, c.lines, got, c.want)
		}
	}
}

// xff returns the lines of X-Forwarded-For.
func xff(values ...string) []string {
	lines := make([]string, len(values))
	for i, v := range values {
		lines[i] = "X-Forwarded-For: " + v
	}
	return lines
}

func TestDefaultKeyIsThePeerWhateverTheHeadersSay(t *testing.T) {
	forged := []string{
		"X-Forwarded-For: 1.1.1.1", "Forwarded: for=1.1.1.1", "X-Real-IP: 1.1.1.1", "True-Client-IP: 1.1.1.1",
		"CF-Connecting-IP: 1.1.1.1", "X-Client-IP: 1.1.1.1", "X-Cluster-Client-IP: 1.1.1.1",
	}
	runAddressCases(t, keyfunc.ByIP(), []addressCase{
		{"203.0.113.9:4711", forged, "ip:203.0.113.9"},
		{"10.1.2.3:4711", forged, "ip:10.1.2.3"},
		{"127.0.0.1:4711", forged, "ip:127.0.0.1"},
		{"203.0.113.9", nil, "ip:203.0.113.9"},
		{"[2001:db8:1:2::1]:4711", forged, "ip:2001:db8:1:2::/64"},
		{"[fe80::1%eth0]:4711", forged, "ip:fe80::/64"},
		{"[::ffff:203.0.113.7]:4711", nil, "ip:203.0.113.7"},
		{"[::ffff:203.0.113.8]:4711", nil, "ip:203.0.113.8"},
		{"[::ffff:cb00:7107]:4711", nil, "ip:203.0.113.7"},
		{"@", forged, "noaddress:"},
		{"", forged, "noaddress:"},
		{"/run/app.sock", forged, "noaddress:"},
		{"localhost:80", forged, "noaddress:"},
		{strings.Repeat("1", 5000), forged, "noaddress:"},
	})
	want(t, keyfunc.ByIP(), keyfunc.Request{}, "noaddress:")
	made, err := http.NewRequest(http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, keyfunc.ByIP(), keyfunc.NewRequest(made, nil, nil), "noaddress:")
}

func TestIPv6ClientsCannotRotateWithinTheirNetwork(t *testing.T) {
	keys := map[keyfunc.Key]bool{}
	for i := 1; i <= 10; i++ {
		keys[read(t, keyfunc.ByIP(), request(fmt.Sprintf("[2001:db8:1:2::%x]:1", i)))] = true
	}
	if len(keys) != 1 || keys[read(t, keyfunc.ByIP(), request("[2001:db8:1:3::1]:1"))] {
		t.Errorf("keys %v", keys)
	}
	for bits, text := range map[int]string{
		32: "ip:2001:db8::/32", 48: "ip:2001:db8:1::/48", 56: "ip:2001:db8:1:200::/56", 64: "ip:2001:db8:1:203::/64", 128: "ip:2001:db8:1:203:4:5:6:7",
	} {
		f := keyfunc.ByIP(keyfunc.IPv6Prefix(bits))
		want(t, f, request("[2001:db8:1:203:4:5:6:7]:1"), text)
		want(t, f, request("203.0.113.9:1"), "ip:203.0.113.9")
		want(t, f, request("[::ffff:203.0.113.9]:1"), "ip:203.0.113.9")
		want(t, f, request(""), "noaddress:")
	}
}

func TestXForwardedForIsWalkedFromTheRight(t *testing.T) {
	runAddressCases(t, keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.0/8")), []addressCase{
		{proxy, xff("198.51.100.7"), "ip:198.51.100.7"},
		{proxy, xff("1.1.1.1, 198.51.100.7"), "ip:198.51.100.7"},
		{proxy, xff("9.9.9.9, 198.51.100.7, 10.0.0.2"), "ip:198.51.100.7"},
		{proxy, xff("9.9.9.9,198.51.100.7\t,\t10.0.0.2 "), "ip:198.51.100.7"},
		{proxy, xff("198.51.100.7:5678"), "ip:198.51.100.7"},
		{proxy, xff("[2001:db8:1:2::7]:5678"), "ip:2001:db8:1:2::/64"},
		{proxy, xff("[2001:db8:1:2::7]"), "ip:2001:db8:1:2::/64"},
		{proxy, xff("2001:db8:1:2::7"), "ip:2001:db8:1:2::/64"},
		{proxy, xff("::ffff:198.51.100.7"), "ip:198.51.100.7"},
		{proxy, xff("1.1.1.1, fe80::1%eth0"), "ip:fe80::/64"},
		{proxy, xff("1.1.1.1, 10.0.0.2:80, 10.0.0.3"), "ip:1.1.1.1"},
	})
}

func TestChainOfTrustedHopsGivesTheLeftmost(t *testing.T) {
	runAddressCases(t, keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.0/8")), []addressCase{
		{proxy, xff("10.0.0.5, 10.0.0.2"), "ip:10.0.0.5"},
		{proxy, xff("10.0.0.5", "10.0.0.2"), "ip:10.0.0.5"},
		{proxy, xff("10.0.0.5"), "ip:10.0.0.5"},
		{proxy, nil, "ip:10.0.0.1"},
		{proxy, xff(""), "ip:10.0.0.1"},
	})
}

func TestEveryXForwardedForLineCounts(t *testing.T) {
	runAddressCases(t, keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.0/8")), []addressCase{
		{proxy, xff("1.1.1.1", "203.0.113.9"), "ip:203.0.113.9"},
		{proxy, xff("203.0.113.9", "10.0.0.2"), "ip:203.0.113.9"},
		{proxy, xff("1.1.1.1", "203.0.113.9, 10.0.0.3", "10.0.0.2"), "ip:203.0.113.9"},
		{proxy, xff("1.1.1.1", ""), "ip:10.0.0.1"},
		{proxy, xff("1.1.1.1", "junk"), "ip:10.0.0.1"},
		{proxy, xff("", "203.0.113.9"), "ip:203.0.113.9"},
	})
}

func TestHeadersOfUntrustedPeersDoNotCount(t *testing.T) {
	for _, opt := range []keyfunc.IPOption{
		keyfunc.XForwardedFor("10.0.0.1"), keyfunc.Forwarded("10.0.0.1"), keyfunc.ClientIPHeader("X-Real-IP", "10.0.0.1"),
	} {
		f := keyfunc.ByIP(opt)
		lines := []string{"X-Forwarded-For: 1.1.1.1, 10.0.0.1", "Forwarded: for=1.1.1.1", "X-Real-IP: 1.1.1.1"}
		for peer, text := range map[string]string{"10.0.0.2:1": "ip:10.0.0.2", "203.0.113.9:1": "ip:203.0.113.9", "[::1]:1": "ip:::/64", "@": "noaddress:", "": "noaddress:"} {
			want(t, f, request(peer, lines...), text)
		}
	}
}

func TestTrustOfOneHopDoesNotTrustItsNeighbours(t *testing.T) {
	line := xff("198.51.100.99, 192.168.1.50")
	want(t, keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.1/32")), request(proxy, line...), "ip:192.168.1.50")
}

func TestJunkInXForwardedForNeverReachesFurtherLeft(t *testing.T) {
	f := keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.0/8"))
	junk := []string{
		"garbage", "unknown", "", " ", "_hidden", "1.1.1", "1.1.1.1.1", "01.1.1.1", "1.1.1.1/32", "1.1.1.1:99999", "1.1.1.1:", "[::1", "::1]", "[1.1.1.1]",
		"2001:db8::g", "1.1.1.1 2.2.2.2", `"1.1.1.1"`, "for=1.1.1.1", "<nil>", "%eth0", "fe80::1%", "\x00", "\xff", "localhost", "0x7f.1", "::ffff:1.1.1.1.1",
		strings.Repeat("1", 64<<10), strings.Repeat("[", 64<<10), "fe80::1%" + strings.Repeat("z", 64<<10),
	}
	for _, j := range junk {
		runAddressCases(t, f, []addressCase{
			{proxy, xff(j), "ip:10.0.0.1"},
			{proxy, xff("1.1.1.1, " + j), "ip:10.0.0.1"},
			{proxy, xff("1.1.1.1, " + j + ", 10.0.0.2"), "ip:10.0.0.2"},
			{proxy, xff("1.1.1.1", j), "ip:10.0.0.1"},
			{proxy, xff(j + ", 198.51.100.7"), "ip:198.51.100.7"},
		})
	}
	runAddressCases(t, f, []addressCase{{proxy, xff("1.1.1.1,,"), "ip:10.0.0.1"}, {proxy, xff("1.1.1.1, 10.0.0.2,"), "ip:10.0.0.1"}})
}

func TestWalkEndsAfterSixtyFourHops(t *testing.T) {
	chain := func(n int) string { // the client and n trusted hops, numbered from the right
		elements := []string{"198.51.100.7"}
		for i := n; i > 0; i-- {
			elements = append(elements, fmt.Sprintf("10.0.%d.%d", i>>8, i&0xff))
		}
		return strings.Join(elements, ", ")
	}
	x := keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.0/8"))
	runAddressCases(t, x, []addressCase{
		{proxy, xff(chain(63)), "ip:198.51.100.7"},
		{proxy, xff(chain(64)), "ip:10.0.0.64"},
		{proxy, xff(chain(10_000)), "ip:10.0.0.64"},
		{proxy, xff(strings.Split(chain(10_000), ", ")...), "ip:10.0.0.64"},
		{proxy, xff("198.51.100.7, " + strings.Repeat(",", 64<<10)), "ip:10.0.0.1"},
	})
	rfc7239 := func(s string) []string { return []string{"Forwarded: for=" + strings.ReplaceAll(s, ", ", ",for=")} }
	runAddressCases(t, keyfunc.ByIP(keyfunc.Forwarded("10.0.0.0/8")), []addressCase{
		{proxy, rfc7239(chain(63)), "ip:198.51.100.7"},
		{proxy, rfc7239(chain(64)), "ip:10.0.0.64"},
		{proxy, rfc7239(chain(10_000)), "ip:10.0.0.64"},
	})
}

func TestEdgeThatAddsItsOwnChangingAddress(t *testing.T) {
	both := keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.1", "192.0.2.0/24"))
	for edge := 161; edge <= 163; edge++ {
		line := xff(fmt.Sprintf("198.51.100.7, 192.0.2.%d", edge))
		want(t, both, request(proxy, line...), "ip:198.51.100.7")
		want(t, keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.1")), request(proxy, line...), fmt.Sprintf("ip:192.0.2.%d", edge))
	}
}

func TestTrustedPrefixesMatchMappedAddresses(t *testing.T) {
	for _, trusted := range []string{"10.0.0.0/8", "::ffff:10.0.0.0/104", "::ffff:a00:0/104"} {
		f := keyfunc.ByIP(keyfunc.XForwardedFor(trusted))
		for _, peer := range []string{"10.1.2.3:1", "[::ffff:10.1.2.3]:1", "[::ffff:a01:203]:1"} {
			want(t, f, request(peer, xff("198.51.100.7")...), "ip:198.51.100.7")
			want(t, f, request(peer, xff("198.51.100.7, ::ffff:10.9.9.9")...), "ip:198.51.100.7")
		}
		want(t, f, request("11.1.2.3:1", xff("198.51.100.7")...), "ip:11.1.2.3")
	}
	for _, trusted := range []string{"10.1.2.3", "::ffff:10.1.2.3"} {
		f := keyfunc.ByIP(keyfunc.XForwardedFor(trusted))
		want(t, f, request("[::ffff:10.1.2.3]:1", xff("198.51.100.7")...), "ip:198.51.100.7")
		want(t, f, request("10.1.2.4:1", xff("198.51.100.7")...), "ip:10.1.2.4")
	}
	v6 := keyfunc.ByIP(keyfunc.XForwardedFor("fe80::/10", "2001:db8:f::1"))
	want(t, v6, request("[fe80::1%eth0]:1", xff("198.51.100.7, 2001:db8:f::1%x, fe80::2%y")...), "ip:198.51.100.7")
	want(t, v6, request("[2001:db8:f::2]:1", xff("198.51.100.7")...), "ip:2001:db8:f::/64")
}

func TestClientIPHeader(t *testing.T) {
	f := keyfunc.ByIP(keyfunc.ClientIPHeader("cf-connecting-ip", "10.0.0.0/8"))
	line := func(v string) []string { return []string{"CF-Connecting-IP: " + v} }
	runAddressCases(t, f, []addressCase{
		{proxy, line("198.51.100.7"), "ip:198.51.100.7"},
		{proxy, line(" 198.51.100.7\t"), "ip:198.51.100.7"},
		{proxy, line("198.51.100.7:80"), "ip:198.51.100.7"},
		{proxy, line("2001:db8:1:2::7"), "ip:2001:db8:1:2::/64"},
		{proxy, line("::ffff:198.51.100.7"), "ip:198.51.100.7"},
		{proxy, line("10.0.0.9"), "ip:10.0.0.9"},
		{proxy, nil, "ip:10.0.0.1"},
		{proxy, line(""), "ip:10.0.0.1"},
		{proxy, line("not an ip at all"), "ip:10.0.0.1"},
		{proxy, line("1.1.1.1, 198.51.100.7"), "ip:10.0.0.1"},
		{proxy, append(line("198.51.100.7"), line("198.51.100.7")...), "ip:10.0.0.1"},
		{proxy, append(line("1.1.1.1"), line("198.51.100.7")...), "ip:10.0.0.1"},
		{proxy, line(strings.Repeat("1", 64<<10)), "ip:10.0.0.1"},
		{proxy, xff("1.1.1.1"), "ip:10.0.0.1"},
		{peer, line("1.1.1.1"), "ip:203.0.113.9"},
	})
}

func TestForwarded(t *testing.T) {
	f := keyfunc.ByIP(keyfunc.Forwarded("10.0.0.0/8"))
	for value, text := range map[string]string{
		"for=198.51.100.7": "ip:198.51.100.7",
		`for=1.1.1.1;proto=http, For="[2001:db8:cafe::17]:4711"`:   "ip:2001:db8:cafe::/64",
		`FOR="[2001:db8:cafe::17]"`:                                "ip:2001:db8:cafe::/64",
		`for="198.51.100.7"`:                                       "ip:198.51.100.7",
		`for="198.51.100.7:80"`:                                    "ip:198.51.100.7",
		`for="198.51.100.7:_x.y-z"`:                                "ip:198.51.100.7",
		`for="\1\98.51.100.7"`:                                     "ip:198.51.100.7",
		`for="[::ffff:198.51.100.7]"`:                              "ip:198.51.100.7",
		`for="[fe80::1%eth0]"`:                                     "ip:fe80::/64",
		"by=10.0.0.1;for=198.51.100.7;host=a;proto=https;x=y":      "ip:198.51.100.7",
		"by=10.0.0.1 ; for=198.51.100.7\t;\tproto=https":           "ip:198.51.100.7",
		";for=198.51.100.7;;":                                      "ip:198.51.100.7",
		"for=1.1.1.1, for=198.51.100.7, for=10.0.0.3,for=10.0.0.2": "ip:198.51.100.7",
		"for=10.0.0.3,for=10.0.0.2":                                "ip:10.0.0.3",
		`for=198.51.100.7;ext="a,for=9.9.9.9"`:                     "ip:198.51.100.7",
		`for=198.51.100.7;ext="\",for=9.9.9.9"`:                    "ip:198.51.100.7",
		"for=198.51.100.7;ext=\"tab\tand \xff\"":                   "ip:198.51.100.7",
		// No address: the last good hop counts.
		"for=unknown":                                 "ip:10.0.0.1",
		"for=_x":                                      "ip:10.0.0.1",
		"for=1.1.1.1,for=unknown":                     "ip:10.0.0.1",
		"for=1.1.1.1,for=_hidden,for=10.0.0.2":        "ip:10.0.0.2",
		"for=1.1.1.1,by=10.0.0.9":                     "ip:10.0.0.1",
		"for=1.1.1.1,by=10.0.0.9,for=10.0.0.2":        "ip:10.0.0.2",
		"for=1.1.1.1,":                                "ip:10.0.0.1",
		"for=1.1.1.1,,for=10.0.0.2":                   "ip:10.0.0.2",
		"":                                            "ip:10.0.0.1",
		`for=""`:                                      "ip:10.0.0.1",
		`for="a,for=9.9.9.9"`:                         "ip:10.0.0.1",
		`for="\"1.1.1.1\""`:                           "ip:10.0.0.1",
		`for="2001:db8::1"`:                           "ip:10.0.0.1",
		`for="[198.51.100.7]"`:                        "ip:10.0.0.1",
		`for="[2001:db8::1"`:                          "ip:10.0.0.1",
		`for="[2001:db8::1]x"`:                        "ip:10.0.0.1",
		`for="[2001:db8::1]:"`:                        "ip:10.0.0.1",
		`for="[2001:db8::1]:_"`:                       "ip:10.0.0.1",
		`for="198.51.100.7:"`:                         "ip:10.0.0.1",
		`for="198.51.100.7:99999"`:                    "ip:10.0.0.1",
		`for="198.51.100.7:_a b"`:                     "ip:10.0.0.1",
		`for="198.51.100.7 "`:                         "ip:10.0.0.1",
		"for=" + strings.Repeat("1", 64<<10):          "ip:10.0.0.1",
		`for="` + strings.Repeat(`\1`, 64<<10) + `"`:  "ip:10.0.0.1",
		`for="[` + strings.Repeat(`:`, 64<<10) + `]"`: "ip:10.0.0.1",
	} {
		runAddressCases(t, f, []addressCase{{proxy, []string{"Forwarded: " + value}, text}})
	}
	runAddressCases(t, f, []addressCase{
		{proxy, []string{"Forwarded: for=1.1.1.1", "Forwarded: for=198.51.100.7"}, "ip:198.51.100.7"},
		{proxy, []string{"Forwarded: for=198.51.100.7", "Forwarded: for=10.0.0.2"}, "ip:198.51.100.7"},
		{proxy, nil, "ip:10.0.0.1"},
		{proxy, xff("1.1.1.1"), "ip:10.0.0.1"},
	})
}

func TestForwardedThatBreaksTheGrammarIsNotUsed(t *testing.T) {
	f := keyfunc.ByIP(keyfunc.Forwarded("10.0.0.0/8"))
	for _, broken := range []string{
		`for="1.1.1.1`, `for="`, `"`, `for=1.1.1.1"`, `for="1.1.1.1"x`, `for="1.1.1.1\`, `for="1.1.1.1\"`, "for", "for=", "=1.1.1.1", "for =1.1.1.1",
		"for= 1.1.1.1", "for=1.1.1.1 proto=http", "for=1.1.1.1;proto", "for=1.1.1.1;proto=", "for=[2001:db8::1]", "for=1.1.1.1:80", "1.1.1.1",
		"for=1.1.1.1;for=2.2.2.2", `for="";for=2.2.2.2`, "for=\"1.1.1.1\x00\"", "for=\"1.1.1.1\\\x00\"", "for=\"1.1.1.1\x7f\"", "for=1.1.1.1\x00", "\xff", "for=a{b}", "for=1.1.1.1;\"",
	} {
		runAddressCases(t, f, []addressCase{
			{proxy, []string{"Forwarded: " + broken}, "ip:10.0.0.1"},
			{proxy, []string{"Forwarded: for=1.1.1.1, " + broken}, "ip:10.0.0.1"},
			{proxy, []string{"Forwarded: " + broken + ", for=198.51.100.7"}, "ip:10.0.0.1"},
			{proxy, []string{"Forwarded: " + broken, "Forwarded: for=198.51.100.7"}, "ip:10.0.0.1"},
			{proxy, []string{"Forwarded: for=198.51.100.7", "Forwarded: " + broken}, "ip:10.0.0.1"},
		})
	}
	// A quote opened in the client's line must not swallow the proxy's.
	runAddressCases(t, f, []addressCase{{proxy, []string{`Forwarded: for=9.9.9.9;x="`, `Forwarded: ";for=198.51.100.7`}, "ip:10.0.0.1"}})
}

func TestUnixPeerIsTrustedOnlyWhenAsked(t *testing.T) {
	for _, peer := range []string{"", "@", "@app", "/run/proxy.sock"} {
		runAddressCases(t, keyfunc.ByIP(keyfunc.XForwardedFor(), keyfunc.TrustUnixPeer()), []addressCase{
			{peer, xff("198.51.100.7"), "ip:198.51.100.7"},
			{peer, xff("1.1.1.1, 198.51.100.7"), "ip:198.51.100.7"},
			{peer, xff("1.1.1.1, junk"), "noaddress:"},
			{peer, nil, "noaddress:"},
		})
		runAddressCases(t, keyfunc.ByIP(keyfunc.TrustUnixPeer(), keyfunc.XForwardedFor("10.0.0.2")), []addressCase{
			{peer, xff("1.1.1.1, junk, 10.0.0.2"), "ip:10.0.0.2"},
			{peer, xff("198.51.100.7, 10.0.0.2"), "ip:198.51.100.7"},
			{"10.0.0.2:1", xff("198.51.100.7"), "ip:198.51.100.7"},
			{"10.0.0.3:1", xff("198.51.100.7"), "ip:10.0.0.3"},
		})
		runAddressCases(t, keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.2")), []addressCase{{peer, xff("198.51.100.7"), "noaddress:"}})
	}
	runAddressCases(t, keyfunc.ByIP(keyfunc.XForwardedFor(), keyfunc.TrustUnixPeer()), []addressCase{
		{"junk", xff("198.51.100.7"), "noaddress:"}, // a header that a middleware put there, say
		{"203.0.113.9:1", xff("198.51.100.7"), "ip:203.0.113.9"},
	})
	f := keyfunc.ByIP(keyfunc.ClientIPHeader("X-Real-IP"), keyfunc.TrustUnixPeer())
	want(t, f, request("@", "X-Real-IP: 198.51.100.7"), "ip:198.51.100.7")
	f = keyfunc.ByIP(keyfunc.Forwarded(), keyfunc.TrustUnixPeer())
	want(t, f, request("@", "Forwarded: for=198.51.100.7"), "ip:198.51.100.7")
	want(t, f, request("@", "Forwarded: for=unknown"), "noaddress:")
}

func TestByIPLeavesTheRequestAlone(t *testing.T) {
	q := request(proxy, xff("198.51.100.7")...)
	read(t, keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.1")), q)
	if r := q.HTTP(); r.RemoteAddr != proxy || r.Header.Get("X-Forwarded-For") != "198.51.100.7" {
		t.Errorf("the request is now from %s, %v", r.RemoteAddr, r.Header)
	}
}

func TestOneOptionServesSeveralFunctions(t *testing.T) {
	opt := keyfunc.XForwardedFor("10.0.0.1")
	for range 3 {
		want(t, keyfunc.ByIP(opt), request(proxy, xff("198.51.100.7")...), "ip:198.51.100.7")
	}
}

// Only a real server shows what RemoteAddr a connection has.
func TestRealTCPServer(t *testing.T) {
	var got keyfunc.Key
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = read(t, keyfunc.First(keyfunc.ByAPIKey("X-API-Key"), keyfunc.ByIP()), keyfunc.NewRequest(r, nil, nil))
	}))
	defer server.Close()
	get := func(client *http.Client, url, name, value string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(name, value)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if get(server.Client(), server.URL, "X-Forwarded-For", "1.1.1.1"); got != ip("127.0.0.1") {
		t.Errorf("key %v", got)
	}
	if get(server.Client(), server.URL, "X-API-Key", "k"); got != keyfunc.APIKey("k") {
		t.Errorf("key %v", got)
	}
}
