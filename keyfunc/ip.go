package keyfunc

import (
	"fmt"
	"net/netip"
	"strings"
)

const defaultIPv6Bits = 64

// IPOption changes how [ByIP] finds the address of the client.
type IPOption func(*ipConfig)

// ByIP returns a Func that counts the client's address; see [IP].
//
// Without options this is the address of the TCP peer, and no header is read.
// [XForwardedFor], [Forwarded] and [ClientIPHeader], of which at most one can
// be given, read the header that a proxy of yours writes. The peer is checked
// first: a header counts only if the peer is trusted.
//
// ByIP never fails. A request without a readable address has the key
// [NoAddress]. Only when its options are faulty (see [Inspect]), it returns
// that fault for each request.
//
// It does not allocate for ordinary addresses.
func ByIP(opts ...IPOption) Func {
	cfg := ipConfig{bits: defaultIPv6Bits}
	for i, opt := range opts {
		if opt == nil {
			cfg.faults = append(cfg.faults, nilFunction(fmt.Sprintf("ByIP[%d]", i)))
			continue
		}
		opt(&cfg)
	}
	if faults := cfg.check(); len(faults) > 0 {
		return faulty(faults)
	}
	return cfg.reader().key
}

// XForwardedFor makes [ByIP] read X-Forwarded-For, of requests whose peer is
// trusted. Each trusted element is an address or a prefix, as text:
// "10.0.1.7", "192.0.2.0/24", "2001:db8:1::/48". Name the exact hops that are
// yours; if you trust a whole private range, every client in it can choose its
// address.
//
// All lines of the header are one list, walked from the right, where the
// nearest proxy has written. The first address that is not trusted is the
// client. An element that is no address ends the walk, and the last hop
// before it counts, the peer if need be: what stands further left may be
// written by anyone. So do an empty element and the 65th. If all elements are
// trusted, the leftmost counts. Elements may have a port.
//
// If an edge in front adds its own changing address, trust its range too, or
// each request counts for another key.
func XForwardedFor(trusted ...string) IPOption {
	return headerOption(ipSource{option: "XForwardedFor", header: "X-Forwarded-For", find: walkXForwardedFor}, trusted)
}

// Forwarded makes [ByIP] read the Forwarded header of RFC 7239, of requests
// whose peer is trusted. Trusted elements and the walk are those of
// [XForwardedFor]. An element whose for parameter is absent, "unknown", an
// obfuscated name or no address ends the walk. A header that breaks the
// grammar anywhere is not used: the peer counts. Blanks around semicolons, which
// the grammar lacks and some proxies write, are passed over.
func Forwarded(trusted ...string) IPOption {
	return headerOption(ipSource{option: "Forwarded", header: "Forwarded", find: walkForwarded}, trusted)
}

// ClientIPHeader makes [ByIP] read a header that holds the client's address
// alone, such as CF-Connecting-IP, of requests whose peer is trusted. Trusted
// elements are those of [XForwardedFor]. If the header is not there, is there
// twice, or holds anything but one address, the peer counts.
func ClientIPHeader(name string, trusted ...string) IPOption {
	const option = "ClientIPHeader"
	canonical, faults := headerName(option, name)
	if canonical == "X-Forwarded-For" || canonical == "Forwarded" {
		faults = append(faults, &FieldError{Field: option, Value: canonical, Problem: "holds a list, whose left end anyone can write", Remedy: "use keyfunc." + strings.ReplaceAll(canonical, "-", "")})
	}
	set := headerOption(ipSource{option: option, header: canonical, find: readClientIP}, trusted)
	return func(cfg *ipConfig) {
		cfg.faults = append(cfg.faults, faults...)
		set(cfg)
	}
}

// IPv6Prefix makes [ByIP] count that many leading bits of an IPv6 address, 32
// to 128. The default is 64. Shorter ones suit sites with many networks, 48
// or 56; 128 tells hosts of one network apart, and lets one host with such a
// network have as many keys as it likes. IPv4 addresses always count whole.
func IPv6Prefix(bits int) IPOption {
	const least, most = 32, 128
	return func(cfg *ipConfig) {
		if bits < least || bits > most {
			cfg.faults = append(cfg.faults, &FieldError{
				Field: "IPv6Prefix", Value: fmt.Sprint(bits),
				Problem: fmt.Sprintf("not from %d to %d", least, most), Remedy: fmt.Sprintf("use %d", defaultIPv6Bits),
			})
		}
		cfg.bits = bits
	}
}

// TrustUnixPeer makes [ByIP] trust a peer without an address, as the proxy at
// the other end of a unix socket is. It needs one of the header options, whose
// list of trusted addresses may then be empty.
func TrustUnixPeer() IPOption {
	return func(cfg *ipConfig) { cfg.trustUnix = true }
}

// ipSource is a header that tells the client's address.
type ipSource struct {
	option string // the name of the option, for faults
	header string // canonical
	find   func(r *ipReader, peer netip.Addr, lines []string) netip.Addr
}

// ipConfig gathers the options of ByIP.
type ipConfig struct {
	sources   []ipSource
	trusted   []netip.Prefix
	listed    int // trusted elements given, faulty ones too
	trustUnix bool
	bits      int
	faults    []error
}

func headerOption(source ipSource, trusted []string) IPOption {
	prefixes, faults := parseTrusted(source.option, trusted)
	return func(cfg *ipConfig) {
		cfg.sources = append(cfg.sources, source)
		cfg.trusted = append(cfg.trusted, prefixes...)
		cfg.listed += len(trusted)
		cfg.faults = append(cfg.faults, faults...)
	}
}

// check returns the faults of the options, each for itself and together.
func (cfg *ipConfig) check() []error {
	faults := cfg.faults
	switch {
	case len(cfg.sources) > 1:
		faults = append(faults, &FieldError{
			Field: "ByIP", Value: cfg.sources[0].option + ", " + cfg.sources[1].option,
			Problem: "several headers that tell the address", Remedy: "use the one that your proxy writes",
		})
	case len(cfg.sources) == 0 && cfg.trustUnix:
		faults = append(faults, &FieldError{
			Field: "TrustUnixPeer", Problem: "no header to read from the peer",
			Remedy: "add XForwardedFor(), Forwarded() or ClientIPHeader(name)",
		})
	case len(cfg.sources) == 1 && cfg.listed == 0 && !cfg.trustUnix:
		faults = append(faults, &FieldError{
			Field: cfg.sources[0].option, Problem: "trusts nobody",
			Remedy: "list the addresses of your proxies, or leave the option out",
		})
	}
	return faults
}

// reader returns what the checked options amount to.
func (cfg *ipConfig) reader() *ipReader {
	r := &ipReader{trusted: cfg.trusted, trustUnix: cfg.trustUnix, bits: cfg.bits}
	if len(cfg.sources) == 1 {
		r.source = cfg.sources[0]
	}
	return r
}
