package core

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate/keyfunc"
)

// limitForm is the remedy in every error of ParseLimit.
const limitForm = `write it like "100/1m", "10/s", "100000/24h slotted=48" or "1000/1h hybrid=60 hot=0.8 name=api"`

// ParseLimit reads a limit from text: N, a slash and the window, then options
// separated by spaces.
//
//	100/1m                        100 units in any minute
//	10/s                          a unit of time alone stands for one of it: s, m, h, d, ms, us
//	100000/24h slotted=48         counted in 48 slots
//	1000/1h hybrid=60 hot=0.8     counted in 60 slots up to 80 % of N, exactly above
//	5/1m name=login               with a name
//
// Windows are written as time.ParseDuration reads them, and d stands for 24
// hours. An error joins FieldErrors (see Faults); what was read is checked as
// New checks it. ParseLimit(l.String()) equals l, but for a key of its own.
func ParseLimit(s string) (Limit, error) {
	fields := strings.Fields(s)
	if len(fields) == 0 {
		return Limit{}, badLimit(s, "there is nothing to read")
	}
	count, window, ok := strings.Cut(fields[0], "/")
	if !ok {
		return Limit{}, badLimit(s, "there is no slash between the units and the window")
	}
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil || count[0] < '0' || count[0] > '9' {
		return Limit{}, badLimit(s, fmt.Sprintf("%q is no whole number of units", count))
	}
	w, err := parseWindow(window)
	if err != nil {
		return Limit{}, badLimit(s, fmt.Sprintf("%q is no window", window))
	}
	l := Per(n, w)
	if problem := l.parseOptions(fields[1:]); problem != "" {
		return Limit{}, badLimit(s, problem)
	}
	if faults := l.check("limit"); len(faults) > 0 {
		return Limit{}, joinFaults(faults)
	}
	return l, nil
}

func badLimit(s, problem string) error {
	return &keyfunc.FieldError{Field: "limit", Value: s, Problem: problem, Remedy: limitForm}
}

// parseOptions reads the words after the window and returns what is wrong with
// the first that it cannot take.
func (l *Limit) parseOptions(words []string) (problem string) {
	seen := make(map[string]bool, len(words))
	hot, hasHot := 0.0, false
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		if seen[name] {
			return fmt.Sprintf("%s stands twice", name)
		}
		seen[name] = true
		var err error
		switch name {
		case "exact":
			if word != "exact" {
				return "exact takes no value"
			}
		case "slotted":
			*l = l.Slotted(0)
			l.slots, err = strconv.Atoi(value)
		case "hybrid":
			*l = l.Hybrid(0, 0)
			l.slots, err = strconv.Atoi(value)
		case "hot":
			hasHot = true
			hot, err = strconv.ParseFloat(value, 64)
		case "name":
			if value == "" {
				return "name is empty"
			}
			l.name = value
		default:
			return fmt.Sprintf("%q is no option", word)
		}
		if err != nil {
			return fmt.Sprintf("%q is no number", word)
		}
	}
	switch {
	case seen["slotted"] && seen["hybrid"], seen["exact"] && (seen["slotted"] || seen["hybrid"]):
		return "a limit has one algorithm"
	case hasHot && !seen["hybrid"]:
		return "hot goes with hybrid"
	case hasHot:
		l.hot = hot
	}
	return ""
}

// windowUnits are the units of time that stand alone for one of it.
var windowUnits = [...]struct {
	suffix string
	length time.Duration
}{
	{"d", 24 * time.Hour},
	{"us", time.Microsecond}, {"µs", time.Microsecond}, {"ms", time.Millisecond},
	{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour},
}

func parseWindow(s string) (time.Duration, error) {
	for _, u := range windowUnits {
		if s == u.suffix {
			return u.length, nil
		}
	}
	days, rest, ok := strings.Cut(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	hours, err := time.ParseDuration(days + "h")
	if err != nil || hours > MaxWindow {
		return 0, fmt.Errorf("%q are no days: %w", days, errors.Join(err, strconv.ErrRange))
	}
	if rest == "" {
		return 24 * hours, nil
	}
	more, err := time.ParseDuration(rest)
	return 24*hours + more, err
}

// String returns the limit as ParseLimit reads it.
func (l Limit) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%s", l.n, formatWindow(l.window))
	switch l.algorithm {
	case Slotted:
		fmt.Fprintf(&b, " slotted=%d", l.slots)
	case Hybrid:
		fmt.Fprintf(&b, " hybrid=%d hot=%s", l.slots, strconv.FormatFloat(l.hot, 'g', -1, 64))
	}
	if l.name != "" {
		b.WriteString(" name=" + l.name)
	}
	return b.String()
}

// formatWindow drops the zero parts that time.Duration.String writes: 1m, not 1m0s.
func formatWindow(w time.Duration) string {
	s := w.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
