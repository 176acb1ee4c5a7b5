// Package keyfunc says who is counted: keys, and functions that read them from
// HTTP requests.
//
// A [Key] names one counted party: a client address, an API key, a user, a
// route, or several of these together. Constructors ([User], [IP], [APIKey],
// [Join] and others) make keys in code; a [Func] reads one from a [Request].
// Both give equal keys for the same party, so that a job, an admin page and a
// middleware all mean the same counter.
//
// # Addresses
//
// [ByIP] counts the address of the TCP peer, and nothing a client can write.
// Behind a proxy or load balancer the peer is the proxy, and all clients would
// share one key. Then name the header that this proxy writes, and the exact
// addresses of the hops that are yours:
//
//	keyfunc.ByIP(keyfunc.XForwardedFor("10.0.1.7", "10.0.1.8"))
//
// Do not trust whole private ranges: a client inside such a range could then
// choose its own address. A request with no address at all (a unix socket, or
// http.NewRequest in a test) has the one key [NoAddress].
//
// # Secrets
//
// API keys, bearer tokens and cookies are digested at once ([APIKey]); their
// text is kept nowhere. A [Sealer] makes the digests useless to someone who
// does not know a secret of yours.
//
// # Missing keys
//
// A Func that finds no key in a request returns an error that matches
// [ErrMissing]. [First] then asks the next function, [Required] turns it into
// an error that matches [ErrRequired]. A request whose key can be read in two
// ways gets [ErrAmbiguous], and nobody is asked further.
//
// # Mistakes in the set-up
//
// The functions of this package have no error result, so that they can be
// written where they are used. A mistake in their arguments is found by
// [Inspect], which every limiter calls when it is made.
package keyfunc
