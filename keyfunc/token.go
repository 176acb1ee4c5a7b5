package keyfunc

import "strings"

// trimBlanks cuts the optional white space of RFC 9110 §5.6.3.
func trimBlanks(s string) string { return strings.Trim(s, " \t") }

// isToken reports whether s is a token (RFC 9110 §5.6.2), as the names of
// headers, cookies and methods are.
func isToken(s string) bool { return s != "" && tokenLen(s) == len(s) }

// tokenLen returns the length of the token that s begins with.
func tokenLen(s string) int {
	for i := 0; i < len(s); i++ {
		if !isTokenByte(s[i]) {
			return i
		}
	}
	return len(s)
}

func isTokenByte(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
