package storetest_test

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/core/storetest"
)

// faults are what the reference store can be made to do wrong.
var faults = []string{
	// Which units count.
	"a unit counts at its release instant",
	"a unit leaves 1 µs early",
	"dead units never leave",
	"one slot too few",
	"slots modulo n",
	"the key expires one window after its last unit",
	"the key expires one window after its first unit",
	"units of one instant are merged into one",
	"hybrid always uses slots",
	"hybrid is hot from its threshold on",
	"hybrid forgets the cost at its threshold",
	// What fits.
	"the cost is ignored",
	"one too many",
	"the sum is a float32",
	"the sum is an int32",
	"room is unsigned",
	"a unit is an int32",
	"totals are float64",
	"totals have 53 bits",
	// What a refusal or a peek leaves behind.
	"a refusal counts",
	"a refusal moves the key's time",
	"a refusal prolongs what is there",
	"a peek counts",
	// Several limits.
	"the limits before the refusing one are charged",
	"limits that fit are charged in a refused call",
	"limits that fit are not done in a refused call",
	"a watched limit refuses",
	"a watched limit takes what does not fit",
	"a watched limit takes in a refused call",
	// What is counted together.
	"N is part of the identity",
	"the window is no part of the identity",
	"the limit's name is no part of the identity",
	"the limiter's name is no part of the identity",
	"the key is ignored",
	"instances count apart",
	// The wait and the oldest.
	"the wait is that of the oldest unit",
	"the wait is 1 µs too long",
	"the wait is 1 µs too short",
	"the wait is the whole window",
	"a cost above N is told a wait",
	"the oldest ignores pending units",
	"a field of the answer is left as it was",
	// The clock.
	"the clock runs backwards",
	"the clock stands still",
	"a refusal forgets the difference",
	"a peek forgets the difference",
	"a reset keeps the difference",
	"a reservation does not move the key's time",
	// Reservations.
	"a reservation is a take",
	"pending units do not count",
	"a lapsed reservation stays",
	"a reservation lapses with its slot",
	"a commit keeps the pending units too",
	"a commit counts from the reservation",
	"a correction above N is refused",
	"a correction never gives back",
	"a cancel subtracts twice",
	"a late commit counts",
	"a late correction loses the excess",
	"a late correction counts in full",
	"a reset forgets the first limit alone",
	"a reset keeps reservations",
	// The store.
	"reading and booking are separate steps",
	"a closed store answers",
}

// verdict is a testing.TB that takes note of failures and passes none on.
type verdict struct {
	testing.TB
	log    strings.Builder
	failed bool
}

func (v *verdict) Helper()      {}
func (v *verdict) Failed() bool { return v.failed }
func (v *verdict) Fail()        { v.failed = true }
func (v *verdict) FailNow()     { v.failed = true; runtime.Goexit() }
func (v *verdict) SkipNow()     { runtime.Goexit() }

func (v *verdict) Log(args ...any)            { fmt.Fprintln(&v.log, args...) }
func (v *verdict) Logf(f string, args ...any) { fmt.Fprintf(&v.log, f+"\n", args...) }
func (v *verdict) Error(args ...any)          { v.Log(args...); v.Fail() }
func (v *verdict) Errorf(f string, a ...any)  { v.Logf(f, a...); v.Fail() }
func (v *verdict) Fatal(args ...any)          { v.Log(args...); v.FailNow() }
func (v *verdict) Fatalf(f string, a ...any)  { v.Logf(f, a...); v.FailNow() }
func (v *verdict) Skip(args ...any)           { v.Log(args...); v.SkipNow() }
func (v *verdict) Skipf(f string, a ...any)   { v.Logf(f, a...); v.SkipNow() }

// judge runs one check on a store with that fault.
func judge(t *testing.T, c storetest.Check, fault string) *verdict {
	v := &verdict{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(v, harness(fault))
	}()
	<-done
	return v
}

// failing returns the first check that finds the fault, and what it says.
func failing(t *testing.T, checks []storetest.Check, fault string) (string, string) {
	for _, c := range checks {
		if v := judge(t, c, fault); v.failed {
			return c.Name, v.log.String()
		}
	}
	return "", ""
}

// randomly reports whether a check draws what it does.
func randomly(c storetest.Check) bool {
	return strings.HasPrefix(c.Name, "RandomTraces") || strings.HasPrefix(c.Name, "WaitIsExact")
}

func TestEveryFaultIsFoundByANamedCheck(t *testing.T) {
	var named []storetest.Check
	for _, c := range storetest.Checks() {
		if !randomly(c) {
			named = append(named, c)
		}
	}
	for _, fault := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			name, said := failing(t, named, fault)
			if name == "" {
				t.Fatal("the suite passes a store with this fault")
			}
			t.Logf("found by %s: %s", name, strings.SplitN(said, "\n", 2)[0])
		})
	}
}

// The random traces know nothing of the faults, and must find them all the same,
// but for those that they cannot show.
func TestRandomTracesFindTheFaults(t *testing.T) {
	beyond := map[string]bool{
		"reading and booking are separate steps":        true, // one call at a time
		"a closed store answers":                        true,
		"the limiter's name is no part of the identity": true, // one limiter
		"totals are float64":                            true, // too few large corrections
		"totals have 53 bits":                           true,
	}
	if err := flag.Set("rapid.seed", "20300102"); err != nil { // the same traces each time
		t.Fatal(err)
	}
	t.Cleanup(func() { flag.Set("rapid.seed", "0") })
	var traces []storetest.Check
	for _, c := range storetest.Checks() {
		if strings.HasPrefix(c.Name, "RandomTraces") {
			traces = append(traces, c)
		}
	}
	for _, fault := range faults {
		if beyond[fault] {
			continue
		}
		if name, _ := failing(t, traces, fault); name == "" {
			t.Errorf("the random traces find nothing wrong with a store in which %s", fault)
		}
	}
}
