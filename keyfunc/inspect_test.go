package keyfunc_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/keyfunc"
)

// faultFields returns the fields of the faults in err, in their order.
func faultFields(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	var fields []string
	for _, e := range all {
		fault, ok := e.(*keyfunc.FieldError)
		if !ok || fault.Problem == "" || fault.Remedy == "" {
			t.Errorf("%v is no FieldError with a remedy", e)
			continue
		}
		fields = append(fields, fault.Field)
	}
	return fields
}

func TestFaultsAreFoundBeforeTheFirstRequest(t *testing.T) {
	x := keyfunc.XForwardedFor
	for _, c := range []struct {
		name string
		f    keyfunc.Func
		want []string
	}{
		{"nil", nil, []string{"Key"}},
		{"empty header", keyfunc.ByHeader(""), []string{"ByHeader"}},
		{"header with a blank", keyfunc.ByHeader("X User"), []string{"ByHeader"}},
		{"header with a colon", keyfunc.ByAPIKey("X-API-Key:"), []string{"ByAPIKey"}},
		{"header with a line break", keyfunc.ByAPIKey("X\r\nY"), []string{"ByAPIKey"}},
		{"host", keyfunc.ByHeader("host"), []string{"ByHeader"}},
		{"empty API key header", keyfunc.ByAPIKey(""), []string{"ByAPIKey"}},
		{"empty query", keyfunc.ByQuery(""), []string{"ByQuery"}},
		{"empty cookie", keyfunc.ByCookie(""), []string{"ByCookie"}},
		{"cookie with a blank", keyfunc.ByCookie("s id"), []string{"ByCookie"}},
		{"empty name", keyfunc.ByName(""), []string{"ByName"}},
		{"nil user function", keyfunc.ByUser(nil), []string{"ByUser"}},
		{"nil address function", keyfunc.ByAddress(nil), []string{"ByAddress"}},
		{"First of nothing", keyfunc.First(), []string{"First"}},
		{"All of nothing", keyfunc.All(), []string{"All"}},
		{"nil in First", keyfunc.First(keyfunc.ByIP(), nil, nil), []string{"First[1]", "First[2]"}},
		{"nil in All", keyfunc.All(nil), []string{"All[0]"}},
		{"Required nil", keyfunc.Required(nil), []string{"Required[0]"}},
		{"nil option", keyfunc.ByIP(nil), []string{"ByIP[0]"}},
		{"unparsable", keyfunc.ByIP(x("10.0.0.1", "proxy.local")), []string{"XForwardedFor[1]"}},
		{"empty element", keyfunc.ByIP(x("")), []string{"XForwardedFor[0]"}},
		{"blank around", keyfunc.ByIP(x(" 10.0.0.1")), []string{"XForwardedFor[0]"}},
		{"port", keyfunc.ByIP(x("10.0.0.1:80")), []string{"XForwardedFor[0]"}},
		{"zone", keyfunc.ByIP(x("fe80::1%eth0")), []string{"XForwardedFor[0]"}},
		{"zone in prefix", keyfunc.ByIP(x("fe80::%eth0/10")), []string{"XForwardedFor[0]"}},
		{"host bits", keyfunc.ByIP(x("10.0.0.1/8")), []string{"XForwardedFor[0]"}},
		{"host bits, IPv6", keyfunc.ByIP(x("2001:db8::1/32")), []string{"XForwardedFor[0]"}},
		{"host bits, mapped", keyfunc.ByIP(x("::ffff:10.0.0.1/104")), []string{"XForwardedFor[0]"}},
		{"prefix cuts the mapping", keyfunc.ByIP(x("::ffff:0:0/90")), []string{"XForwardedFor[0]"}},
		{"prefix too long", keyfunc.ByIP(x("10.0.0.0/33")), []string{"XForwardedFor[0]"}},
		{"everyone", keyfunc.ByIP(x("0.0.0.0/0", "::/0", "::ffff:0:0/96", "1.2.3.4/0")), []string{"XForwardedFor[0]", "XForwardedFor[1]", "XForwardedFor[2]", "XForwardedFor[3]"}},
		{"nobody", keyfunc.ByIP(x()), []string{"XForwardedFor"}},
		{"nobody, Forwarded", keyfunc.ByIP(keyfunc.Forwarded()), []string{"Forwarded"}},
		{"nobody, header", keyfunc.ByIP(keyfunc.ClientIPHeader("X-Real-IP")), []string{"ClientIPHeader"}},
		{"nameless header", keyfunc.ByIP(keyfunc.ClientIPHeader("", "10.0.0.1")), []string{"ClientIPHeader"}},
		{"bad header", keyfunc.ByIP(keyfunc.ClientIPHeader("X Real", "10.0.0.1")), []string{"ClientIPHeader"}},
		{"a list as single address", keyfunc.ByIP(keyfunc.ClientIPHeader("x-forwarded-for", "10.0.0.1")), []string{"ClientIPHeader"}},
		{"Forwarded as single address", keyfunc.ByIP(keyfunc.ClientIPHeader("forwarded", "10.0.0.1")), []string{"ClientIPHeader"}},
		{"two headers", keyfunc.ByIP(x("10.0.0.1"), keyfunc.Forwarded("10.0.0.1")), []string{"ByIP"}},
		{"one header twice", keyfunc.ByIP(x("10.0.0.1"), x("10.0.0.2")), []string{"ByIP"}},
		{"bits too few", keyfunc.ByIP(keyfunc.IPv6Prefix(31)), []string{"IPv6Prefix"}},
		{"bits too many", keyfunc.ByIP(keyfunc.IPv6Prefix(129)), []string{"IPv6Prefix"}},
		{"unix peer without header", keyfunc.ByIP(keyfunc.TrustUnixPeer()), []string{"TrustUnixPeer"}},
		{"all at once", keyfunc.First(keyfunc.ByHeader(""), keyfunc.All(nil, keyfunc.Required(keyfunc.ByName(""))), keyfunc.ByIP(x(), keyfunc.IPv6Prefix(7))),
			[]string{"ByHeader", "All[0]", "ByName", "IPv6Prefix", "XForwardedFor"}},
	} {
		_, err := keyfunc.Inspect(c.f)
		if got := faultFields(t, err); !slices.Equal(got, c.want) {
			t.Errorf("%s: faults %q, want %q", c.name, got, c.want)
		}
		if c.f == nil {
			continue
		}
		key, err := c.f(request(proxy, xff("198.51.100.7")...))
		if c.name != "all at once" && c.name != "nil in First" && !slices.Equal(faultFields(t, err), c.want) || !key.IsZero() {
			t.Errorf("%s: a call gives %v, %v", c.name, key, err)
		}
	}
}

func TestFaultSaysWhatToWriteInstead(t *testing.T) {
	for want, f := range map[string]keyfunc.Func{
		"slidegate: XForwardedFor[0] = 10.0.0.1/8: has bits set beyond its length; use 10.0.0.1 for that address alone, or 10.0.0.0/8 for all of the network": keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.1/8")),
		`slidegate: XForwardedFor[0] = "": neither an address nor a prefix; write it like 10.0.1.7 or 192.0.2.0/24`:                                           keyfunc.ByIP(keyfunc.XForwardedFor("")),
		"slidegate: ClientIPHeader = X-Forwarded-For: holds a list, whose left end anyone can write; use keyfunc.XForwardedFor":                               keyfunc.ByIP(keyfunc.ClientIPHeader("X-Forwarded-For", "10.0.0.1")),
		"slidegate: IPv6Prefix = 7: not from 32 to 128; use 64":                                                                                               keyfunc.ByIP(keyfunc.IPv6Prefix(7)),
		"slidegate: ByIP = XForwardedFor, Forwarded: several headers that tell the address; use the one that your proxy writes":                               keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.1"), keyfunc.Forwarded("10.0.0.1")),
		"slidegate: First[0] = nil: no function; give one, or leave it out":                                                                                   keyfunc.First(nil),
		"slidegate: All: no functions; give at least one":                                                                                                     keyfunc.All(),
	} {
		if _, err := keyfunc.Inspect(f); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestFaultlessFunctionsPassInspection(t *testing.T) {
	user := keyfunc.ByUser(func(*http.Request) (string, error) { panic("called by Inspect") })
	address := keyfunc.ByAddress(func(keyfunc.Request) string { panic("called by Inspect") })
	proxied := keyfunc.ByIP(keyfunc.XForwardedFor("10.0.0.1", "10.0.1.0/24", "::ffff:10.0.0.0/104", "2001:db8::/32", "::1"))
	for i, c := range []struct {
		f    keyfunc.Func
		peer bool
	}{
		{keyfunc.ByIP(), true},
		{keyfunc.ByIP(keyfunc.IPv6Prefix(48)), true},
		{proxied, false},
		{keyfunc.ByIP(keyfunc.Forwarded(), keyfunc.TrustUnixPeer()), false},
		{keyfunc.ByIP(keyfunc.ClientIPHeader("CF-Connecting-IP", "10.0.0.1")), false},
		{keyfunc.First(user, address, proxied), false},
		{keyfunc.First(user, keyfunc.All(keyfunc.ByRoute(), keyfunc.Required(keyfunc.ByIP())), proxied), true},
		{keyfunc.First(keyfunc.ByIP(), proxied), true},
		{keyfunc.All(keyfunc.ByAPIKey("X-API-Key"), keyfunc.ByBearer(), keyfunc.ByQuery("k"), keyfunc.ByCookie("c"), keyfunc.ByHeader("X-User"), keyfunc.ByMethod(), keyfunc.ByName("n")), false},
	} {
		report, err := keyfunc.Inspect(c.f)
		if err != nil || report.PeerAddress != c.peer {
			t.Errorf("%d: %+v, %v", i, report, err)
		}
	}
}

func TestInspectCallsAUsersOwnFunctionOnceWithAnEmptyRequest(t *testing.T) {
	calls := 0
	own := func(q keyfunc.Request) (keyfunc.Key, error) {
		calls++
		if q.HTTP().URL.Path != "/" || len(q.HTTP().Header) != 0 || q.Native() != nil || q.Route() != "" {
			t.Errorf("not an empty request: %+v", q.HTTP())
		}
		return keyfunc.Key{}, errors.New("no such user")
	}
	for _, f := range []keyfunc.Func{own, keyfunc.First(own), keyfunc.Required(own), keyfunc.All(own, keyfunc.ByIP())} {
		calls = 0
		if _, err := keyfunc.Inspect(f); err != nil || calls != 1 {
			t.Errorf("%d calls, %v", calls, err)
		}
	}
}

func TestInspectSurvivesAPanicInAUsersOwnFunction(t *testing.T) {
	bad := func(q keyfunc.Request) (keyfunc.Key, error) { return keyfunc.User(q.Native().(string)), nil }
	report, err := keyfunc.Inspect(keyfunc.First(bad, keyfunc.ByName(""), keyfunc.ByIP()))
	if !report.PeerAddress || !slices.Equal(faultFields(t, err), []string{"ByName"}) {
		t.Errorf("%+v, %v", report, err)
	}
	if report, err := keyfunc.Inspect(bad); err != nil || report.PeerAddress {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestInspectReachesIntoAUsersOwnFunction(t *testing.T) {
	wrap := func(f keyfunc.Func) keyfunc.Func {
		return func(q keyfunc.Request) (keyfunc.Key, error) {
			key, err := f(q)
			if err != nil {
				return key, fmt.Errorf("wrapped: %w", err)
			}
			return keyfunc.Join(key, keyfunc.Name("x")), nil
		}
	}
	swallow := func(q keyfunc.Request) (keyfunc.Key, error) {
		keyfunc.ByHeader("")(q)
		keyfunc.ByHeader("")(q)
		return keyfunc.Name("x"), nil
	}
	report, err := keyfunc.Inspect(keyfunc.First(wrap(keyfunc.ByName("")), wrap(keyfunc.ByIP()), swallow))
	if got := faultFields(t, err); !report.PeerAddress || !slices.Equal(got, []string{"ByName", "ByHeader", "ByHeader"}) {
		t.Errorf("%+v, %q", report, got)
	}
}

func TestFaultReturnedByAnAdaptersFunctionIsFound(t *testing.T) {
	fault := &keyfunc.FieldError{Field: "By", Value: "nil", Problem: "no function", Remedy: "give one"}
	for _, err := range []error{fault, fmt.Errorf("x: %w", fault), errors.Join(errors.New("x"), fault, fault)} {
		_, found := keyfunc.Inspect(keyfunc.First(constant(keyfunc.Key{}, err), keyfunc.ByIP()))
		if found != error(fault) {
			t.Errorf("%v: found %v", err, found)
		}
	}
}

func TestFaultValueCannotForgeLogLines(t *testing.T) {
	_, err := keyfunc.Inspect(keyfunc.ByHeader("X\nlevel=ERROR msg=forged" + strings.Repeat("!", 1000)))
	if err == nil || strings.Contains(err.Error(), "\n") || len(err.Error()) > 250 {
		t.Errorf("got %v", err)
	}
}
