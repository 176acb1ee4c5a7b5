package keyfunc_test

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/slidegate/slidegate/keyfunc"
)

// get returns a request as an adapter hands it on.
func get(remoteAddr string, header ...string) keyfunc.Request {
	r := httptest.NewRequest(http.MethodGet, "/users/7?key=k-123", nil)
	r.RemoteAddr = remoteAddr
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return keyfunc.NewRequest(r, func(keyfunc.Request) string { return "GET /users/{id}" }, nil)
}

func show(key keyfunc.Key, err error) {
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(key)
}

func Example() {
	// An API key if there is one, else the address of the client.
	key := keyfunc.First(keyfunc.ByAPIKey("X-API-Key"), keyfunc.ByIP())
	show(key(get("203.0.113.9:4711")))
	show(key(get("203.0.113.9:4711", "X-API-Key", "sk_live_abc")))
	// Output:
	// ip:203.0.113.9
	// apikey:2755ece7b8de8006a06bd22511540066
}

func ExampleUser() {
	fmt.Println(keyfunc.User("42"), keyfunc.User("}a b"))
	// Output: user:42 user:%7Da%20b
}

func ExampleName() {
	fmt.Println(keyfunc.Name("mail-queue"))
	// Output: name:mail-queue
}

func ExampleIP() {
	fmt.Println(keyfunc.IP(netip.MustParseAddr("203.0.113.9")))
	fmt.Println(keyfunc.IP(netip.MustParseAddr("::ffff:203.0.113.9")))
	fmt.Println(keyfunc.IP(netip.MustParseAddr("2001:db8:1:2:3:4:5:6")))
	// Output:
	// ip:203.0.113.9
	// ip:203.0.113.9
	// ip:2001:db8:1:2::/64
}

func ExampleSubnet() {
	fmt.Println(keyfunc.Subnet(netip.MustParsePrefix("203.0.113.9/24")))
	// Output: ip:203.0.113.0/24
}

func ExampleNoAddress() {
	r, _ := http.NewRequest(http.MethodGet, "/", nil) // has no RemoteAddr
	key, _ := keyfunc.ByIP()(keyfunc.NewRequest(r, nil, nil))
	fmt.Println(key, key == keyfunc.NoAddress())
	// Output: noaddress: true
}

func ExampleAPIKey() {
	fmt.Println(keyfunc.APIKey("sk_live_abc"))
	// Output: apikey:2755ece7b8de8006a06bd22511540066
}

func ExampleHeader() {
	fmt.Println(keyfunc.Header("x-tenant", "acme"))
	// Output: header:X-Tenant:acme
}

func ExampleRoute() {
	fmt.Println(keyfunc.Route("GET /users/{id}"))
	fmt.Println(keyfunc.Route("/users/{id}") == keyfunc.Route("GET /users/{id}"))
	// Output:
	// route:/users/%7Bid%7D
	// true
}

func ExampleMethod() {
	fmt.Println(keyfunc.Method("POST"), keyfunc.Method("HEAD"), keyfunc.Method("MADEUP"))
	// Output: method:POST method:GET method:OTHER
}

func ExampleJoin() {
	one := keyfunc.Join(keyfunc.User("a"), keyfunc.User("b:c"))
	two := keyfunc.Join(keyfunc.User("a:b"), keyfunc.User("c"))
	fmt.Println(one == two)
	fmt.Println(keyfunc.Join(keyfunc.User("a"), keyfunc.Key{}).IsZero())
	// Output:
	// false
	// true
}

func ExampleKey_IsZero() {
	fmt.Println(keyfunc.User("").IsZero(), keyfunc.User("42").IsZero())
	// Output: true false
}

func ExampleKey_String() {
	fmt.Println(keyfunc.User("alice\nlevel=ERROR").String())
	// Output: user:alice%0Alevel=ERROR
}

func ExampleKey_GoString() {
	fmt.Printf("%#v\n", keyfunc.User("42"))
	// Output: keyfunc.Key(user:42)
}

func ExampleKey_AppendText() {
	line := []byte("refused ")
	line, _ = keyfunc.User("42").AppendText(line)
	fmt.Println(string(line))
	// Output: refused user:42
}

func ExampleKey_MarshalText() {
	text, _ := keyfunc.User("42").MarshalText()
	fmt.Println(string(text))
	// Output: user:42
}

func ExampleKey_AppendBinary() {
	form := make([]byte, 0, keyfunc.MaxBinary)
	form, _ = keyfunc.IP(netip.MustParseAddr("203.0.113.9")).AppendBinary(form)
	fmt.Printf("%x\n", form)
	// Output: 0820cb007109
}

func ExampleSealer() {
	sealer, err := keyfunc.NewSealer([]byte("32 random bytes, the same on all"))
	if err != nil {
		fmt.Println(err)
		return
	}
	user := keyfunc.User("42")
	sealed := sealer.Seal(user)
	fmt.Println(sealed == user, sealed == sealer.Seal(keyfunc.User("42")))
	// Output: false true
}

func ExampleNewSealer() {
	_, err := keyfunc.NewSealer([]byte("hunter2"))
	fmt.Println(err)
	// Output: slidegate: Secret = 7 bytes: shorter than 16 bytes; use random bytes, the same for all instances, such as the output of: openssl rand 32
}

func ExampleFunc() {
	var byTenant keyfunc.Func = func(q keyfunc.Request) (keyfunc.Key, error) {
		tenant := q.HTTP().PathValue("tenant")
		if tenant == "" {
			return keyfunc.Key{}, &keyfunc.MissingError{What: "tenant"}
		}
		return keyfunc.Name(tenant), nil
	}
	q := get("203.0.113.9:4711")
	show(byTenant(q))
	q.HTTP().SetPathValue("tenant", "acme")
	show(byTenant(q))
	// Output:
	// error: slidegate: the request carries no key: tenant
	// name:acme
}

func ExampleRequest() {
	q := get("203.0.113.9:4711")
	fmt.Println(q.HTTP().URL.Path, q.Route(), q.Native())
	// Output: /users/7 GET /users/{id} <nil>
}

func ExampleByIP() {
	show(keyfunc.ByIP()(get("203.0.113.9:4711", "X-Forwarded-For", "1.1.1.1")))
	// Output: ip:203.0.113.9
}

func ExampleXForwardedFor() {
	byIP := keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.1", "10.0.0.2"))
	show(byIP(get("10.0.0.1:4711", "X-Forwarded-For", "1.1.1.1, 198.51.100.7, 10.0.0.2")))
	show(byIP(get("10.0.0.1:4711", "X-Forwarded-For", "1.1.1.1, junk")))
	show(byIP(get("203.0.113.9:4711", "X-Forwarded-For", "1.1.1.1")))
	// Output:
	// ip:198.51.100.7
	// ip:10.0.0.1
	// ip:203.0.113.9
}

// Trusting a whole private range lets every client in it choose its address.
func ExampleXForwardedFor_wrong() {
	wrong := keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.0/8", "192.168.0.0/16"))
	right := keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.1"))
	forged := get("10.0.0.1:4711", "X-Forwarded-For", "198.51.100.99, 192.168.1.50")
	show(wrong(forged))
	show(right(forged))
	// Output:
	// ip:198.51.100.99
	// ip:192.168.1.50
}

func ExampleForwarded() {
	byIP := keyfunc.ByIP(keyfunc.Forwarded("10.0.0.1"))
	show(byIP(get("10.0.0.1:4711", "Forwarded", `for=1.1.1.1;proto=http, For="[2001:db8:cafe::17]:4711"`)))
	show(byIP(get("10.0.0.1:4711", "Forwarded", `for="a,for=9.9.9.9"`)))
	// Output:
	// ip:2001:db8:cafe::/64
	// ip:10.0.0.1
}

func ExampleClientIPHeader() {
	byIP := keyfunc.ByIP(keyfunc.ClientIPHeader("CF-Connecting-IP", "10.0.0.1"))
	show(byIP(get("10.0.0.1:4711", "CF-Connecting-IP", "198.51.100.7")))
	// Output: ip:198.51.100.7
}

func ExampleIPv6Prefix() {
	byIP := keyfunc.ByIP(keyfunc.IPv6Prefix(48))
	show(byIP(get("[2001:db8:1:2::3]:4711")))
	// Output: ip:2001:db8:1::/48
}

func ExampleTrustUnixPeer() {
	byIP := keyfunc.ByIP(keyfunc.XForwardedFor(), keyfunc.TrustUnixPeer())
	show(byIP(get("@", "X-Forwarded-For", "198.51.100.7")))
	// Output: ip:198.51.100.7
}

func ExampleByUser() {
	byUser := keyfunc.ByUser(func(r *http.Request) (string, error) {
		name, _, _ := r.BasicAuth()
		return name, nil
	})
	show(byUser(get("203.0.113.9:4711", "Authorization", "Basic YWxpY2U6cHc=")))
	// Output: user:alice
}

func ExampleByAPIKey() {
	show(keyfunc.ByAPIKey("X-API-Key")(get("203.0.113.9:4711", "X-API-Key", "a", "X-API-Key", "b")))
	// Output: error: slidegate: the request carries a key that can be read in more than one way: header X-Api-Key
}

func ExampleByBearer() {
	key, _ := keyfunc.ByBearer()(get("203.0.113.9:4711", "Authorization", "Bearer abc"))
	fmt.Println(key == keyfunc.APIKey("abc"))
	// Output: true
}

func ExampleByQuery() {
	key, _ := keyfunc.ByQuery("key")(get("203.0.113.9:4711"))
	fmt.Println(key == keyfunc.APIKey("k-123"))
	// Output: true
}

func ExampleByCookie() {
	key, _ := keyfunc.ByCookie("session")(get("203.0.113.9:4711", "Cookie", "session=abc"))
	fmt.Println(key == keyfunc.APIKey("abc"))
	// Output: true
}

func ExampleByHeader() {
	show(keyfunc.ByHeader("X-Tenant")(get("203.0.113.9:4711", "X-Tenant", "acme")))
	// Output: header:X-Tenant:acme
}

func ExampleByRoute() {
	show(keyfunc.ByRoute()(get("203.0.113.9:4711")))
	show(keyfunc.ByRoute()(keyfunc.Request{}))
	// Output:
	// route:/users/%7Bid%7D
	// route:unmatched
}

func ExampleByMethod() {
	show(keyfunc.ByMethod()(get("203.0.113.9:4711")))
	// Output: method:GET
}

func ExampleByName() {
	group := keyfunc.All(keyfunc.ByIP(), keyfunc.ByName("uploads")) // for several routes
	key, _ := group(get("203.0.113.9:4711"))
	fmt.Println(key == keyfunc.Join(keyfunc.IP(netip.MustParseAddr("203.0.113.9")), keyfunc.Name("uploads")))
	// Output: true
}

func ExampleByAddress() {
	byAddress := keyfunc.ByAddress(func(q keyfunc.Request) string {
		return q.HTTP().Header.Get("X-Real-IP") // or the framework's own method
	})
	show(byAddress(get("203.0.113.9:4711", "X-Real-IP", "::ffff:198.51.100.7")))
	show(byAddress(get("203.0.113.9:4711", "X-Real-IP", "not an address")))
	// Output:
	// ip:198.51.100.7
	// noaddress:
}

func ExampleFirst() {
	key := keyfunc.First(keyfunc.ByHeader("X-Tenant"), keyfunc.ByIP())
	show(key(get("203.0.113.9:4711")))
	// Output: ip:203.0.113.9
}

func ExampleAll() {
	key, _ := keyfunc.All(keyfunc.ByHeader("X-Tenant"), keyfunc.ByRoute())(get("203.0.113.9:4711", "X-Tenant", "acme"))
	fmt.Println(key == keyfunc.Join(keyfunc.Header("X-Tenant", "acme"), keyfunc.Route("/users/{id}")))
	// Output: true
}

func ExampleRequired() {
	_, err := keyfunc.Required(keyfunc.ByHeader("X-Tenant"))(get("203.0.113.9:4711"))
	fmt.Println(errors.Is(err, keyfunc.ErrRequired))
	fmt.Println(err)
	// Output:
	// true
	// slidegate: the request carries no key, and one is required: header X-Tenant
}

func ExampleMissingError() {
	_, err := keyfunc.ByHeader("X-Tenant")(get("203.0.113.9:4711"))
	if missing, ok := errors.AsType[*keyfunc.MissingError](err); ok {
		fmt.Println("please send", missing.What)
	}
	_, err = keyfunc.First(keyfunc.ByAPIKey("X-API-Key"), keyfunc.ByBearer())(get("203.0.113.9:4711"))
	if missing, ok := errors.AsType[*keyfunc.MissingError](err); ok {
		fmt.Println("please send", missing.What)
	}
	// Output:
	// please send header X-Tenant
	// please send header X-Api-Key or bearer token
}

func ExampleFieldError() {
	fmt.Println(&keyfunc.FieldError{Field: "Limits[1].Window", Value: "500µs", Problem: "shorter than 1ms", Remedy: "use at least 1ms"})
	// Output: slidegate: Limits[1].Window = 500µs: shorter than 1ms; use at least 1ms
}

func ExampleInspect() {
	_, err := keyfunc.Inspect(keyfunc.First(
		keyfunc.ByHeader("X Tenant"),
		keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.1/8"), keyfunc.IPv6Prefix(16)),
	))
	fmt.Println(err)
	report, _ := keyfunc.Inspect(keyfunc.ByIP())
	fmt.Println(report.PeerAddress)
	// Output:
	// slidegate: ByHeader = X Tenant: not the name of a header; use letters, digits and hyphens
	// slidegate: XForwardedFor[0] = 10.0.0.1/8: has bits set beyond its length; use 10.0.0.1 for that address alone, or 10.0.0.0/8 for all of the network
	// slidegate: IPv6Prefix = 16: not from 32 to 128; use 64
	// true
}

// A table in memory spreads its keys over parts with a lock each.
func ExampleKey_Hash() {
	seed := maphash.MakeSeed()
	part := func(k keyfunc.Key) uint64 { return k.Hash(seed) % 16 }

	alice := keyfunc.User("alice")
	fmt.Println(part(alice) == part(keyfunc.User("alice")), part(alice) < 16)
	// Output: true true
}
