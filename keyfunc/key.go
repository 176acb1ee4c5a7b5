package keyfunc

import (
	"net/http"
	"net/netip"
	"strings"
)

// Key names who is counted. Two keys are the same party exactly when they are
// equal with ==; so a Key can be the key of a map. The zero Key means "no key".
//
// A Key holds short texts as they are and a digest of everything else: an API
// key's text is never in it. It is small (56 bytes) and immutable; copy it.
type Key struct {
	kind kind
	form form
	bits uint8    // of an address: prefix length, counted in 128 bits for IPv4 too
	sum  [16]byte // an address in its 16-byte form, or a digest
	name string   // of a header
	text string
}

// kind is the name space of a key. The numbers are stored by Redis stores:
// never change or reuse one.
type kind uint8

const (
	noKind        kind = 0
	userKind      kind = 1
	ipKind        kind = 2
	noAddressKind kind = 3
	apiKeyKind    kind = 4
	nameKind      kind = 5
	headerKind    kind = 6
	routeKind     kind = 7
	methodKind    kind = 8
	joinKind      kind = 9
)

// kindNames are the words before the first colon of a key's text.
var kindNames = [...]string{
	noKind:        "",
	userKind:      "user",
	ipKind:        "ip",
	noAddressKind: "noaddress",
	apiKeyKind:    "apikey",
	nameKind:      "name",
	headerKind:    "header",
	routeKind:     "route",
	methodKind:    "method",
	joinKind:      "join",
}

// form says how a key holds what it stands for. Stored too: never renumber.
type form uint8

const (
	plainForm    form = 0 // as it is
	digestedForm form = 1 // a SHA-256 digest, since the text is long or secret
	sealedForm   form = 2 // an HMAC made by a Sealer
)

// User returns the key of a user, by an identifier of your choice. An empty id
// gives the zero Key. A short id is kept readable; use [APIKey] for secrets.
func User(id string) Key { return textKey(userKind, id) }

// Name returns a key by a free name, such as the name of a job or a queue. An
// empty name gives the zero Key.
func Name(name string) Key { return textKey(nameKind, name) }

// Route returns the key of a route by its pattern, such as "/users/{id}". A
// method before the pattern, as in the patterns of [http.ServeMux], is cut, so
// that Route("GET /users/{id}") equals Route("/users/{id}") and the key is
// alike in every framework; add [Method] to count methods apart. An empty
// pattern gives the zero Key.
func Route(pattern string) Key { return textKey(routeKind, withoutMethod(pattern)) }

// OtherMethod is the text of the one key that all methods unknown to [Method]
// share.
const OtherMethod = "OTHER"

// Method returns the key of an HTTP method. HEAD counts as GET, since it asks
// for the same thing. The methods of RFC 9110 §9 and PATCH are told apart; all
// others share the key of [OtherMethod], since a client that makes up methods
// must not get a fresh quota with each. Methods are case-sensitive. An empty
// method gives the zero Key.
func Method(method string) Key {
	switch method {
	case "":
		return Key{}
	case http.MethodHead:
		method = http.MethodGet
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
	default:
		method = OtherMethod
	}
	return Key{kind: methodKind, text: method}
}

// Header returns the key of a header's value. The name, in its canonical form,
// is a part of the key; blanks around the value are not. An empty name or
// value gives the zero Key. The value is kept readable when it is short; use
// [APIKey] for secrets.
func Header(name, value string) Key {
	return headerKey(http.CanonicalHeaderKey(name), trimBlanks(value))
}

// APIKey returns the key of an API key or another secret: the SHA-256 digest,
// cut to 128 bits and separated from other uses. The text itself is not kept,
// whatever its length. An empty secret gives the zero Key.
//
// Where a secret can be guessed (it is short, or made of something known), use
// a [Sealer] too.
func APIKey(secret string) Key {
	if secret == "" {
		return Key{}
	}
	return Key{kind: apiKeyKind, form: digestedForm, sum: digest(apiKeyKind, "", secret)}
}

// NoAddress returns the one key that all requests without a readable client
// address share: those that come over a unix socket, those made by
// [http.NewRequest] in tests, and those whose address text is junk.
func NoAddress() Key { return Key{kind: noAddressKind} }

// IP returns the key of a client address. An IPv4-mapped IPv6 address counts
// as the IPv4 address in it, a zone is dropped, and of an IPv6 address the
// first 64 bits count: one subscriber commands all the others. Use [Subnet]
// for another length. An invalid address gives [NoAddress].
func IP(addr netip.Addr) Key {
	return ipKey(addr, defaultIPv6Bits)
}

// Subnet returns the key of a whole network; its host bits do not matter. For
// an IPv6 address a, IP(a) equals Subnet of a/64, for IPv4 Subnet of a/32. A
// prefix of IPv4-mapped addresses (::ffff:10.0.0.0/104) counts as the IPv4
// prefix that it is (10.0.0.0/8). An invalid prefix gives [NoAddress].
func Subnet(prefix netip.Prefix) Key {
	if !prefix.IsValid() {
		return NoAddress()
	}
	prefix = unmapPrefix(prefix).Masked()
	bits := prefix.Bits()
	if prefix.Addr().Is4() {
		bits += mappedBits
	}
	return Key{kind: ipKind, bits: uint8(bits), sum: prefix.Addr().As16()}
}

// Join returns the key of several keys together, such as a user on a route.
// Order matters. Different lists give different keys whatever text is in the
// parts: what is digested are the parts' own encodings, each after its length.
// Join of one key is not that key. If a part is the zero Key, or there is
// none, the result is the zero Key.
func Join(keys ...Key) Key {
	if len(keys) == 0 {
		return Key{}
	}
	var h hasher
	var part [MaxBinary]byte
	h.begin(joinKind)
	for i := range keys {
		if keys[i].IsZero() {
			return Key{}
		}
		h.addPart(keys[i].appendBinary(part[:0]))
	}
	return Key{kind: joinKind, form: digestedForm, sum: h.sum()}
}

// IsZero reports whether k is the zero Key, that is: no key.
func (k Key) IsZero() bool { return k.kind == noKind }

// mappedBits is the length of the prefix that holds all IPv4-mapped addresses,
// ::ffff:0:0/96 (RFC 4291 §2.5.5.2).
const mappedBits = 96

// ipKey returns the key of addr with IPv6 addresses cut to bits.
func ipKey(addr netip.Addr, bits int) Key {
	if addr = addr.Unmap(); addr.Is4() {
		return Key{kind: ipKind, bits: mappedBits + 32, sum: addr.As16()} // what Subnet makes of it, sooner
	}
	return Subnet(netip.PrefixFrom(addr, bits)) // of an invalid addr: an invalid prefix
}

// unmapPrefix turns a prefix of IPv4-mapped addresses into the IPv4 prefix.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= mappedBits {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
	}
	return p
}

// textKey returns the key of text, digested when its escaped form is too long.
func textKey(k kind, text string) Key {
	switch {
	case text == "":
		return Key{}
	case !fits(MaxText-len(kindNames[k])-len(":"), text):
		return Key{kind: k, form: digestedForm, sum: digest(k, "", text)}
	}
	return Key{kind: k, text: text}
}

// maxHeaderName is the longest escaped header name that a key spells out: with
// it, a digest of the value still fits in MaxText.
const maxHeaderName = 64

// headerKey is textKey for a header whose name is canonical already.
func headerKey(name, value string) Key {
	const room = MaxText - len("header::")
	switch {
	case name == "" || value == "":
		return Key{}
	case escapedNameLen(name) > maxHeaderName:
		return Key{kind: headerKind, form: digestedForm, sum: digest(headerKind, name, value)}
	case !fits(room-escapedNameLen(name), value):
		return Key{kind: headerKind, form: digestedForm, name: name, sum: digest(headerKind, name, value)}
	}
	return Key{kind: headerKind, name: name, text: value}
}

// withoutMethod cuts the method of a [http.ServeMux] pattern, which stands
// before the host and path and is followed by blanks.
func withoutMethod(pattern string) string {
	blank := strings.IndexAny(pattern, " \t")
	if blank < 0 || !isToken(pattern[:blank]) {
		return pattern
	}
	return strings.TrimLeft(pattern[blank:], " \t")
}
