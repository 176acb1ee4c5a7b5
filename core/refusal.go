package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/slidegate/slidegate/keyfunc"
)

// The problem types of draft-ietf-httpapi-ratelimit-headers-11 §6.
const (
	typeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// problem is a problem detail (RFC 9457).
type problem struct {
	Type     string   `json:"type,omitempty"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
}

// Refuse writes the response of a request that may not proceed: with
// Config.OnRefuse or Config.OnError where they are set, else
//
//   - 429 for a refusal,
//   - 400 for a cost that never fits, and for a required key that is missing or
//     can be read in more than one way,
//   - 503 when there is no decision, whatever the error; its text is not shown,
//
// with a line of text or, if the request's Accept header asks for JSON, with an
// application/problem+json body. The headers are those that Admit has set.
func (l *Limiter) Refuse(w http.ResponseWriter, r *http.Request, v Verdict) { l.refuse(w, r, &v) }

func (l *Limiter) refuse(w http.ResponseWriter, r *http.Request, v *Verdict) {
	switch {
	case !l.Answers(v):
		v.write(w, r)
	case v.Err != nil:
		l.cfg.OnError(w, r, v.Err)
	default:
		l.cfg.OnRefuse(w, r, v.Decision)
	}
}

// Answers reports whether Refuse would answer with the user's own function,
// Config.OnRefuse or Config.OnError. It is for adapters of frameworks that write
// errors themselves: they hand over the rest by Status and Message.
func (l *Limiter) Answers(v *Verdict) bool {
	return l != nil && (v.Err != nil && l.cfg.OnError != nil || v.Err == nil && l.cfg.OnRefuse != nil)
}

// write sends the default response in the form that the request accepts.
func (v *Verdict) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	// What an outer handler has said of another body, as http.Error deletes it.
	if len(h) > len(v.values) { // else they are all our own
		for _, name := range [...]string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified"} {
			delete(h, name)
		}
	}
	status := v.Status()
	body := v.body
	if prefersJSON(r.Header["Accept"]) {
		v.values.set(h, "Content-Type", "application/problem+json")
		// A struct of strings and numbers always marshals.
		body, _ = json.Marshal(v.problem(status))
	} else {
		v.values.set(h, "Content-Type", "text/plain; charset=utf-8")
		v.values.set(h, "X-Content-Type-Options", "nosniff")
		if body == nil {
			body = append(v.appendText(make([]byte, 0, 64), status), '\n')
		}
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		// The client may have gone. There is nobody to tell.
		_, _ = w.Write(body)
	}
}

const tooManyRequests = "Too Many Requests. Try again in "

// Message returns the text of the default response, without a newline. It says
// nothing of the store or the program.
func (v *Verdict) Message() string {
	if v.body != nil {
		return string(v.body[:len(v.body)-1])
	}
	var buf [64]byte
	return string(v.appendText(buf[:0], v.Status()))
}

// Status returns the status of the default response: see Refuse.
func (v *Verdict) Status() int {
	switch {
	case v.Err == nil && v.Decision.Reason == Refused:
		return http.StatusTooManyRequests
	case v.Err == nil && v.Decision.Reason == NeverFits,
		errors.Is(v.Err, ErrNeverFits), errors.Is(v.Err, keyfunc.ErrRequired), errors.Is(v.Err, keyfunc.ErrAmbiguous):
		return http.StatusBadRequest
	default:
		return http.StatusServiceUnavailable
	}
}

// problem returns the body for clients that ask for JSON.
func (v *Verdict) problem(status int) problem {
	p := problem{Status: status}
	switch status {
	case http.StatusTooManyRequests:
		p.Type, p.Title = typeQuotaExceeded, "Request cannot be satisfied as assigned quota has been exceeded"
	case http.StatusServiceUnavailable:
		p.Type, p.Title = typeReducedCapacity, "Request cannot be satisfied due to temporary server capacity constraints"
	default:
		p.Title, p.Detail = http.StatusText(status), string(v.appendText(nil, status))
	}
	for _, s := range v.Decision.states() {
		if s.Violated {
			p.Violated = append(p.Violated, s.Policy())
		}
	}
	return p
}

// appendText appends what the response says in plain text.
func (v *Verdict) appendText(b []byte, status int) []byte {
	d := &v.Decision
	switch status {
	case http.StatusServiceUnavailable:
		return append(b, "Service Unavailable. Try again later."...)
	case http.StatusTooManyRequests:
		b = append(b, tooManyRequests...)
		b = strconv.AppendInt(b, max(1, ceilSeconds(d.RetryAfter().Microseconds())), 10)
		return append(b, " s."...)
	}
	var missing *keyfunc.MissingError
	switch {
	case v.Err == nil:
		s := d.Shown()
		return fmt.Appendf(b, "The request costs %d units; limit %q never allows more than %d.", d.Cost, s.Name(), s.N)
	case errors.Is(v.Err, ErrNeverFits):
		return append(b, "The request costs more than any limit allows."...)
	case errors.Is(v.Err, keyfunc.ErrAmbiguous):
		return append(b, "The request carries a key that can be read in more than one way."...)
	case errors.As(v.Err, &missing):
		return fmt.Appendf(b, "The request lacks %s.", missing.What)
	default:
		return append(b, "The request lacks a key."...)
	}
}
