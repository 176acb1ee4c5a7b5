package core

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/slidegate/slidegate/keyfunc"
)

// FieldError is one fault in what a caller gave: the field, its value, what is
// wrong with it and what to write instead.
type FieldError = keyfunc.FieldError

// Faults walks the FieldErrors that are joined in err, in the order in which
// the constructor found them.
func Faults(err error) iter.Seq[*FieldError] {
	return func(yield func(*FieldError) bool) { walkFaults(err, yield) }
}

func walkFaults(err error, yield func(*FieldError) bool) bool {
	if f, ok := err.(*FieldError); ok {
		return yield(f)
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if !walkFaults(inner, yield) {
				return false
			}
		}
	case interface{ Unwrap() error }:
		return walkFaults(e.Unwrap(), yield)
	}
	return true
}

func joinFaults(faults []*FieldError) error {
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}
	return errors.Join(errs...)
}

// check returns every fault of the limit; field is its name in the errors.
func (l Limit) check(field string) (faults []*FieldError) {
	bad := func(part string, value any, problem, remedy string) {
		faults = append(faults, &FieldError{
			Field: field + "." + part, Value: fmt.Sprint(value), Problem: problem, Remedy: remedy,
		})
	}
	if l.n < 1 {
		bad("N", l.n, "a limit lets at least 1 unit through", "use 1 to 999999999999999; to exempt requests, use Config.Skip")
	} else if l.n > MaxUnits {
		bad("N", l.n, "more than the header fields can carry", "use 1 to 999999999999999")
	}
	switch {
	case l.window < MinWindow:
		bad("Window", l.window, "shorter than 1ms", "use 1ms to 8784h (366 days)")
	case l.window > MaxWindow:
		bad("Window", l.window, "longer than 366 days", "use 1ms to 8784h (366 days)")
	case l.window%time.Microsecond != 0:
		bad("Window", l.window, "finer than a microsecond, the clock's unit", "use a multiple of 1µs")
	}
	if l.name != "" && !validName(l.name) {
		bad("Name", l.name, "not a name", nameForm)
	}
	if l.algorithm != Exact {
		faults = append(faults, l.checkSlots(field)...)
	}
	if l.key != nil {
		if _, err := keyfunc.Inspect(l.key); err != nil {
			faults = append(faults, prefixed(field+".Key", err)...)
		}
	}
	return faults
}

func (l Limit) checkSlots(field string) (faults []*FieldError) {
	bad := func(part string, value any, problem, remedy string) {
		faults = append(faults, &FieldError{
			Field: field + "." + part, Value: fmt.Sprint(value), Problem: problem, Remedy: remedy,
		})
	}
	if l.slots < 1 || l.slots > MaxSlots {
		bad("Slots", l.slots, "not a number of slots", "use 1 to 10000; 10 to 60 suit most limits")
	} else if int64(l.slots) > l.window.Microseconds() && l.window >= MinWindow {
		bad("Slots", l.slots, "a slot would be shorter than a microsecond", "use at most one slot per microsecond of the window")
	}
	if l.algorithm == Hybrid && !(l.hot > 0 && l.hot < 1) {
		bad("Hot", l.hot, "not a share of N", "use a number between 0 and 1, such as 0.8")
	}
	return faults
}

// prefixed puts the field in front of the fields that the faults in err name.
func prefixed(field string, err error) (faults []*FieldError) {
	for f := range Faults(err) {
		g := *f
		g.Field = field + ": " + f.Field
		faults = append(faults, &g)
	}
	return faults
}

const (
	maxName  = 64
	nameForm = "use 1 to 64 characters of A-Z a-z 0-9 . _ / -"
)

// validName reports whether s can stand in a header field, a Redis key and a
// metric label as it is.
func validName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == '/', c == '-':
		default:
			return false
		}
	}
	return true
}
