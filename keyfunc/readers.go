package keyfunc

import (
	"fmt"
	"net/http"
)

// ByUser returns a Func that counts users: f finds the user's identifier, in
// the request's context for instance, and "" means that there is none
// ([ErrMissing]). An error of f is returned wrapped. See [User].
func ByUser(f func(*http.Request) (string, error)) Func {
	var faults []error
	if f == nil {
		faults = append(faults, nilFunction("ByUser"))
	}
	missing := newMissing("user")
	return reader(faults, func(q Request) (Key, error) {
		id, err := f(q.HTTP())
		if err != nil {
			return Key{}, fmt.Errorf("slidegate: cannot tell the user: %w", err)
		}
		if id == "" {
			return Key{}, missing
		}
		return User(id), nil
	})
}

// ByHeader returns a Func that counts the values of a header that is not
// secret, such as X-User or X-Tenant; see [Header]. A client can write what it
// likes into a header: use one that your own gateway sets or checks. Missing
// or blank gives [ErrMissing]; several lines count as one when they say the
// same, and give [ErrAmbiguous] otherwise.
func ByHeader(name string) Func {
	name, faults := headerName("ByHeader", name)
	carrier := newCarrier("header " + name)
	return reader(faults, func(q Request) (Key, error) {
		value, err := carrier.line(q.HTTP().Header[name])
		if err != nil {
			return Key{}, err
		}
		return headerKey(name, value), nil
	})
}

// ByRoute returns a Func that counts the pattern of the matched route, never
// the path; see [Route]. Requests that match no route share the key of
// [Unmatched]. It never fails.
func ByRoute() Func {
	return reader(nil, func(q Request) (Key, error) {
		if key := Route(q.Route()); !key.IsZero() {
			return key, nil
		}
		return Route(Unmatched), nil
	})
}

// ByMethod returns a Func that counts the method of the request as it is when
// the limiter sees it: put a middleware that overrides methods before the
// limiter. HEAD counts as GET, and unknown methods as one; see [Method]. It
// never fails.
func ByMethod() Func {
	return reader(nil, func(q Request) (Key, error) {
		if key := Method(q.HTTP().Method); !key.IsZero() {
			return key, nil
		}
		return Method(http.MethodGet), nil // what an empty method means to net/http
	})
}

// ByName returns a Func that counts all requests as one, under a name; see
// [Name]. It never fails.
func ByName(name string) Func {
	var faults []error
	if name == "" {
		faults = append(faults, emptyText("ByName"))
	}
	key := Name(name)
	return reader(faults, func(Request) (Key, error) { return key, nil })
}

// headerName returns the canonical form of a header's name.
func headerName(field, name string) (string, []error) {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case name == "":
		return "", []error{emptyText(field)}
	case !isToken(name):
		return "", []error{&FieldError{Field: field, Value: name, Problem: "not the name of a header", Remedy: "use letters, digits and hyphens"}}
	case canonical == "Host":
		return "", []error{&FieldError{Field: field, Value: name, Problem: "net/http takes this header out of the others", Remedy: "use a keyfunc.Func that reads Request.HTTP().Host"}}
	}
	return canonical, nil
}
