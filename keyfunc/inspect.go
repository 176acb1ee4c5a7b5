package keyfunc

import (
	"errors"
	"slices"
)

// Report says what [Inspect] found out about a [Func].
type Report struct {
	// PeerAddress is true when some [ByIP] in it counts the TCP peer and
	// trusts no proxy. A forwarded header in a request then hints at a
	// load balancer, behind which all clients would share one key.
	PeerAddress bool
}

// Inspect reports the mistakes in the arguments of f and of all functions that
// f is combined from, all at once: the error is one or several [*FieldError],
// joined. It calls f once. The functions of this package then only report; what
// the user has handed to [ByUser] or [ByAddress] is not called. A Func that is
// the user's own is called with an empty request; what it returns does not
// matter unless it is a FieldError, and a panic in it is ignored.
func Inspect(f Func) (Report, error) {
	if f == nil {
		return Report{}, &FieldError{Field: "Key", Value: "nil", Problem: "no key function", Remedy: "use one, such as keyfunc.ByIP()"}
	}
	p := &probe{}
	p.visit(f, Request{probe: p})
	return p.report, joinFaults(p.faults)
}

// probe gathers what functions report. One that is nested in a user's own Func
// is reached too, as long as that passes its Request on.
type probe struct {
	report Report
	faults []error
}

// visit calls f, and takes down its faults, with no harm from what it does.
func (p *probe) visit(f Func, q Request) {
	defer func() { _ = recover() }() // a user's own Func may not expect an empty request
	_, err := f(q)
	p.add(err)
}

// add takes down each FieldError in the tree of err, once.
func (p *probe) add(err error) {
	switch e := err.(type) {
	case *FieldError:
		if !slices.Contains(p.faults, err) {
			p.faults = append(p.faults, err)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			p.add(inner)
		}
	case interface{ Unwrap() error }:
		p.add(e.Unwrap())
	}
}

// reader returns a Func that answers Inspect by itself, returns the faults if
// there are any, and reads the key with read otherwise.
func reader(faults []error, read Func) Func {
	if len(faults) > 0 {
		return faulty(faults)
	}
	return func(q Request) (Key, error) {
		if q.probe != nil {
			return Key{}, nil
		}
		return read(q)
	}
}

// faulty returns a Func that only returns its faults.
func faulty(faults []error) Func {
	err := joinFaults(faults)
	return func(q Request) (Key, error) {
		if q.probe != nil {
			q.probe.add(err)
		}
		return Key{}, err
	}
}

func joinFaults(faults []error) error {
	if len(faults) == 1 {
		return faults[0]
	}
	return errors.Join(faults...)
}

// nilFunction is the fault of a function argument that is nil.
func nilFunction(field string) error {
	return &FieldError{Field: field, Value: "nil", Problem: "no function", Remedy: "give one, or leave it out"}
}

// emptyText is the fault of a text argument that is empty.
func emptyText(field string) error {
	return &FieldError{Field: field, Value: `""`, Problem: "empty", Remedy: "give a name"}
}
