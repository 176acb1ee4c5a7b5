package keyfunc_test

import (
	"crypto/sha256"
	binaryenc "encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/keyfunc"
)

// textKinds are the constructors that take one text.
var textKinds = map[string]func(string) keyfunc.Key{
	"user": keyfunc.User, "name": keyfunc.Name, "route": keyfunc.Route, "method": keyfunc.Method, "apikey": keyfunc.APIKey,
	"header": func(s string) keyfunc.Key { return keyfunc.Header("X-User", s) },
}

func TestEmptyTextIsNoKey(t *testing.T) {
	for kind, make := range textKinds {
		if k := make(""); !k.IsZero() || k != (keyfunc.Key{}) {
			t.Errorf("%s of empty text is %#v, want the zero Key", kind, k)
		}
		if k := make("GET"); k.IsZero() {
			t.Errorf("%s of a text is the zero Key", kind)
		}
	}
	for _, k := range []keyfunc.Key{keyfunc.Header("", "x"), keyfunc.Header("X-User", " \t"), keyfunc.Route("GET ")} {
		if !k.IsZero() {
			t.Errorf("got %v, want the zero Key", k)
		}
	}
}

func TestKindsNeverShareAKey(t *testing.T) {
	texts := append([]string{keyfunc.NoAddress().String(), ip("203.0.113.9").String()}, strangeTexts...)
	seen := map[keyfunc.Key]string{keyfunc.NoAddress(): "noaddress", ip("203.0.113.9"): "ip", subnet("2001:db8::/64"): "ip"}
	for kind, make := range textKinds {
		for _, text := range texts {
			k := make(text)
			if other, ok := seen[k]; ok && other != kind && !k.IsZero() {
				t.Errorf("%s and %s share the key %v", kind, other, k)
			}
			seen[k] = kind
		}
	}
}

// The text of a digest, used as a plain text, must not be the digested key.
func TestDigestNeverEqualsPlainTextOfTheSameBytes(t *testing.T) {
	for kind, make := range textKinds {
		long := make(strings.Repeat("x", 1000))
		_, rest, _ := strings.Cut(long.String(), ":")
		rest = strings.TrimPrefix(rest, "X-User:")
		for _, text := range []string{rest, strings.TrimPrefix(rest, "~"), long.String(), binary(long), binary(long)[1:]} {
			if k := make(text); kind != "method" && (k == long || k.String() == long.String() || binary(k) == binary(long)) {
				t.Errorf("%s(%q) is the key of the long text", kind, text)
			}
		}
	}
}

func TestKeyIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(keyfunc.Key{}); size > 64 {
		t.Errorf("a Key has %d bytes, want at most 64", size)
	}
}

func TestAddressKeys(t *testing.T) {
	for _, c := range []struct {
		got  keyfunc.Key
		want string
	}{
		{ip("203.0.113.9"), "ip:203.0.113.9"},
		{ip("::ffff:203.0.113.9"), "ip:203.0.113.9"},
		{ip("::ffff:cb00:7107"), "ip:203.0.113.7"},
		{ip("2001:db8:1:2:3:4:5:6"), "ip:2001:db8:1:2::/64"},
		{ip("2001:DB8:1:2:0:0:0:7"), "ip:2001:db8:1:2::/64"},
		{ip("fe80::1%eth0"), "ip:fe80::/64"},
		{ip("fe80::1%{attacker}"), "ip:fe80::/64"},
		{ip("::1"), "ip:::/64"},
		{ip("::"), "ip:::/64"},
		{ip("0.0.0.0"), "ip:0.0.0.0"},
		{subnet("203.0.113.9/32"), "ip:203.0.113.9"},
		{subnet("203.0.113.9/24"), "ip:203.0.113.0/24"},
		{subnet("0.0.0.0/0"), "ip:0.0.0.0/0"},
		{subnet("::/0"), "ip:::/0"},
		{subnet("2001:db8::1/128"), "ip:2001:db8::1"},
		{subnet("2001:db8:1:2::1/48"), "ip:2001:db8:1::/48"},
		{subnet("::ffff:10.1.2.3/104"), "ip:10.0.0.0/8"},
		{subnet("::ffff:10.1.2.3/96"), "ip:0.0.0.0/0"},
		{subnet("::ffff:10.1.2.3/95"), "ip:::fffe:0:0/95"},
		{keyfunc.Subnet(netip.PrefixFrom(netip.MustParseAddr("fe80::1%eth0"), 128)), "ip:fe80::1"},
		{keyfunc.IP(netip.Addr{}), "noaddress:"},
		{keyfunc.Subnet(netip.Prefix{}), "noaddress:"},
		{keyfunc.NoAddress(), "noaddress:"},
	} {
		if c.got.String() != c.want {
			t.Errorf("key %q, want %q", c.got, c.want)
		}
	}
}

func TestMappedIPv4ClientsDoNotShareOneKey(t *testing.T) {
	if ip("::ffff:203.0.113.7") == ip("::ffff:203.0.113.8") {
		t.Error("two IPv4 clients on a dual-stack socket share a key")
	}
	if ip("::ffff:203.0.113.7") != ip("203.0.113.7") {
		t.Error("one IPv4 client has two keys")
	}
}

func TestAddressEqualsItsSubnet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addr := netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "addr")))
		if addr.Is4In6() {
			t.Skip("IPv4")
		}
		if keyfunc.IP(addr) != keyfunc.Subnet(netip.PrefixFrom(addr, 64)) {
			t.Errorf("IP(%s) is not its /64", addr)
		}
	})
}

func TestDifferentNetworksHaveDifferentKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := func(label string) netip.Prefix {
			b := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x80, 0xff}), 4, 4).Draw(t, label)
			addr := netip.AddrFrom4([4]byte(b))
			if rapid.Bool().Draw(t, label+"6") {
				addr = netip.AddrFrom16([16]byte{0: b[0], 5: b[1], 10: b[2], 15: b[3]})
			}
			return netip.PrefixFrom(addr, rapid.IntRange(0, addr.BitLen()).Draw(t, label+" bits")).Masked()
		}
		p, q := prefix("p"), prefix("q")
		a, b := keyfunc.Subnet(p), keyfunc.Subnet(q)
		if (p == q) != (a == b) || (a == b) != (a.String() == b.String()) || (a == b) != (binary(a) == binary(b)) {
			t.Errorf("%s is %v, %s is %v", p, a, q, b)
		}
	})
}

func TestJoinedPartsDoNotCollide(t *testing.T) {
	user, name := keyfunc.User, keyfunc.Name
	lists := [][]keyfunc.Key{
		{user("a"), user("b:c")}, {user("a:b"), user("c")}, {user("a:b:c")}, {user("a"), user("b"), user("c")},
		{user("x"), user("y")}, {user("y"), user("x")}, {user("x"), name("y")}, {name("x"), user("y")}, {user("x")},
		{user("xy")}, {user("x"), user("x")}, {user("x"), user("x"), user("x")},
		{user("a\x00"), user("b")}, {user("a"), user("\x00b")}, {user("a\xff"), user("b")}, {user("a"), user("\xffb")},
		{keyfunc.Join(user("x"), user("y"))}, {keyfunc.Join(user("x")), user("y")}, {user("x"), keyfunc.Join(user("y"))},
		{ip("203.0.113.9"), user("x")}, {user("203.0.113.9"), user("x")}, {keyfunc.NoAddress(), user("x")},
	}
	seen := map[string]int{}
	for i, list := range lists {
		k := keyfunc.Join(list...)
		if j, ok := seen[k.String()]; ok {
			t.Errorf("%v and %v are one key", lists[j], list)
		}
		seen[k.String()] = i
		if len(list) == 1 && k == list[0] {
			t.Errorf("Join(%v) is the part itself", list[0])
		}
	}
}

func TestJoinWithAMissingPartIsNoKey(t *testing.T) {
	for _, list := range [][]keyfunc.Key{{}, {{}}, {keyfunc.User("a"), {}}, {{}, keyfunc.User("a")}} {
		if k := keyfunc.Join(list...); !k.IsZero() {
			t.Errorf("Join(%v) is %v, want the zero Key", list, k)
		}
	}
}

// The digest is gathered in an array at first and streamed when that is full:
// both must see every byte.
func TestJoinOfManyPartsDependsOnEach(t *testing.T) {
	seen := map[keyfunc.Key]bool{}
	for n := 1; n <= 40; n++ {
		parts := make([]keyfunc.Key, n)
		for i := range parts {
			parts[i] = keyfunc.User(strings.Repeat("p", 60+i))
		}
		seen[keyfunc.Join(parts...)] = true
		for i := range parts {
			changed := append([]keyfunc.Key(nil), parts...)
			changed[i] = keyfunc.User("changed")
			seen[keyfunc.Join(changed...)] = true
		}
	}
	if want := 40 + 40*41/2; len(seen) != want {
		t.Errorf("%d different keys, want %d", len(seen), want)
	}
}

// Computed again, in one piece and with the standard library alone.
func TestDigestsAreTheDocumentedOnes(t *testing.T) {
	sum := func(kind byte, input []byte) string {
		full := sha256.Sum256(append([]byte("slidegate key digest v1\x00"+string(kind)), input...))
		return fmt.Sprintf("%x", full[:16])
	}
	for size := 1; size <= 120; size++ {
		for count := 1; count <= 12; count++ {
			var parts []keyfunc.Key
			var input []byte
			for range count {
				part := keyfunc.User(strings.Repeat("p", size))
				parts = append(parts, part)
				input = append(append(input, byte(len(binary(part)))), binary(part)...)
			}
			if got, want := keyfunc.Join(parts...).String(), "join:"+sum(9, input); got != want {
				t.Fatalf("%d parts of %d bytes: %s, want %s", count, size, got, want)
			}
		}
		name, value := strings.Repeat("N", 5*size), strings.Repeat("v", 500)
		input := append(binaryenc.AppendUvarint(nil, uint64(len(name))), name+value...)
		canonical := strings.Replace(string(input), name, "N"+strings.ToLower(name[1:]), 1)
		if got, want := keyfunc.Header(name, value).String(), sum(6, []byte(canonical)); !strings.HasSuffix(got, ":~"+want) {
			t.Fatalf("header name of %d bytes: %s, want %s", len(name), got, want)
		}
	}
}

func TestLongTextsDigestEveryByte(t *testing.T) {
	seen := map[keyfunc.Key]int{}
	for n := 0; n < 2000; n++ {
		for _, k := range []keyfunc.Key{keyfunc.APIKey(strings.Repeat("k", n+1)), keyfunc.APIKey(strings.Repeat("k", n) + "K")} {
			if m, ok := seen[k]; ok {
				t.Fatalf("lengths %d and %d give one key", m, n)
			}
			seen[k] = n
		}
	}
}

func TestHugeKeysAreNotKept(t *testing.T) {
	const n = 1000
	keys := make([]keyfunc.Key, 0, 2*n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	huge := []byte(strings.Repeat("k", 1<<20))
	for i := range n {
		huge[0], huge[1] = byte(i), byte(i>>8)
		if i%50 == 0 { // the kinds alike; all thousand would only take time
			s := string(huge)
			keys = append(keys, keyfunc.APIKey(s), keyfunc.User(s), keyfunc.Name(s), keyfunc.Route(s), keyfunc.Header("X-User", s))
		}
	}
	huge = nil
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d keys hold %d bytes", len(keys), grown)
	}
	for _, k := range keys {
		if len(k.String()) > keyfunc.MaxText {
			t.Errorf("text of %d bytes", len(k.String()))
		}
	}
}

func TestRouteKeyIsAlikeInAllFrameworks(t *testing.T) {
	for pattern, text := range map[string]string{
		"/users/{id}":                "route:/users/%7Bid%7D",
		"GET /users/{id}":            "route:/users/%7Bid%7D",
		"POST \t /users/{id}":        "route:/users/%7Bid%7D",
		"GET example.com/users/{id}": "route:example.com/users/%7Bid%7D",
		"/users/:id":                 "route:/users/:id",
		"/with blank/{x}":            "route:/with%20blank/%7Bx%7D",
		"/":                          "route:/",
	} {
		if got := keyfunc.Route(pattern).String(); got != text {
			t.Errorf("Route(%q) is %q, want %q", pattern, got, text)
		}
	}
}

func TestInventedMethodsShareOneKey(t *testing.T) {
	for method, text := range map[string]string{
		"GET": "method:GET", "HEAD": "method:GET", "POST": "method:POST", "PUT": "method:PUT", "PATCH": "method:PATCH",
		"DELETE": "method:DELETE", "CONNECT": "method:CONNECT", "OPTIONS": "method:OPTIONS", "TRACE": "method:TRACE",
		"get": "method:OTHER", "PURGE": "method:OTHER", "X1": "method:OTHER", "X2": "method:OTHER",
	} {
		if got := keyfunc.Method(method).String(); got != text {
			t.Errorf("Method(%q) is %q, want %q", method, got, text)
		}
	}
}

func TestHeaderNameIsPartOfTheKey(t *testing.T) {
	if keyfunc.Header("x-user", " abc\t") != keyfunc.Header("X-User", "abc") {
		t.Error("spelling of the name, or blanks around the value, change the key")
	}
	seen := map[string]bool{}
	pairs := [][2]string{{"X-User", "a"}, {"X-Team", "a"}, {"A", "b:c"}, {"A:b", "c"}, {"~A", "b"}, {"A~", "b"}, {"%A", "b"}}
	for _, long := range []string{strings.Repeat("V", 200), strings.Repeat("W", 200)} {
		pairs = append(pairs, [2]string{"X-User", long}, [2]string{"X-Team", long}, [2]string{long, "a"}, [2]string{long, "b"}, [2]string{long, long})
	}
	for n := 60; n < 70; n++ {
		pairs = append(pairs, [2]string{strings.Repeat("N", n), "v"}, [2]string{strings.Repeat(":", n-45), "v"}, [2]string{strings.Repeat("n", n), strings.Repeat("v", 300)})
	}
	for _, p := range pairs {
		k := keyfunc.Header(p[0], p[1])
		if seen[k.String()] || seen[binary(k)] {
			t.Errorf("Header(%.20q, %.20q) has the key of another one", p[0], p[1])
		}
		if len(k.String()) > keyfunc.MaxText || len(binary(k)) > keyfunc.MaxBinary {
			t.Errorf("%v has %d bytes of text, %d of binary", k, len(k.String()), len(binary(k)))
		}
		seen[k.String()], seen[binary(k)] = true, true
	}
}
