package keyfunc

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Why a [Func] has no key for a request. Match them with [errors.Is].
var (
	// ErrMissing: the request carries no such key. [First] asks its next
	// function. The error in the tree is a [*MissingError].
	ErrMissing = errors.New("slidegate: the request carries no key")

	// ErrRequired: the request carries no such key, and [Required] asks for
	// it. The client's fault: 400. Such an error matches ErrMissing too; look
	// for ErrRequired first.
	ErrRequired = errors.New("slidegate: the request carries no key, and one is required")

	// ErrAmbiguous: the request carries several keys that differ where one is
	// expected, such as two X-API-Key lines, or a token with a blank in it.
	// What stands behind might read another one than the limiter, so that a
	// client could use up the quota of somebody else, or dodge its own. The
	// client's fault: 400. No further function is asked.
	ErrAmbiguous = errors.New("slidegate: the request carries a key that can be read in more than one way")
)

// MissingError says which key a request does not carry. It matches
// [ErrMissing], and [ErrRequired] too when the key is required.
type MissingError struct {
	// What is missing, such as "header X-Api-Key". Clients see it, after "The
	// request lacks": say what they can send, and nothing of the program.
	What string

	Required bool // whether it is marked by [Required]

	required *MissingError // the same with Required set, made beforehand
}

// newMissing makes the error once for all requests: being anonymous should
// cost no allocation.
func newMissing(what string) *MissingError {
	return &MissingError{What: what, required: &MissingError{What: what, Required: true}}
}

// Error returns the message, without anything from the request.
func (e *MissingError) Error() string {
	if e.Required {
		return ErrRequired.Error() + ": " + e.What
	}
	return ErrMissing.Error() + ": " + e.What
}

// Is reports whether target is [ErrMissing], or [ErrRequired] when the key is
// required.
func (e *MissingError) Is(target error) bool {
	return target == ErrMissing || e.Required && target == ErrRequired
}

func (e *MissingError) asRequired() *MissingError {
	if e.isOurs() {
		return e.required
	}
	return &MissingError{What: cmp.Or(e.What, someKey), Required: true}
}

// isOurs reports whether newMissing made e, so that What names no request.
func (e *MissingError) isOurs() bool { return e.required != nil }

func newAmbiguous(what string) error { return fmt.Errorf("%w: %s", ErrAmbiguous, what) }

// isMissing reports whether the next function may be asked.
func isMissing(err error) bool {
	return errors.Is(err, ErrMissing) && !errors.Is(err, ErrRequired)
}

// FieldError is one fault of a configuration: the field, its value, what is
// wrong with it, and what to write instead. Several are joined with
// [errors.Join]; find them with [errors.As].
type FieldError struct {
	Field   string // such as "Limits[1].Window"
	Value   string // as text; empty: not shown. Never a secret
	Problem string // such as "shorter than 1ms"
	Remedy  string // such as "use at least 1ms"; empty: not shown
}

// Error returns a line such as
//
//	slidegate: Limits[1].Window = 500µs: shorter than 1ms; use at least 1ms
//
// A value with unprintable characters, or of more than 64 bytes, is quoted and
// cut to 64.
func (e *FieldError) Error() string {
	var b strings.Builder
	b.WriteString("slidegate: " + e.Field)
	if e.Value != "" {
		b.WriteString(" = " + showValue(e.Value))
	}
	b.WriteString(": " + e.Problem)
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return b.String()
}

// showValue keeps a value from flooding a log or forging lines in it.
func showValue(v string) string {
	const most = 64
	if len(v) > most {
		cut := most
		for cut > most-utf8.UTFMax && !utf8.RuneStart(v[cut]) {
			cut--
		}
		return strconv.Quote(v[:cut]) + "…"
	}
	if !utf8.ValidString(v) || strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(v)
	}
	return v
}
