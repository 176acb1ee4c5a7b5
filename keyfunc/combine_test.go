package keyfunc_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/keyfunc"
)

// constant returns a Func that gives key and err.
func constant(key keyfunc.Key, err error) keyfunc.Func {
	return func(keyfunc.Request) (keyfunc.Key, error) { return key, err }
}

func TestClientsWithoutAPIKeyAreCountedByAddress(t *testing.T) {
	f := keyfunc.First(keyfunc.ByAPIKey("X-API-Key"), keyfunc.ByIP())
	if read(t, f, request("203.0.113.1:1")) == read(t, f, request("203.0.113.2:1")) {
		t.Error("two anonymous clients share a key")
	}
	want(t, f, request("203.0.113.1:1"), "ip:203.0.113.1")
	if read(t, f, request("203.0.113.1:1", "X-API-Key: k")) != keyfunc.APIKey("k") {
		t.Error("the API key is not counted")
	}
}

func TestAPIKeyThatLooksLikeAnAddressIsNotThatAddress(t *testing.T) {
	f := keyfunc.First(keyfunc.ByAPIKey("X-API-Key"), keyfunc.ByIP())
	for _, forged := range []string{"203.0.113.1", "ip:203.0.113.1", binary(ip("203.0.113.1"))} {
		if read(t, f, request(peer, "X-API-Key: "+forged)) == read(t, f, request("203.0.113.1:1")) {
			t.Errorf("API key %q counts as an address", forged)
		}
	}
}

func TestFirst(t *testing.T) {
	a, b, failure := keyfunc.User("a"), keyfunc.User("b"), errors.New("down")
	missing := constant(keyfunc.Key{}, fmt.Errorf("x: %w", keyfunc.ErrMissing))
	for i, c := range []struct {
		fs  []keyfunc.Func
		key keyfunc.Key
		err error
	}{
		{[]keyfunc.Func{constant(a, nil), constant(b, nil)}, a, nil},
		{[]keyfunc.Func{missing, constant(b, nil)}, b, nil},
		{[]keyfunc.Func{constant(keyfunc.Key{}, nil), constant(b, nil)}, b, nil},
		{[]keyfunc.Func{missing, missing}, keyfunc.Key{}, keyfunc.ErrMissing},
		{[]keyfunc.Func{constant(a, failure), constant(b, nil)}, keyfunc.Key{}, failure},
		{[]keyfunc.Func{keyfunc.Required(missing), constant(b, nil)}, keyfunc.Key{}, keyfunc.ErrRequired},
		{[]keyfunc.Func{missing, keyfunc.Required(missing)}, keyfunc.Key{}, keyfunc.ErrRequired},
	} {
		key, err := keyfunc.First(c.fs...)(request(peer))
		if key != c.key || !errors.Is(err, c.err) {
			t.Errorf("%d: got %v, %v; want %v, %v", i, key, err, c.key, c.err)
		}
	}
	wantMissing(t, keyfunc.First(missing, constant(keyfunc.Key{}, nil)), request(peer))
}

func TestAll(t *testing.T) {
	a, b, failure := keyfunc.User("a"), keyfunc.Route("/"), errors.New("down")
	missing := constant(keyfunc.Key{}, fmt.Errorf("x: %w", keyfunc.ErrMissing))
	one, two := constant(a, nil), constant(b, nil)
	for i, c := range []struct {
		fs  []keyfunc.Func
		key keyfunc.Key
		err error
	}{
		{[]keyfunc.Func{one, two}, keyfunc.Join(a, b), nil},
		{[]keyfunc.Func{two, one}, keyfunc.Join(b, a), nil},
		{[]keyfunc.Func{one}, keyfunc.Join(a), nil},
		{[]keyfunc.Func{one, one, one, one, one, two}, keyfunc.Join(a, a, a, a, a, b), nil},
		{[]keyfunc.Func{one, missing}, keyfunc.Key{}, keyfunc.ErrMissing},
		{[]keyfunc.Func{one, constant(keyfunc.Key{}, nil)}, keyfunc.Key{}, keyfunc.ErrMissing},
		{[]keyfunc.Func{one, constant(b, failure)}, keyfunc.Key{}, failure},
		{[]keyfunc.Func{one, keyfunc.Required(missing)}, keyfunc.Key{}, keyfunc.ErrRequired},
	} {
		key, err := keyfunc.All(c.fs...)(request(peer))
		if key != c.key || !errors.Is(err, c.err) {
			t.Errorf("%d: got %v, %v; want %v, %v", i, key, err, c.key, c.err)
		}
	}
}

func TestRequired(t *testing.T) {
	failure := errors.New("down")
	custom := &keyfunc.MissingError{What: "tenant"}
	for i, c := range []struct {
		f    keyfunc.Func
		what string
	}{
		{keyfunc.ByHeader("X-User"), "header X-User"},
		{keyfunc.Required(keyfunc.ByHeader("X-User")), "header X-User"},
		{constant(keyfunc.Key{}, custom), "tenant"},
		{constant(keyfunc.Key{}, fmt.Errorf("x: %w", custom)), "tenant"},
		{constant(keyfunc.Key{}, &keyfunc.MissingError{What: "org", Required: true}), "org"},
		{constant(keyfunc.Key{}, nil), "a key"},
		{constant(keyfunc.Key{}, &keyfunc.MissingError{}), "a key"},
	} {
		key, err := keyfunc.Required(c.f)(request(peer))
		m, ok := errors.AsType[*keyfunc.MissingError](err)
		if !key.IsZero() || !errors.Is(err, keyfunc.ErrRequired) || !errors.Is(err, keyfunc.ErrMissing) || !ok || m.What != c.what || !m.Required {
			t.Errorf("%d: got %v, %v", i, key, err)
		}
	}
	bare := fmt.Errorf("no tenant: %w", keyfunc.ErrMissing)
	if _, err := keyfunc.Required(constant(keyfunc.Key{}, bare))(request(peer)); !errors.Is(err, keyfunc.ErrRequired) || !errors.Is(err, bare) {
		t.Errorf("got %v", err)
	}
	if _, err := keyfunc.Required(constant(keyfunc.Key{}, failure))(request(peer)); !errors.Is(err, failure) || errors.Is(err, keyfunc.ErrRequired) {
		t.Errorf("got %v", err)
	}
	want(t, keyfunc.Required(keyfunc.ByIP()), request(peer), "ip:203.0.113.9")
}

func TestCombinationsKeepTheirOwnList(t *testing.T) {
	fs := []keyfunc.Func{keyfunc.ByName("a")}
	first := keyfunc.First(fs...)
	fs[0] = nil
	want(t, first, request(peer), "name:a")
}

// Clients read what is missing: it has to name what they can send.
func TestMissingKeyIsNamedInWordsForClients(t *testing.T) {
	first, all, apiKey, bearer := keyfunc.First, keyfunc.All, keyfunc.ByAPIKey("X-API-Key"), keyfunc.ByBearer()
	noUser := keyfunc.ByUser(func(*http.Request) (string, error) { return "", nil })
	zero, bare := constant(keyfunc.Key{}, nil), constant(keyfunc.Key{}, keyfunc.ErrMissing)
	for i, c := range []struct {
		f    keyfunc.Func
		what string
	}{
		{first(apiKey, bearer), "header X-Api-Key or bearer token"},
		{first(apiKey), "header X-Api-Key"},
		{first(apiKey, first(bearer, noUser)), "header X-Api-Key or bearer token or user"},
		{first(apiKey, all(keyfunc.ByIP(), bearer)), "header X-Api-Key or bearer token"},
		{first(noUser, noUser, noUser, apiKey, bearer), "user or user or user or header X-Api-Key or bearer token"},
		{first(bearer, zero), "a key"},
		{first(zero, bearer), "a key"},
		{first(bare, bearer), "a key"},
		{first(bearer, constant(keyfunc.Key{}, &keyfunc.MissingError{})), "a key"},
		{first(bearer, constant(keyfunc.Key{}, &keyfunc.MissingError{What: "tenant"})), "a key"},
		{all(apiKey, keyfunc.ByIP()), "header X-Api-Key"},
		{all(keyfunc.ByIP(), bearer, apiKey), "bearer token"},
		{all(zero, keyfunc.ByIP()), "a key"},
	} {
		for range 2 { // made, then remembered
			wantWhat(t, c.f, request(peer), c.what, false)
			wantWhat(t, keyfunc.Required(c.f), request(peer), c.what, true)
		}
		if t.Failed() {
			t.Fatalf("in case %d", i)
		}
	}
}

// wantWhat checks what f says that q lacks.
func wantWhat(t *testing.T, f keyfunc.Func, q keyfunc.Request, what string, required bool) {
	t.Helper()
	key, err := f(q)
	m, ok := errors.AsType[*keyfunc.MissingError](err)
	if !key.IsZero() || !ok || m.What != what || m.Required != required || !errors.Is(err, keyfunc.ErrMissing) {
		t.Errorf("got %v, %v; want %q", key, err, what)
	}
}

// A user's Func may name another key for each request.
func TestOneRequestIsNotToldWhatAnotherLacks(t *testing.T) {
	user, org := keyfunc.ByHeader("X-User"), keyfunc.ByHeader("X-Org")
	f := keyfunc.First(keyfunc.ByBearer(), func(q keyfunc.Request) (keyfunc.Key, error) {
		if q.HTTP().Header.Get("Kind") == "org" {
			return org(q)
		}
		return user(q)
	})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				wantWhat(t, f, request(peer), "bearer token or header X-User", false)
				wantWhat(t, f, request(peer, "Kind: org"), "bearer token or header X-Org", false)
			}
		})
	}
	all.Wait()
}

// A Func may be costly, such as a look-up of the user.
func TestEachFunctionIsAskedOnceForARequest(t *testing.T) {
	asked := 0
	f := keyfunc.First(keyfunc.ByBearer(), keyfunc.ByUser(func(*http.Request) (string, error) { asked++; return "", nil }))
	for want := 1; want <= 3; want++ {
		wantWhat(t, f, request(peer), "bearer token or user", false)
		if asked != want {
			t.Fatalf("asked %d times for %d requests", asked, want)
		}
	}
}
