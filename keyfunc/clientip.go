package keyfunc

import (
	"net/http"
	"net/netip"
	"strings"
)

// maxHops bounds the walk along a chain of proxies.
const maxHops = 64

// ipReader finds the address of the client.
type ipReader struct {
	source    ipSource // find is nil: the peer alone
	trusted   []netip.Prefix
	trustUnix bool
	bits      int
}

// key is the Func of ByIP.
func (r *ipReader) key(q Request) (Key, error) {
	if q.probe != nil {
		q.probe.report.PeerAddress = q.probe.report.PeerAddress || r.source.find == nil
		return Key{}, nil
	}
	return ipKey(r.client(q.HTTP()), r.bits), nil
}

// client returns the address of the client, or an invalid one.
func (r *ipReader) client(req *http.Request) netip.Addr {
	peer, ok := parseAddress(req.RemoteAddr)
	switch {
	case !ok:
		peer = netip.Addr{}
		if !r.trustUnix || !isUnixPeer(req.RemoteAddr) {
			return peer
		}
	case !r.trusts(peer):
		return peer
	}
	lines := req.Header[r.source.header]
	if len(lines) == 0 {
		return peer
	}
	return r.source.find(r, peer, lines)
}

// trusts reports whether a hop is a proxy of ours. Without options it is never.
func (r *ipReader) trusts(hop netip.Addr) bool {
	for _, p := range r.trusted {
		if p.Contains(hop) {
			return true
		}
	}
	return false
}

// isUnixPeer reports whether an http.Server writes s as the RemoteAddr of a
// unix socket: "@" for a peer without a name, else its path or abstract name.
// Other junk is not taken for one: some middlewares put a header in RemoteAddr.
func isUnixPeer(s string) bool { return s == "" || s[0] == '@' || s[0] == '/' }

// readClientIP reads a header that holds one address.
func readClientIP(_ *ipReader, peer netip.Addr, lines []string) netip.Addr {
	if len(lines) > 1 {
		return peer
	}
	addr, ok := parseAddress(trimBlanks(lines[0]))
	if !ok {
		return peer
	}
	return addr
}

// walkXForwardedFor walks the joined lines from the right.
func walkXForwardedFor(r *ipReader, peer netip.Addr, lines []string) netip.Addr {
	last, hops := peer, 0
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; hops++ {
			comma := strings.LastIndexByte(rest, ',')
			hop, ok := parseAddress(trimBlanks(rest[comma+1:]))
			if !ok || hops == maxHops {
				return last
			}
			if !r.trusts(hop) {
				return hop
			}
			last, more = hop, comma >= 0
			rest = rest[:max(comma, 0)]
		}
	}
	return last
}
