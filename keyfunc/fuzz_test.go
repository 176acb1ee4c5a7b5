package keyfunc_test

import (
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/keyfunc"
)

// What follows is a second, slow reading of the rules by other means (regular
// expressions and whole lists), to compare with.

var (
	refIPv4    = regexp.MustCompile(`^([0-9.]+)(?::([0-9]{1,5}))?$`)
	refIPv6    = regexp.MustCompile(`^([0-9A-Fa-f.]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)(?:%.+)?$`)
	refBracket = regexp.MustCompile(`^\[([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)(?:%[^\]]+)?\](?::([0-9]{1,5}))?$`)
)

// refAddress reads an address; the result is invalid when s is none.
func refAddress(s string) netip.Addr {
	s = latin1(s)
	if len([]rune(s)) > 128 {
		return netip.Addr{}
	}
	for _, form := range []*regexp.Regexp{refIPv4, refIPv6, refBracket} {
		m := form.FindStringSubmatch(strings.ReplaceAll(s, "\n", "\x01"))
		if m == nil {
			continue
		}
		if len(m) > 2 && m[2] != "" {
			if port, _ := strconv.Atoi(m[2]); port > 65535 {
				continue
			}
		}
		if addr, err := netip.ParseAddr(m[1]); err == nil {
			return addr.Unmap()
		}
	}
	return netip.Addr{}
}

// latin1 turns each byte into a rune, so that patterns see bytes.
func latin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

func refTrusted(a netip.Addr) bool {
	return a.IsValid() && (netip.MustParsePrefix("10.0.0.0/8").Contains(a) || a == netip.MustParseAddr("2001:db8:f::1"))
}

// refClient walks a chain whose rightmost element is the nearest.
func refClient(peer netip.Addr, chain []netip.Addr) netip.Addr {
	client := peer
	for i := 0; i < len(chain) && i < 64 && refTrusted(client); i++ {
		hop := chain[len(chain)-1-i]
		if !hop.IsValid() {
			break
		}
		client = hop
	}
	return client
}

var refTrust = []string{"10.0.0.0/8", "2001:db8:f::1"}

var xffSeeds = [][3]string{
	{"10.0.0.1:1", "198.51.100.7", ""}, {"10.0.0.1:1", "9.9.9.9, 198.51.100.7, 10.0.0.2", ""}, {"10.0.0.1:1", "10.0.0.5, 10.0.0.2", ""},
	{"10.0.0.1:1", "1.1.1.1", "203.0.113.9"}, {"10.0.0.1:1", "1.1.1.1, garbage", ""}, {"10.0.0.1:1", "1.1.1.1,,", ""}, {"10.0.0.1:1", "1.1.1.1, ", ""},
	{"10.0.0.1:1", "1.1.1.1, unknown", ""}, {"203.0.113.9:1", "1.1.1.1", ""}, {"[::ffff:10.0.0.1]:1", "[2001:db8::1]:443", "2001:db8:f::1%eth0"},
	{"@", "198.51.100.7", ""}, {"", "198.51.100.7", ""}, {"10.0.0.1", "1.2.3.4:5678", "fe80::1%]"}, {"10.0.0.1:1", strings.Repeat("10.0.0.2,", 100), "10.0.0.3"},
	{"10.0.0.1:1", "1.1.1.1\n, 10.0.0.2", "fe80::1%\n"}, {"10.0.0.1:1", "::ffff:1.2.3.4", "[::ffff:10.0.0.9%x]:1"},
}

func FuzzXForwardedFor(f *testing.F) {
	for _, s := range xffSeeds {
		f.Add(s[0], s[1], s[2])
	}
	byIP := keyfunc.ByIP(keyfunc.XForwardedFor(refTrust...), keyfunc.IPv6Prefix(128))
	f.Fuzz(func(t *testing.T, peer, one, two string) {
		lines := []string{one, two}
		r := &http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": lines}}
		got, err := byIP(keyfunc.NewRequest(r, nil, nil))
		var chain []netip.Addr
		for _, element := range strings.Split(strings.Join(lines, ","), ",") {
			chain = append(chain, refAddress(strings.Trim(element, " \t")))
		}
		peerAddr := refAddress(peer)
		if want := whole(refClient(peerAddr, chain)); err != nil || got != want {
			t.Errorf("peer %q, lines %q: %v, %v; want %v", peer, lines, got, err, want)
		}
		if !refTrusted(peerAddr) && got != whole(peerAddr) {
			t.Errorf("the untrusted peer %q is counted as %v", peer, got)
		}
		// Whatever stands to the left of what a client may write must not matter.
		for i := len(chain) - 1; i >= 0; i-- {
			if refTrusted(chain[i]) {
				continue
			}
			elements := strings.Split(strings.Join(lines, ","), ",")[i:]
			forged := &http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": {"6.6.6.6, 7.7.7.7", strings.Join(elements, ",")}}}
			if other, _ := byIP(keyfunc.NewRequest(forged, nil, nil)); other != got {
				t.Errorf("peer %q, lines %q: what is left of element %d changes the key to %v", peer, lines, i, other)
			}
			break
		}
	})
}

// whole returns the key of one address, all bits of it.
func whole(a netip.Addr) keyfunc.Key { return keyfunc.Subnet(netip.PrefixFrom(a, max(a.BitLen(), 0))) }

const (
	refTokenText  = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
	refQuotedText = `"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t \x21-\x7e\x80-\xff])*"`
	refPairText   = refTokenText + "=(?:" + refTokenText + "|" + refQuotedText + ")"
	refElemText   = `[ \t]*(?:` + refPairText + `)?[ \t]*(?:;[ \t]*(?:` + refPairText + `)?[ \t]*)*`
)

var (
	refLine  = regexp.MustCompile(`^` + refElemText + `(?:,` + refElemText + `)*$`)
	refPart  = regexp.MustCompile(refPairText + `|[,;]`)
	refPort  = regexp.MustCompile(`^[0-9]{1,5}$|^_[A-Za-z0-9._-]+$`)
	refNode4 = regexp.MustCompile(`^([0-9.]+)(?::(.*))?$`)
	refNode6 = regexp.MustCompile(`^\[([^\]%]*)(?:%[^\]]+)?\](?::(.*))?$`)
	refSlash = regexp.MustCompile(`(?s)\\(.)`)
)

// refForwarded returns the chain of one Forwarded line; ok is false when the
// line breaks the grammar.
func refForwarded(line string) (chain []netip.Addr, ok bool) {
	line = latin1(line)
	if !refLine.MatchString(line) {
		return nil, false
	}
	node, seen := netip.Addr{}, false
	for _, part := range refPart.FindAllString(line, -1) {
		name, value, isPair := strings.Cut(part, "=")
		switch {
		case part == ",":
			chain, node, seen = append(chain, node), netip.Addr{}, false
		case isPair && strings.EqualFold(name, "for"):
			if seen {
				return nil, false
			}
			node, seen = refNode(value), true
		}
	}
	return append(chain, node), true
}

func refNode(value string) netip.Addr {
	if len([]rune(value)) > 256 {
		return netip.Addr{}
	}
	if strings.HasPrefix(value, `"`) {
		value = refSlash.ReplaceAllString(value[1:len(value)-1], "$1")
	}
	for i, form := range []*regexp.Regexp{refNode4, refNode6} {
		m := form.FindStringSubmatch(value)
		if m == nil || strings.HasSuffix(value, ":") || m[2] != "" && !refPort.MatchString(m[2]) {
			continue
		}
		if port, err := strconv.Atoi(m[2]); err == nil && port > 65535 {
			continue
		}
		if addr, err := netip.ParseAddr(m[1]); err == nil && addr.Is6() == (i == 1) {
			return addr.Unmap()
		}
	}
	return netip.Addr{}
}

func FuzzForwarded(f *testing.F) {
	for _, s := range []string{
		"for=198.51.100.7", `for=1.1.1.1;proto=http, For="[2001:db8:cafe::17]:4711"`, `for="a,for=9.9.9.9"`, "for=unknown", "for=_x", `for="1.1.1.1`,
		`for=198.51.100.7;ext="\",for=9.9.9.9"`, "for=10.0.0.3 ; by=_a ,for=10.0.0.2", ";,;", `for="[fe80::1%a]:_b"`, "for=1.1.1.1;for=2.2.2.2", `for="\1.1.1.1:80"`, "for=10.0.0.2,", "\xff",
	} {
		f.Add("10.0.0.1:1", s, "for=10.0.0.2")
		f.Add("10.0.0.1:1", "for=9.9.9.9", s)
		f.Add("203.0.113.9:1", s, s)
	}
	byIP := keyfunc.ByIP(keyfunc.Forwarded(refTrust...), keyfunc.IPv6Prefix(128))
	f.Fuzz(func(t *testing.T, peer, one, two string) {
		r := &http.Request{RemoteAddr: peer, Header: http.Header{"Forwarded": {one, two}}}
		got, err := byIP(keyfunc.NewRequest(r, nil, nil))
		client := refAddress(peer)
		first, ok1 := refForwarded(one)
		second, ok2 := refForwarded(two)
		if ok1 && ok2 {
			client = refClient(client, append(first, second...))
		}
		if err != nil || got != whole(client) {
			t.Errorf("peer %q, lines %q and %q: %v, %v; want %v", peer, one, two, got, err, whole(client))
		}
	})
}

func FuzzClientIPHeader(f *testing.F) {
	for _, s := range xffSeeds {
		f.Add(s[0], s[1], s[2])
	}
	byIP := keyfunc.ByIP(keyfunc.ClientIPHeader("X-Real-IP", refTrust...), keyfunc.IPv6Prefix(128))
	f.Fuzz(func(t *testing.T, peer, one, two string) {
		r := &http.Request{RemoteAddr: peer, Header: http.Header{"X-Real-Ip": {one}}}
		want := refAddress(peer)
		if a := refAddress(strings.Trim(one, " \t")); a.IsValid() && refTrusted(want) {
			want = a
		}
		if got, err := byIP(keyfunc.NewRequest(r, nil, nil)); err != nil || got != whole(want) {
			t.Errorf("peer %q, line %q: %v, %v; want %v", peer, one, got, err, whole(want))
		}
		r.Header["X-Real-Ip"] = []string{one, two}
		if got, err := byIP(keyfunc.NewRequest(r, nil, nil)); err != nil || got != whole(refAddress(peer)) {
			t.Errorf("peer %q, two lines: %v, %v", peer, got, err)
		}
	})
}

func FuzzRemoteAddr(f *testing.F) {
	for _, s := range []string{"203.0.113.9:4711", "[2001:db8:1:2::1]:1", "[fe80::1%eth0]:1", "[::ffff:203.0.113.7]:1", "@", "", "/run/app.sock", "203.0.113.9", "::1", "[::1]", "1:2", ":80", "%", "[%]:1", "1.2.3.4%a:5"} {
		f.Add(s)
	}
	plain, unix := keyfunc.ByIP(), keyfunc.ByIP(keyfunc.XForwardedFor(), keyfunc.TrustUnixPeer())
	f.Fuzz(func(t *testing.T, peer string) {
		q := request(peer, xff("6.6.6.6")...)
		want := refAddress(peer)
		if got, err := plain(q); err != nil || got != keyfunc.IP(want) || got.IsZero() {
			t.Errorf("peer %q: %v, %v; want %v", peer, got, err, keyfunc.IP(want))
		}
		if peer == "" || peer[0] == '@' || peer[0] == '/' {
			want = netip.MustParseAddr("6.6.6.6")
		}
		if got, err := unix(q); err != nil || got != keyfunc.IP(want) {
			t.Errorf("peer %q, unix trusted: %v, %v; want %v", peer, got, err, keyfunc.IP(want))
		}
	})
}
