package keyfunc

import (
	"net/http"
	"strings"
)

// ByAPIKey returns a Func that counts the API key in a header, such as
// "X-API-Key", by its digest; see [APIKey]. Missing or blank gives
// [ErrMissing]. Several lines count as one when they say the same, and give
// [ErrAmbiguous] otherwise. It does not allocate for keys of ordinary size.
//
// An API key counts the same wherever it comes from: header, bearer token,
// query or cookie. It is not checked whether the key is valid. Where unknown
// keys are refused only after the limiter, add a limit by address, since every
// invented key has a quota of its own.
func ByAPIKey(header string) Func {
	name, faults := headerName("ByAPIKey", header)
	carrier := newCarrier("header " + name)
	return reader(faults, func(q Request) (Key, error) {
		value, err := carrier.line(q.HTTP().Header[name])
		return APIKey(value), err
	})
}

// ByBearer returns a Func that counts the bearer token of the Authorization
// header (RFC 6750 §2.1) by its digest; see [ByAPIKey]. The scheme is matched
// without regard to case. No Authorization header, another scheme, or no token
// gives [ErrMissing]; lines that differ, and a token with a blank, a comma or
// an unprintable character, [ErrAmbiguous]. Tokens with other characters than
// RFC 6750 allows are counted, since they are in use.
func ByBearer() Func {
	carrier := newCarrier("bearer token")
	return reader(nil, func(q Request) (Key, error) {
		line, err := carrier.line(q.HTTP().Header["Authorization"])
		if err != nil {
			return Key{}, err
		}
		token, ok := bearerToken(line)
		switch {
		case !ok:
			return Key{}, carrier.ambiguous
		case token == "":
			return Key{}, carrier.missing
		}
		return APIKey(token), nil
	})
}

// bearerToken returns the token of an Authorization line, "" when there is
// none; ok is false when it is not one word.
func bearerToken(line string) (token string, ok bool) {
	const scheme = "Bearer"
	end := strings.IndexAny(line, " \t")
	if end < 0 || !strings.EqualFold(line[:end], scheme) {
		return "", true
	}
	token = trimBlanks(line[end:])
	for i := 0; i < len(token); i++ {
		if c := token[i]; c <= ' ' || c >= 0x7f || c == ',' {
			return "", false
		}
	}
	return token, true
}

// ByQuery returns a Func that counts the API key in a parameter of the URL's
// query by its digest; see [ByAPIKey]. Missing or empty gives [ErrMissing],
// several that differ [ErrAmbiguous]. Forms in the body are not read.
func ByQuery(param string) Func {
	var faults []error
	if param == "" {
		faults = append(faults, emptyText("ByQuery"))
	}
	carrier := newCarrier("query parameter " + showValue(param))
	return reader(faults, func(q Request) (Key, error) {
		u := q.HTTP().URL
		if u == nil || u.RawQuery == "" {
			return Key{}, carrier.missing
		}
		value, err := carrier.one(u.Query()[param])
		return APIKey(value), err
	})
}

// ByCookie returns a Func that counts the API key or session in a cookie by
// its digest; see [ByAPIKey]. Missing or empty gives [ErrMissing], several of
// the name that differ [ErrAmbiguous].
func ByCookie(name string) Func {
	var faults []error
	switch {
	case name == "":
		faults = append(faults, emptyText("ByCookie"))
	case !isToken(name):
		faults = append(faults, &FieldError{Field: "ByCookie", Value: name, Problem: "not the name of a cookie", Remedy: "use letters, digits and hyphens"})
	}
	carrier := newCarrier("cookie " + name)
	return reader(faults, func(q Request) (Key, error) {
		value, err := carrier.cookie(q.HTTP().CookiesNamed(name))
		return APIKey(value), err
	})
}

// carrier is a place in a request that holds at most one value. Its errors are
// made once.
type carrier struct {
	missing   *MissingError
	ambiguous error
}

func newCarrier(what string) *carrier {
	return &carrier{missing: newMissing(what), ambiguous: newAmbiguous(what)}
}

// one returns the value that all of values agree on.
func (c *carrier) one(values []string) (string, error) {
	if len(values) == 0 {
		return "", c.missing
	}
	for _, v := range values[1:] {
		if v != values[0] {
			return "", c.ambiguous
		}
	}
	return c.filled(values[0])
}

// line is one for the lines of a header, whose outer blanks do not count.
func (c *carrier) line(lines []string) (string, error) {
	if len(lines) == 0 {
		return "", c.missing
	}
	value := trimBlanks(lines[0])
	for _, line := range lines[1:] {
		if trimBlanks(line) != value {
			return "", c.ambiguous
		}
	}
	return c.filled(value)
}

// cookie is one for cookies.
func (c *carrier) cookie(cookies []*http.Cookie) (string, error) {
	if len(cookies) == 0 {
		return "", c.missing
	}
	for _, other := range cookies[1:] {
		if other.Value != cookies[0].Value {
			return "", c.ambiguous
		}
	}
	return c.filled(cookies[0].Value)
}

func (c *carrier) filled(value string) (string, error) {
	if value == "" {
		return "", c.missing
	}
	return value, nil
}
