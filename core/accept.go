package core

import (
	"strconv"
	"strings"
)

// prefersJSON reports whether the Accept header (RFC 9110 §12.5.1) covers
// problem+json by name, or as JSON, or as application/*, with at least the
// weight of plain text. The range */*, which most clients send, asks for nothing
// in particular: text will do.
func prefersJSON(accept []string) bool {
	var asJSON, asText preference
	for _, line := range accept {
		for item := range strings.SplitSeq(line, ",") {
			kind, params, _ := strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "application/problem+json":
				asJSON.take(3, params)
			case "application/json":
				asJSON.take(2, params)
			case "application/*":
				asJSON.take(1, params)
			case "text/plain":
				asText.take(3, params)
			case "text/*":
				asText.take(2, params)
			case "*/*":
				asText.take(1, params)
			}
		}
	}
	return asJSON.weight > 0 && asJSON.weight >= asText.weight
}

// preference is the weight that a media type has by the most specific range that
// covers it.
type preference struct {
	specific int
	weight   float64
}

func (p *preference) take(specific int, params string) {
	w := weight(params)
	switch {
	case specific > p.specific:
		*p = preference{specific, w}
	case specific == p.specific:
		p.weight = max(p.weight, w)
	}
}

// weight returns the q of an item's parameters: 1 if there is none, 0 if it is
// not a number from 0 to 1.
func weight(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 1
}
