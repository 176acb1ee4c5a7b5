package keyfunc_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/keyfunc"
)

// session stands for a framework's context.
type session struct{ user, addr string }

func inSession(native any) keyfunc.Request {
	return keyfunc.NewRequest(httptest.NewRequest("GET", "/", nil), nil, native)
}

func TestByNative(t *testing.T) {
	down := errors.New("the session store is down")
	f := keyfunc.ByNative(func(s *session) (string, error) {
		if s.user == "bad" {
			return "", down
		}
		return s.user, nil
	})
	if k, err := f(inSession(&session{user: "ada"})); err != nil || k != keyfunc.User("ada") {
		t.Errorf("%v, %v, want the key of the user", k, err)
	}
	k, err := f(inSession(&session{}))
	if missing, _ := errors.AsType[*keyfunc.MissingError](err); !errors.Is(err, keyfunc.ErrMissing) || missing.What != "user" || !k.IsZero() {
		t.Errorf("no user: %v, %v", k, err)
	}
	if _, err := f(inSession(&session{user: "bad"})); !errors.Is(err, down) || errors.Is(err, keyfunc.ErrMissing) || !strings.HasPrefix(err.Error(), "slidegate: ") {
		t.Errorf("an error of the function: %v", err)
	}
	required := keyfunc.Required(f)
	if _, err := required(inSession(&session{})); !errors.Is(err, keyfunc.ErrRequired) {
		t.Errorf("no user, though required: %v", err)
	}
	for _, native := range []any{nil, session{}, "text"} {
		_, err := f(inSession(native))
		if err == nil || errors.Is(err, keyfunc.ErrMissing) || !strings.Contains(err.Error(), "*keyfunc_test.session") || !strings.Contains(err.Error(), fmt.Sprintf("has a %T:", native)) {
			t.Errorf("in a %T: %v", native, err)
		}
	}
}

// Whoever finds users in a framework's context pays no more than who finds them in the
// request.
func TestNativeFunctionsCostNoMore(t *testing.T) {
	in := inSession(&session{user: "ada", addr: "203.0.113.7"})
	for name, test := range map[string]struct{ native, plain keyfunc.Func }{
		"user": {
			keyfunc.ByNative(func(s *session) (string, error) { return s.user, nil }),
			keyfunc.ByUser(func(*http.Request) (string, error) { return "ada", nil }),
		},
		"nobody": {
			keyfunc.ByNative(func(*session) (string, error) { return "", nil }),
			keyfunc.ByUser(func(*http.Request) (string, error) { return "", nil }),
		},
		"address": {
			keyfunc.ByNativeAddress(func(s *session) string { return s.addr }),
			keyfunc.ByAddress(func(keyfunc.Request) string { return "203.0.113.7" }),
		},
	} {
		count := func(f keyfunc.Func) float64 { return testing.AllocsPerRun(100, func() { _, _ = f(in) }) }
		if native, plain := count(test.native), count(test.plain); native > plain {
			t.Errorf("%s: %v allocations, want at most %v", name, native, plain)
		}
	}
}

func TestByNativeAddress(t *testing.T) {
	f := keyfunc.ByNativeAddress(func(s *session) string { return s.addr })
	for addr, want := range map[string]keyfunc.Key{
		"203.0.113.7":         keyfunc.IP(netip.MustParseAddr("203.0.113.7")),
		"::ffff:203.0.113.7":  keyfunc.IP(netip.MustParseAddr("203.0.113.7")),
		"203.0.113.7:8080":    keyfunc.IP(netip.MustParseAddr("203.0.113.7")),
		"2001:db8::7%eth0":    keyfunc.IP(netip.MustParseAddr("2001:db8::1")),
		"":                    keyfunc.NoAddress(),
		"what a client wrote": keyfunc.NoAddress(),
	} {
		if k, err := f(inSession(&session{addr: addr})); err != nil || k != want {
			t.Errorf("%q: %v, %v, want %v", addr, k, err, want)
		}
	}
	for _, native := range []any{nil, session{}, 7} {
		k, err := f(inSession(native))
		if err == nil || errors.Is(err, keyfunc.ErrMissing) || !k.IsZero() ||
			!strings.Contains(err.Error(), "*keyfunc_test.session") || !strings.Contains(err.Error(), fmt.Sprintf("has a %T:", native)) {
			t.Errorf("in a %T: %v, %v", native, k, err)
		}
	}
}

func TestNativeFunctionsThatAreNil(t *testing.T) {
	var none func(*session) (string, error)
	var nobody func(*session) string
	for name, f := range map[string]keyfunc.Func{"By": keyfunc.ByNative(none), "ByNativeAddress": keyfunc.ByNativeAddress(nobody)} {
		_, err := keyfunc.Inspect(f)
		fault, ok := errors.AsType[*keyfunc.FieldError](err)
		if !ok || !strings.Contains(fault.Error(), name) || fault.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, f := range []keyfunc.Func{
		keyfunc.ByNative(func(*session) (string, error) { t.Error("called for the inspection"); return "", nil }),
		keyfunc.ByNativeAddress(func(*session) string { t.Error("called for the inspection"); return "" }),
	} {
		if report, err := keyfunc.Inspect(f); err != nil || report.PeerAddress {
			t.Errorf("%+v, %v", report, err)
		}
	}
}

// A framework of one's own: its adapter hands its context over with each request.
func ExampleByNative() {
	byUser := keyfunc.ByNative(func(s *session) (string, error) { return s.user, nil })

	request := keyfunc.NewRequest(httptest.NewRequest("GET", "/", nil), nil, &session{user: "42"})
	key, err := byUser(request)
	fmt.Println(key, err)
	// Output: user:42 <nil>
}

func ExampleByNativeAddress() {
	byAddress := keyfunc.ByNativeAddress(func(s *session) string { return s.addr })

	request := keyfunc.NewRequest(httptest.NewRequest("GET", "/", nil), nil, &session{addr: "[2001:db8::7]:443"})
	key, err := byAddress(request)
	fmt.Println(key, err)
	// Output: ip:2001:db8::/64 <nil>
}
