package keyfunc

import (
	"net/netip"
	"strings"
)

// walkForwarded reads Forwarded headers (RFC 7239 §4) and walks their elements
// from the right.
func walkForwarded(r *ipReader, peer netip.Addr, lines []string) netip.Addr {
	var chain forwardedChain
	for _, line := range lines {
		if !chain.parse(line) {
			return peer
		}
	}
	last := peer
	for i := range min(chain.n, maxHops) {
		hop, ok := parseNode(chain.nodes[(chain.n-1-i)%maxHops])
		if !ok {
			return last
		}
		if !r.trusts(hop) {
			return hop
		}
		last = hop
	}
	return last
}

// forwardedChain holds the for parameters of the last maxHops elements, as
// written, quotes included; "" for an element that has none.
type forwardedChain struct {
	nodes [maxHops]string // element i is at i % maxHops
	n     int             // elements so far
}

// parse adds the elements of one line, and reports whether it is well-formed.
// Lines are parsed one by one: a quote that is open at the end of a line must
// not swallow the start of the next, which another proxy has written.
func (c *forwardedChain) parse(line string) bool {
	for more := true; more; {
		var ok bool
		line, more, ok = c.element(line)
		if !ok {
			return false
		}
	}
	return true
}

// element parses
//
//	[ forwarded-pair ] *( ";" [ forwarded-pair ] )
//
// up to a comma or the end of the line. Blanks around the semicolons are not
// in the grammar, but common, and mean nothing else.
func (c *forwardedChain) element(s string) (rest string, more, ok bool) {
	node := ""
	for {
		s = strings.TrimLeft(s, " \t")
		if s != "" && s[0] != ';' && s[0] != ',' {
			name, value, tail, ok := forwardedPair(s)
			isFor := strings.EqualFold(name, "for")
			if !ok || isFor && node != "" { // a parameter may occur once
				return "", false, false
			}
			if isFor {
				node = value
			}
			s = strings.TrimLeft(tail, " \t")
		}
		switch {
		case s == "" || s[0] == ',':
			c.nodes[c.n%maxHops] = node
			c.n++
			return strings.TrimPrefix(s, ","), s != "", true
		case s[0] != ';':
			return "", false, false
		}
		s = s[1:]
	}
}

// forwardedPair parses token "=" ( token / quoted-string ). A quoted value
// keeps its quotes, so that no value is empty.
func forwardedPair(s string) (name, value, tail string, ok bool) {
	n := tokenLen(s)
	if n == 0 || n == len(s) || s[n] != '=' {
		return "", "", "", false
	}
	name, s = s[:n], s[n+1:]
	if n = tokenLen(s); n == 0 {
		n = quotedLen(s)
	}
	return name, s[:n], s[n:], n > 0
}

// quotedLen returns the length of the quoted-string (RFC 9110 §5.6.4) that s
// begins with, or 0 when there is none.
func quotedLen(s string) int {
	if s == "" || s[0] != '"' {
		return 0
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			i++
			if i == len(s) || !isQuotable(s[i]) {
				return 0
			}
		case !isQuotable(c):
			return 0
		}
	}
	return 0
}

// isQuotable reports whether c may stand in a quoted-string, escaped if need be.
func isQuotable(c byte) bool { return c == '\t' || c >= ' ' && c != 0x7f }

// parseNode reads the address of a for parameter (RFC 7239 §6): IPv4, or IPv6
// in brackets, and perhaps a port. "unknown" and obfuscated names are none.
func parseNode(s string) (netip.Addr, bool) {
	if len(s) > 2*maxAddressText { // each byte escaped
		return netip.Addr{}, false
	}
	if s = unquote(s); s == "" {
		return netip.Addr{}, false
	}
	if s[0] == '[' {
		host, port, ok := cutBracketed(s)
		if !ok || port != "" && !isNodePort(port[1:]) {
			return netip.Addr{}, false
		}
		return parseIPv6(host)
	}
	host, port, hasPort := strings.Cut(s, ":")
	if hasPort && !isNodePort(port) {
		return netip.Addr{}, false
	}
	return parseIPv4(host)
}

// isNodePort reports whether s is a port number or an obfuscated port.
func isNodePort(s string) bool {
	if len(s) < 2 || s[0] != '_' {
		return isPort(s)
	}
	for i := 1; i < len(s); i++ {
		if !isAlphanumeric(s[i]) && strings.IndexByte("._-", s[i]) < 0 {
			return false
		}
	}
	return true
}

// unquote returns the text of a token or of a well-formed quoted-string.
func unquote(s string) string {
	if s == "" || s[0] != '"' {
		return s
	}
	s = s[1 : len(s)-1]
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		}
		b = append(b, s[i])
	}
	return string(b)
}
