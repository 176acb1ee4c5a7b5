package core

import (
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"time"

	"github.com/slidegate/slidegate/keyfunc"
)

// DefaultBudget is how long a request waits for its store at most.
const DefaultBudget = 100 * time.Millisecond

// MinSecret is the least length of Config.Secret in bytes.
const MinSecret = keyfunc.MinSecret

// Config describes a limiter. The zero value of each field but Limits is a safe
// default. New checks all of it at once.
type Config struct {
	// Name stands in the keys of the store, in headers and in metrics: 1 to 64
	// characters of [A-Za-z0-9._/-]. It is required with a Store, since limiters
	// that share one are told apart by it; else it is "default".
	Name string

	// Limits are decided together: all take the cost of a request, or none does.
	// At least one, at most MaxLimits, with names that differ.
	Limits []Limit

	// Key says who is counted. Default: keyfunc.ByIP(), the address of the TCP
	// peer. A request for which it finds no key is counted by that address, unless
	// the function is marked with keyfunc.Required.
	Key keyfunc.Func

	// Store is where the counts live. Default: a Memory of the limiter's own.
	Store Store

	// Secret, when set, seals all keys with HMAC-SHA-256 before they reach the
	// store, so that who reads the store cannot tell or guess them: at least
	// MinSecret bytes, the same on all instances.
	Secret []byte

	// OnFailure says what happens to requests when the store gives no decision.
	// Default: Local, which is Closed with a store that brings no local window.
	OnFailure Policy

	// Budget is how long a request waits for the store at most; 0 stands for
	// DefaultBudget. Stores in this process's memory do not need it.
	Budget time.Duration

	// Headers lists the header dialects of responses. Default: XRateLimit.
	// NoHeaders alone writes none but Retry-After.
	Headers []Dialect

	// PartitionKeys adds pk to the lists of Draft08 and Draft12: 12 bytes of a digest
	// of the key that was counted, so that clients which are counted by several keys
	// can tell their quotas apart. Whoever sees the headers can test guesses of a key
	// by it (addresses are few), unless Secret is set. It costs two allocations more.
	PartitionKeys bool

	// Cost returns how many units a request takes, 1 to MaxUnits. Default: 1. A
	// cost above a limit's N can never pass and is answered with 400. A cost below
	// 1, or an error, is a fault of the program: 503, and logged once.
	Cost func(*http.Request) (int64, error)

	// Skip exempts requests for which it returns true: they are not counted and
	// get no headers.
	Skip func(*http.Request) bool

	// CountPreflights counts CORS preflights too. By default they pass: browsers
	// send them by themselves, and a refused one hides the reason from the page.
	CountPreflights bool

	// Once charges a request once, even where the limiter is mounted on several
	// levels. It costs what KeepDecision costs.
	Once bool

	// KeepDecision puts the decision into the request's context, where
	// DecisionFrom finds it. It costs two allocations per request in net/http and chi.
	KeepDecision bool

	// OnRefuse writes the response of a refused request in place of the limiter.
	// Its headers are set already; Decision.Reason tells Refused, usually answered
	// with 429, from NeverFits, 400.
	OnRefuse func(http.ResponseWriter, *http.Request, Decision)

	// OnError writes the response of a request for which there is no decision, in
	// place of the limiter. By default the status is 400 where errors.Is finds
	// keyfunc.ErrRequired, keyfunc.ErrAmbiguous or ErrNeverFits, else 503.
	OnError func(http.ResponseWriter, *http.Request, error)

	// Logger gets what operators should see. Default: slog.Default().
	Logger *slog.Logger
}

// MaxLimits is how many limits one limiter holds.
const MaxLimits = 64

// Must returns l, or panics with err. It is for limits that are written in the
// program: Must(New(Config{…})).
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic(err)
	}
	return l
}

// New makes a limiter. Its error joins a FieldError for each fault of the
// configuration; Faults walks them.
func New(cfg Config) (*Limiter, error) {
	if faults := cfg.check(); len(faults) > 0 {
		return nil, joinFaults(faults)
	}
	return newLimiter(cfg), nil
}

// check returns every fault of the configuration.
func (c *Config) check() (faults []*FieldError) {
	bad := func(field, value, problem, remedy string) {
		faults = append(faults, &FieldError{Field: field, Value: value, Problem: problem, Remedy: remedy})
	}
	if c.Name != "" && !validName(c.Name) {
		bad("Name", c.Name, "not a name", nameForm)
	} else if c.Name == "" && c.Store != nil {
		bad("Name", "", "limiters that share a store are told apart by their names", nameForm)
	}
	if v := reflect.ValueOf(c.Store); v.Kind() == reflect.Pointer && v.IsNil() {
		bad("Store", v.Type().String()+"(nil)", "a pointer to no store", "look at the error of its constructor, or leave Store out")
	}
	faults = append(faults, c.checkLimits()...)
	if c.Key != nil {
		if _, err := keyfunc.Inspect(c.Key); err != nil {
			faults = append(faults, prefixed("Key", err)...)
		}
	}
	if n := len(c.Secret); c.Secret != nil && n < MinSecret {
		// The value is a secret, so only its length is told.
		bad("Secret", fmt.Sprintf("%d bytes", n), "too short to keep keys from being guessed",
			fmt.Sprintf("use at least %d random bytes, or nil to leave keys as they are", MinSecret))
	}
	if int(c.OnFailure) >= len(policyNames) {
		bad("OnFailure", c.OnFailure.String(), "not a policy", "use Local, Open or Closed")
	}
	if c.Budget < 0 {
		bad("Budget", c.Budget.String(), "negative", "use a positive duration, or 0 for 100ms")
	}
	return append(faults, checkDialects(c.Headers, c.PartitionKeys)...)
}

func (c *Config) checkLimits() (faults []*FieldError) {
	if n := len(c.Limits); n == 0 || n > MaxLimits {
		faults = append(faults, &FieldError{
			Field: "Limits", Value: fmt.Sprintf("%d limits", n), Problem: "a limiter has at least one and at most 64 limits",
			Remedy: "add one, such as core.PerMinute(100), or use several limiters",
		})
	}
	names := make(map[string]int, len(c.Limits))
	for i, l := range c.Limits {
		field := fmt.Sprintf("Limits[%d]", i)
		faults = append(faults, l.check(field)...)
		if first, taken := names[l.Name()]; taken {
			faults = append(faults, &FieldError{
				Field: field + ".Name", Value: l.Name(), Problem: fmt.Sprintf("Limits[%d] has this name already", first),
				Remedy: `give one of them another name with Named("…")`,
			})
		} else {
			names[l.Name()] = i
		}
	}
	return faults
}
