package keyfunc

import (
	"fmt"
	"reflect"
)

// ByNative returns a Func that counts users whose identifier f finds in the
// framework's own context, where gin and echo keep what a middleware has set.
// It is what the By of their adapters is made of. "" means that there is no user
// ([ErrMissing]); an error of f is returned wrapped. In a request that another
// framework serves it fails: the program mixes adapters. See [User].
func ByNative[C any](f func(C) (string, error)) Func {
	var faults []error
	if f == nil {
		faults = append(faults, nilFunction("By"))
	}
	missing := newMissing("user")
	return reader(faults, func(q Request) (Key, error) {
		c, ok := q.native.(C)
		if !ok {
			return Key{}, noNative[C](q)
		}
		id, err := f(c)
		if err != nil {
			return Key{}, fmt.Errorf("slidegate: cannot tell the user: %w", err)
		}
		if id == "" {
			return Key{}, missing
		}
		return User(id), nil
	})
}

// ByNativeAddress is [ByAddress] for an address that f finds in the framework's
// own context. In a request that another framework serves it fails.
func ByNativeAddress[C any](f func(C) string) Func {
	var faults []error
	if f == nil {
		faults = append(faults, nilFunction("ByNativeAddress"))
	}
	return reader(faults, func(q Request) (Key, error) {
		c, ok := q.native.(C)
		if !ok {
			return Key{}, noNative[C](q)
		}
		return addressKey(f(c)), nil
	})
}

// noNative says that a request comes from another framework than the key
// function was made for.
func noNative[C any](q Request) error {
	return fmt.Errorf("slidegate: the key function wants a %v, but the request has a %T: use the middleware of the same package", reflect.TypeFor[C](), q.native)
}
