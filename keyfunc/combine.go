package keyfunc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// someKey is what a request lacks where a function does not say more.
const someKey = "a key"

// First returns a Func that asks fs in order and takes the first key that is
// there: an API key or else the address. Where all are missing, so is the
// whole ([ErrMissing]). Every other error, also that of a [Required] key, ends
// the search.
func First(fs ...Func) Func {
	var missing atomic.Pointer[MissingError] // made when it is first needed
	return combine("First", fs, func(q Request, fs []Func) (Key, error) {
		for _, f := range fs {
			key, err := f(q)
			switch {
			case err == nil && !key.IsZero():
				return key, nil
			case err != nil && !isMissing(err):
				return Key{}, err
			}
		}
		m := missing.Load()
		if m == nil {
			m = newMissing(allMissing(q, fs))
			missing.Store(m)
		}
		return Key{}, m
	})
}

// allMissing says what a request lacks in which none of fs finds a key.
func allMissing(q Request, fs []Func) string {
	whats := make([]string, len(fs))
	for i, f := range fs {
		_, err := f(q)
		m, ok := errors.AsType[*MissingError](err)
		if !ok {
			return someKey
		}
		whats[i] = m.What
	}
	return strings.Join(whats, " or ")
}

// All returns a Func that joins the keys of all fs (see [Join]): a user on a
// route. Where one is missing, so is the whole; the first error is returned.
func All(fs ...Func) Func {
	missing := newMissing(someKey)
	return combine("All", fs, func(q Request, fs []Func) (Key, error) {
		var few [4]Key
		keys := few[:0]
		for _, f := range fs {
			key, err := f(q)
			if err != nil {
				return Key{}, err
			}
			if key.IsZero() {
				return Key{}, missing
			}
			keys = append(keys, key)
		}
		return Join(keys...), nil
	})
}

// Required returns a Func that reads what f reads, but where the key is
// missing the error matches [ErrRequired], also inside of [First].
func Required(f Func) Func {
	required := newMissing(someKey).asRequired()
	return combine("Required", []Func{f}, func(q Request, fs []Func) (Key, error) {
		key, err := fs[0](q)
		switch {
		case err == nil && key.IsZero():
			return Key{}, required
		case !isMissing(err):
			return key, err
		}
		if m, ok := errors.AsType[*MissingError](err); ok {
			return Key{}, m.asRequired()
		}
		return Key{}, fmt.Errorf("%w: %w", ErrRequired, err)
	})
}

// combine returns a Func that reads from fs with read, and passes the question
// of Inspect on to each of them.
func combine(name string, fs []Func, read func(Request, []Func) (Key, error)) Func {
	fs = slices.Clone(fs)
	own := combinationFaults(name, fs)
	return func(q Request) (Key, error) {
		if q.probe == nil && own == nil {
			return read(q, fs)
		}
		if q.probe != nil {
			q.probe.add(own)
			for _, f := range fs {
				q.probe.visit(f, q) // calling a nil one panics, which visit contains
			}
		}
		return Key{}, own
	}
}

func combinationFaults(name string, fs []Func) error {
	var faults []error
	if len(fs) == 0 {
		faults = append(faults, &FieldError{Field: name, Problem: "no functions", Remedy: "give at least one"})
	}
	for i, f := range fs {
		if f == nil {
			faults = append(faults, nilFunction(fmt.Sprintf("%s[%d]", name, i)))
		}
	}
	return joinFaults(faults)
}
