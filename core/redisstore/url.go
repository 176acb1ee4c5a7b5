package redisstore

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// address is a URL taken apart.
type address struct {
	scheme         string // without the s of TLS
	tls            bool
	user, password string
	hosts          []string // with their ports
	name           string   // the host, if there is one alone
	path           []string
	query          url.Values
	faults         []error
}

// bad adds a fault. The value must be none that could hold a password.
func (a *address) bad(part, value, problem, remedy string) {
	a.faults = append(a.faults, &FieldError{Field: "url: " + part, Value: value, Problem: problem, Remedy: remedy})
}

const encode = "percent-encode / ? # @ and % in user, password, path and parameters, as url.QueryEscape does"

// split reports whether the URL could be taken apart.
func (a *address) split(rawURL string) bool {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	a.scheme, a.tls = scheme, false
	if secure, is := strings.CutPrefix(scheme, "rediss"); is {
		a.scheme, a.tls = "redis"+secure, true
	}
	if !ok || !slices.Contains([]string{"redis", "unix", "redis-cluster", "redis-sentinel"}, a.scheme) {
		if !ok || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz-") != "" {
			scheme = "" // perhaps the password of a URL without one
		}
		a.bad("scheme", scheme, "not one of those known",
			"begin with redis://, rediss://, unix://, redis-cluster://, rediss-cluster://, redis-sentinel:// or rediss-sentinel://")
		return false
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	// What was taken for the end of the hosts may be a part of the password.
	if strings.ContainsAny(tail, "@#") {
		a.bad("text", "", "there is a # or @ behind the hosts", encode)
		return false
	}
	path, query, _ := strings.Cut(tail, "?")
	a.splitUser(authority)
	a.splitQuery(query)
	if a.scheme == "unix" {
		a.splitSocket(path)
	} else {
		a.splitPath(path)
	}
	return len(a.faults) == 0
}

// splitUser takes user, password and hosts from what is between :// and the path.
func (a *address) splitUser(authority string) {
	i := strings.LastIndexByte(authority, '@')
	hosts := authority[i+1:]
	if i >= 0 {
		user, password, _ := strings.Cut(authority[:i], ":")
		var wrongUser, wrongPassword error
		a.user, wrongUser = url.PathUnescape(user)
		a.password, wrongPassword = url.PathUnescape(password)
		if wrongUser != nil || wrongPassword != nil {
			a.bad("user and password", "", "not percent-encoded", encode)
		}
	}
	switch {
	case a.scheme == "unix":
		if hosts != "" {
			a.bad("host", "", "a socket has none", "write unix:///path/to/redis.sock: three slashes, or an @ and one behind user and password")
		}
		return
	case hosts == "":
		a.bad("host", "", "there is none", "write it behind ://, or behind the @ of user and password")
		return
	}
	names := strings.Split(hosts, ",")
	if len(names) > 1 && a.scheme == "redis" {
		a.bad("host", "", "there are several, but one server is asked for", "use redis-cluster:// or redis-sentinel://, or name one")
		return
	}
	for _, h := range names {
		a.addHost(h, i >= 0)
	}
}

// addHost adds a host with its port. It may be shown whole only if it is known not
// to be user:password without a host.
func (a *address) addHost(text string, show bool) {
	value := ""
	if show {
		value = text
	}
	host, port, hasPort := strings.Cut(text, ":")
	known := isHost(host)
	if inner, is := strings.CutPrefix(text, "["); is {
		host, port, known = strings.Cut(inner, "]")
		ip, err := netip.ParseAddr(host)
		known = known && err == nil && ip.Is6()
		hasPort = port != ""
		if p, is := strings.CutPrefix(port, ":"); is {
			port = p
		} else if hasPort {
			known = false
		}
	}
	if !known {
		a.bad("host", value, "not a host", "write a name, an IPv4 address, or an IPv6 address in brackets, and a port behind a colon")
		return
	}
	if !hasPort {
		port = "6379"
		if a.scheme == "redis-sentinel" {
			port = "26379"
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		a.bad("port", value, "not a port", "use a number from 1 to 65535")
		return
	}
	a.hosts = append(a.hosts, net.JoinHostPort(host, port))
	if a.name = host; len(a.hosts) > 1 {
		a.name = ""
	}
}

// isHost reports whether s has only what names and IPv4 addresses of hosts consist of.
func isHost(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_') {
			return false
		}
	}
	return s != ""
}

func (a *address) splitQuery(query string) {
	q, err := url.ParseQuery(query)
	if err != nil {
		a.bad("parameters", "", "not percent-encoded", encode) // err quotes them
	}
	a.query = q
}

// take removes a parameter and returns its last value, as go-redis does.
func (a *address) take(name string) string {
	values := a.query[name]
	delete(a.query, name)
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

func (a *address) splitSocket(path string) {
	socket, err := url.PathUnescape(path)
	if err != nil || strings.Trim(socket, "/ ") == "" {
		a.bad("path", "", "not the path of a socket", "write unix:///path/to/redis.sock")
	}
	a.hosts = []string{socket}
}

func (a *address) splitPath(path string) {
	for _, s := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' }) {
		part, err := url.PathUnescape(s)
		if err != nil {
			a.bad("path", "", "not percent-encoded", encode)
		}
		a.path = append(a.path, part)
	}
}

// database returns the database that the path has behind the first parts, or the
// parameter db, which precedes it as in go-redis.
func (a *address) database(first int, form string) int {
	text := "0"
	if len(a.path) > first {
		text = a.path[first]
	}
	if len(a.path) > first+1 {
		a.bad("path", "/"+strings.Join(a.path, "/"), "too long", "write "+form)
	}
	if db := a.take("db"); db != "" {
		text = db
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		a.bad("db", text, "not a database", "use a number from 0 on, as in "+form)
	}
	return int(n)
}

// security returns what to check TLS connections by, or nil without TLS.
func (a *address) security() *tls.Config {
	name := a.take("server_name")
	if !a.tls {
		if name != "" {
			a.bad("server_name", name, "it is for TLS", "use rediss in place of redis, or leave it out")
		}
		return nil
	}
	if name == "" {
		name = a.name // if this is empty too, crypto/tls takes the host that it dials
	}
	return &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}
}

func (a *address) toSingle() *redis.Options {
	t, db := a.security(), a.database(0, "redis://host:6379/1")
	var o *redis.Options
	a.parameters(func(query string) (err error) {
		o, err = redis.ParseURL(a.bare() + query)
		return err
	})
	if len(a.faults) > 0 {
		return nil
	}
	o.Addr, o.DB, o.Username, o.Password = a.hosts[0], db, a.user, a.password
	if a.scheme == "unix" {
		o.Network = "unix"
	}
	if t != nil {
		t.InsecureSkipVerify = o.TLSConfig.InsecureSkipVerify
		o.TLSConfig = t
	}
	suit(o)
	return o
}

func (a *address) toCluster() *redis.ClusterOptions {
	a.moreHosts()
	t := a.security()
	if db := a.database(0, "redis-cluster://host:6379"); db != 0 {
		a.bad("db", strconv.Itoa(db), "a cluster has no other database than 0", "leave it out")
	}
	var o *redis.ClusterOptions
	a.parameters(func(query string) (err error) {
		o, err = redis.ParseClusterURL(a.bare() + query)
		return err
	})
	if len(a.faults) > 0 {
		return nil
	}
	o.Addrs, o.Username, o.Password, o.TLSConfig = a.hosts, a.user, a.password, t
	suitCluster(o)
	return o
}

func (a *address) toSentinel() *redis.FailoverOptions {
	a.moreHosts()
	t := a.security()
	master, first := a.take("master_name"), 0
	if master == "" && len(a.path) > 0 {
		master, first = a.path[0], 1
	}
	if master == "" {
		a.bad("path", "", "no name of a master", "write it behind the hosts, as in redis-sentinel://host:26379/mymaster/0")
	}
	db := a.database(first, "redis-sentinel://host:26379/mymaster/0")
	user, password := a.take("username"), a.take("password")
	if user+password != "" {
		if a.user+a.password != "" {
			a.bad("user and password", "", "given twice", "leave out the parameters username and password: those of Sentinel are sentinel_username and sentinel_password")
		}
		a.user, a.password = user, password
	}
	sentinelUser, sentinelPassword := a.take("sentinel_username"), a.take("sentinel_password")
	query := maps.Clone(a.query)
	var o *redis.FailoverOptions
	a.parameters(func(query string) (err error) {
		o, err = redis.ParseFailoverURL(a.bare() + query)
		return err
	})
	if len(a.faults) > 0 {
		return nil
	}
	o.MasterName, o.SentinelAddrs, o.DB = master, a.hosts, db
	o.Username, o.Password = a.user, a.password
	o.SentinelUsername, o.SentinelPassword = sentinelUser, sentinelPassword
	if t != nil {
		t.InsecureSkipVerify = o.TLSConfig.InsecureSkipVerify
		o.TLSConfig = t
	}
	suitSentinel(o, query)
	return o
}

// moreHosts adds those of the parameter addr, which go-redis has for several.
func (a *address) moreHosts() {
	for _, h := range a.query["addr"] {
		a.addHost(h, false)
	}
	delete(a.query, "addr")
}

// bare returns a URL that go-redis parses for its parameters alone, up to them. It
// knows skip_verify only with TLS.
func (a *address) bare() string {
	if a.tls {
		return "rediss://host?"
	}
	return "redis://host?"
}

// parameters checks each parameter by having go-redis parse it alone, since its
// errors name no field, and all of them at last.
func (a *address) parameters(parse func(query string) error) {
	secret := false
	for name := range a.query {
		secret = secret || strings.Contains(strings.ToLower(name), "pass")
	}
	for _, name := range slices.Sorted(maps.Keys(a.query)) {
		value := a.query[name][len(a.query[name])-1]
		switch {
		case parse(url.Values{name: {""}}.Encode()) != nil && secret:
			a.bad("parameters", "", "unknown ones beside a password, which they may be parts of", "put it behind the scheme, as user:password@; "+encode)
			return
		case parse(url.Values{name: {""}}.Encode()) != nil:
			// Of a misspelt parameter not even the value is known to be no secret.
			a.bad(name, "", "not a parameter of this kind of URL", "see redis.ParseURL, ParseClusterURL and ParseFailoverURL of go-redis for those there are")
		case parse(url.Values{name: {value}}.Encode()) != nil:
			a.bad(name, value, "not a value of this parameter", "use a whole number, true or false, or a duration such as 500ms")
		default:
			a.checkRange(name, value)
		}
	}
	if len(a.faults) == 0 {
		// Nothing like this is known of go-redis 9.23.
		if err := parse(a.query.Encode()); err != nil {
			a.bad("parameters", "", "they do not go together", "leave some out")
		}
	}
}

// ranges are those of the parameters that are numbers. Outside them go-redis panics,
// takes all memory for a pool, or never sends anything.
var ranges = map[string]struct{ from, to int }{
	"pool_size": {0, 65536}, "min_idle_conns": {0, 65536}, "max_idle_conns": {0, 65536},
	"max_active_conns": {0, 65536}, "max_concurrent_dials": {0, 65536}, "pipeline_pool_size": {-1, 65536},
	"pipeline_read_buffer_size": {0, 1 << 24}, "pipeline_write_buffer_size": {0, 1 << 24},
	"max_retries": {-1, 100}, "max_redirects": {-1, 100}, "dialer_retries": {0, 100},
	"protocol": {0, 3}, "failing_timeout_seconds": {0, 86400},
}

func (a *address) checkRange(name, value string) {
	if value == "" {
		return
	}
	if r, some := ranges[name]; some {
		if n, _ := strconv.Atoi(value); n < r.from || n > r.to {
			a.bad(name, value, "out of range", fmt.Sprintf("use %d to %d", r.from, r.to))
		}
		return
	}
	switch name {
	case "dial_timeout", "pool_timeout":
		d, _ := time.ParseDuration(value)
		if n, _ := strconv.Atoi(value); n < 1 && d <= 0 {
			// go-redis takes it for a time that is over at once.
			a.bad(name, value, "not a time that anything can be done in", "use a positive duration, such as 1s")
		}
	case "replica_only", "route_by_latency", "route_randomly":
		if a.scheme == "redis-sentinel" && (value == "true" || value == "1") {
			a.bad(name, value, "a replica cannot count", "leave it out")
		}
	}
}
