package keyfunc

import (
	"encoding/hex"
	"net/netip"
)

// MaxText is the length in bytes of the longest text of a [Key].
const MaxText = 128

// Marks at the start of a text that no plain text can begin with: a leading
// tilde is always escaped there.
const (
	digestMark = "~"
	sealedMark = "~sealed:"
)

// String returns the canonical text of k: the kind, a colon, and what is
// counted, as in "user:42", "ip:203.0.113.9" or "ip:2001:db8:1:2::/64".
// Different keys have different texts; the zero Key has the empty one.
//
// It is at most [MaxText] bytes of A-Z a-z 0-9 . _ ~ : / % @ + , = and -;
// every other byte is percent-escaped. So it is harmless in logs, and no
// client can steer a Redis hash tag with braces. Longer texts show as a
// digest, "user:~0f3a…", and so do API keys, joined and sealed keys.
//
// It allocates once; see [Key.AppendText].
func (k Key) String() string {
	var buf [MaxText]byte
	return string(k.appendText(buf[:0]))
}

// GoString returns the text of k for the verb %#v.
func (k Key) GoString() string { return "keyfunc.Key(" + k.String() + ")" }

// AppendText appends the text of k (see [Key.String]) to b. It does not
// allocate when b has room for [MaxText] bytes more. The error is always nil.
func (k Key) AppendText(b []byte) ([]byte, error) { return k.appendText(b), nil }

// MarshalText returns the text of k (see [Key.String]), so that JSON and
// structured logs show it. The error is always nil.
func (k Key) MarshalText() ([]byte, error) { return k.appendText(make([]byte, 0, MaxText)), nil }

func (k Key) appendText(b []byte) []byte {
	if k.IsZero() {
		return b
	}
	b = append(b, kindNames[k.kind]...)
	b = append(b, ':')
	if k.form == sealedForm {
		b = append(b, sealedMark...)
		return hex.AppendEncode(b, k.sum[:])
	}
	switch k.kind {
	case ipKind:
		return k.appendAddress(b)
	case noAddressKind:
		return b
	case apiKeyKind, joinKind: // never plain: a mark would say nothing
		return hex.AppendEncode(b, k.sum[:])
	}
	if k.name != "" {
		b = appendEscapedName(b, k.name)
		b = append(b, ':')
	}
	if k.form == digestedForm {
		b = append(b, digestMark...)
		return hex.AppendEncode(b, k.sum[:])
	}
	return appendEscaped(b, k.text)
}

// appendAddress appends an address, and its prefix length unless it is whole.
func (k Key) appendAddress(b []byte) []byte {
	prefix := k.prefix()
	if prefix.IsSingleIP() {
		return prefix.Addr().AppendTo(b)
	}
	return prefix.AppendTo(b)
}

// prefix returns the network of an address key.
func (k Key) prefix() netip.Prefix {
	return unmapPrefix(netip.PrefixFrom(netip.AddrFrom16(k.sum), int(k.bits)))
}

// appendEscaped appends s so that it can stand at the end of a key's text.
func appendEscaped(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		b = appendByte(b, s[i], isPlain(s[i], i))
	}
	return b
}

// appendEscapedName is appendEscaped for a header name, which a colon ends.
func appendEscapedName(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		b = appendByte(b, s[i], isPlain(s[i], i) && s[i] != ':')
	}
	return b
}

func appendByte(b []byte, c byte, plain bool) []byte {
	const digits = "0123456789ABCDEF"
	if plain {
		return append(b, c)
	}
	return append(b, '%', digits[c>>4], digits[c&0xf])
}

// isPlain reports whether the byte c at index i of a text stands for itself.
func isPlain(c byte, i int) bool {
	switch c {
	case '.', '_', ':', '/', '@', '+', ',', '=', '-':
		return true
	case '~': // a leading one is the mark of digests
		return i > 0
	}
	return isAlphanumeric(c)
}

// fits reports whether the escaped form of s has at most room bytes. It looks
// at no more than room bytes, however long s is, and at none of a short text.
func fits(room int, s string) bool {
	if len(s) > room {
		return false
	}
	if len(s) <= room/escapedByteLen(false) {
		return true
	}
	for i := 0; i < len(s); i++ {
		room -= escapedByteLen(isPlain(s[i], i))
	}
	return room >= 0
}

// escapedNameLen returns the number of bytes appendEscapedName appends.
func escapedNameLen(s string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		n += escapedByteLen(isPlain(s[i], i) && s[i] != ':')
	}
	return n
}

func escapedByteLen(plain bool) int {
	if plain {
		return 1
	}
	return len("%00")
}
