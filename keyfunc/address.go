package keyfunc

import (
	"net/netip"
	"strconv"
	"strings"
)

// ByAddress returns a Func that counts the client address that f finds, for a
// framework's own result, such as echo's Context.RealIP. The text is parsed
// and normalised again, as in [IP]: frameworks return junk from headers, and
// several spellings of one address. With or without a port, brackets or a zone
// will do; anything else is [NoAddress]. It never fails. Whether f can be
// misled by a client is for you to know; [ByIP] cannot.
func ByAddress(f func(Request) string) Func {
	var faults []error
	if f == nil {
		faults = append(faults, nilFunction("ByAddress"))
	}
	return reader(faults, func(q Request) (Key, error) {
		return addressKey(f(q)), nil
	})
}

func addressKey(text string) Key {
	addr, _ := parseAddress(strings.TrimSpace(text))
	return IP(addr)
}

// maxAddressText bounds the work on one address; the longest that means
// something is well below (45 bytes of IPv6, brackets, a zone, a port).
const maxAddressText = 128

// parseAddress reads 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1] and
// [2001:db8::1]:80, each IPv6 address with or without a zone. The result is
// unmapped and has no zone, so that it can be compared and looked up.
func parseAddress(s string) (netip.Addr, bool) {
	if s == "" || len(s) > maxAddressText {
		return netip.Addr{}, false
	}
	if s[0] == '[' {
		host, port, ok := cutBracketed(s)
		if !ok || port != "" && !isPort(port[1:]) {
			return netip.Addr{}, false
		}
		return parseIPv6(host)
	}
	colon := strings.IndexByte(s, ':')
	if colon < 0 {
		return parseIPv4(s)
	}
	if strings.LastIndexByte(s, ':') > colon {
		return parseIPv6(s)
	}
	if !isPort(s[colon+1:]) {
		return netip.Addr{}, false
	}
	return parseIPv4(s[:colon])
}

// cutBracketed cuts "[host]" or "[host]:port"; port keeps its colon.
func cutBracketed(s string) (host, port string, ok bool) {
	host, port, ok = strings.Cut(s[1:], "]")
	return host, port, ok && (port == "" || port[0] == ':')
}

func parseIPv4(s string) (netip.Addr, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' { // spares the error of ParseAddr, which allocates
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(s)
	return addr, err == nil && addr.Is4()
}

// parseIPv6 cuts the zone before it parses: netip would keep a table of zones,
// and here they are whatever a client has written.
func parseIPv6(s string) (netip.Addr, bool) {
	host, zone, zoned := strings.Cut(s, "%")
	if zoned && zone == "" {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.Is6() {
		return netip.Addr{}, false
	}
	return addr.Unmap(), true
}

// isPort reports whether s is a port number.
func isPort(s string) bool {
	if len(s) > len("65535") {
		return false
	}
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}
