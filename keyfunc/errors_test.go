package keyfunc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/slidegate/slidegate/keyfunc"
)

func TestFieldErrorNamesFieldValueProblemAndRemedy(t *testing.T) {
	for _, c := range []struct {
		err  keyfunc.FieldError
		want string
	}{
		{keyfunc.FieldError{Field: "Limits[1].Window", Value: "500µs", Problem: "shorter than 1ms", Remedy: "use at least 1ms"}, "slidegate: Limits[1].Window = 500µs: shorter than 1ms; use at least 1ms"},
		{keyfunc.FieldError{Field: "Name", Problem: "empty"}, "slidegate: Name: empty"},
		{keyfunc.FieldError{Field: "Name", Value: "a\nb", Problem: "bad"}, `slidegate: Name = "a\nb": bad`},
		{keyfunc.FieldError{Field: "Name", Value: "a\xff", Problem: "bad"}, `slidegate: Name = "a\xff": bad`},
		{keyfunc.FieldError{Field: "Name", Value: "a\u202eb", Problem: "bad"}, `slidegate: Name = "a\u202eb": bad`},
		{keyfunc.FieldError{Field: "Name", Value: strings.Repeat("a", 64), Problem: "bad"}, "slidegate: Name = " + strings.Repeat("a", 64) + ": bad"},
		{keyfunc.FieldError{Field: "Name", Value: strings.Repeat("a", 65), Problem: "bad"}, `slidegate: Name = "` + strings.Repeat("a", 64) + `"…: bad`},
		{keyfunc.FieldError{Field: "Name", Value: strings.Repeat("a", 62) + "€uro", Problem: "bad"}, `slidegate: Name = "` + strings.Repeat("a", 62) + `"…: bad`},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	junk := &keyfunc.FieldError{Field: "Name", Value: strings.Repeat("\x80", 1<<20), Problem: "bad"}
	if got := junk.Error(); len(got) > 400 || !utf8.ValidString(got) {
		t.Errorf("a junk value gives %d bytes", len(got))
	}
}

func TestMissingErrorMatchesItsSentinels(t *testing.T) {
	missing, required := &keyfunc.MissingError{What: "user"}, &keyfunc.MissingError{What: "user", Required: true}
	for _, c := range []struct {
		err               error
		missing, required bool
	}{
		{missing, true, false}, {required, true, true}, {fmt.Errorf("x: %w", missing), true, false}, {fmt.Errorf("x: %w", required), true, true},
		{errors.New("x"), false, false}, {keyfunc.ErrAmbiguous, false, false},
	} {
		if errors.Is(c.err, keyfunc.ErrMissing) != c.missing || errors.Is(c.err, keyfunc.ErrRequired) != c.required {
			t.Errorf("%v: matches ErrMissing %t, ErrRequired %t", c.err, !c.missing, !c.required)
		}
	}
	if errors.Is(missing, keyfunc.ErrAmbiguous) {
		t.Error("a missing key is ambiguous")
	}
	if missing.Error() != "slidegate: the request carries no key: user" || required.Error() != "slidegate: the request carries no key, and one is required: user" {
		t.Errorf("messages %q and %q", missing, required)
	}
}
