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
// whole ([ErrMissing]), by the names of all: "header X-Api-Key or bearer
// token". It is "a key" where one of fs is not of this package. Every other
// error, also that of a [Required] key, ends the search.
func First(fs ...Func) Func {
	var none alternatives
	unnamed := newMissing(someKey)
	return combine("First", fs, func(q Request, fs []Func) (Key, error) {
		var few [4]*MissingError
		missing, named := few[:0], true
		for _, f := range fs {
			key, err := f(q)
			switch {
			case err == nil && !key.IsZero():
				return key, nil
			case err != nil && !isMissing(err):
				return Key{}, err
			}
			m, ok := errors.AsType[*MissingError](err)
			named = named && ok && m.isOurs()
			missing = append(missing, m)
		}
		if !named {
			return Key{}, unnamed
		}
		return Key{}, none.of(missing)
	})
}

// alternatives makes one error of several, and keeps the last: the functions of
// this package return the same errors for every request.
type alternatives struct{ last atomic.Pointer[alternative] }

type alternative struct {
	of    []*MissingError
	whole *MissingError
}

// of returns the error that names all of missing.
func (a *alternatives) of(missing []*MissingError) *MissingError {
	if last := a.last.Load(); last != nil && slices.Equal(last.of, missing) {
		return last.whole
	}
	whats := make([]string, len(missing))
	for i, m := range missing {
		whats[i] = m.What
	}
	made := &alternative{of: slices.Clone(missing), whole: newMissing(strings.Join(whats, " or "))}
	a.last.Store(made)
	return made.whole
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
