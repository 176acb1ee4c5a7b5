package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
)

// quick is a setting that runs fast even under the race detector.
func quick() setting {
	c := defaultSetting(7)
	c.n, c.windows = 20, 8
	return c
}

// someGates are the limits that matter most, without the trend over the slots.
func someGates(c setting) (rows []row) {
	limit := core.Per(c.n, time.Duration(c.window)*time.Microsecond)
	for _, l := range []core.Limit{limit, limit.Slotted(10), limit.Slotted(20), limit.Slotted(60), limit.Hybrid(10, 0.8)} {
		rows = append(rows, gateRow(c, openMemory, l))
	}
	return rows
}

func traceNamed(t *testing.T, name string) trace {
	t.Helper()
	for _, tr := range traces() {
		if tr.name == name {
			return tr
		}
	}
	t.Fatalf("no trace is named %q", name)
	return trace{}
}

func TestEveryPromiseIsKeptUnderEveryTrace(t *testing.T) {
	c := quick()
	rows := someGates(c)
	if err := measure(c, rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if len(r.cells) != len(traces()) {
			t.Errorf("%s: %d traces were run, want %d", r.name, len(r.cells), len(traces()))
		}
		for _, line := range r.broken() {
			t.Error(line)
		}
		for _, cell := range r.cells {
			if cell.skipped || cell.offers == 0 || cell.admitted == 0 {
				t.Errorf("%s under %q: skipped %v, %d offers, %d units", r.name, cell.trace.name, cell.skipped, cell.offers, cell.admitted)
			}
		}
	}
}

func TestWindowsOfOddLengthKeepTheirPromises(t *testing.T) {
	c := quick()
	c.n, c.window, c.windows = 13, 999_983, 10
	limit := core.Per(c.n, time.Duration(c.window)*time.Microsecond)
	rows := []row{
		gateRow(c, openMemory, limit),
		gateRow(c, openMemory, limit.Slotted(7)),
		gateRow(c, openMemory, limit.Slotted(64)),
		gateRow(c, openMemory, limit.Hybrid(7, 0.3)),
	}
	if err := measure(c, rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		for _, line := range r.broken() {
			t.Error(line)
		}
	}
}

func TestSlotsAdmitTheirShareOfTheIdealUnderSteadyOverload(t *testing.T) {
	c := defaultSetting(1)
	c.n = 40
	limit := core.Per(c.n, time.Second)
	for _, slots := range []int{10, 20, 60} {
		r := gateRow(c, openMemory, limit.Slotted(slots))
		got, err := r.run(c, traceNamed(t, "steady 10x"))
		if err != nil {
			t.Fatal(err)
		}
		want := float64(slots) / float64(slots+1)
		if math.Abs(got.share()-want) > slack {
			t.Errorf("%s: %.4f of the ideal, want %.4f give or take %.3f", r.name, got.share(), want, slack)
		}
	}
}

func TestSlotsHalveBurstsThatComeExactlyEveryWindow(t *testing.T) {
	c := quick()
	r := gateRow(c, openMemory, core.Per(c.n, time.Second).Slotted(20))
	got, err := r.run(c, traceNamed(t, "N every W"))
	if err != nil {
		t.Fatal(err)
	}
	if got.share() != 0.5 {
		t.Errorf("%.3f of the ideal, want 0.5", got.share())
	}
}

func TestTheJudgeFindsOtherWaysOfCountingOverfull(t *testing.T) {
	c := quick()
	c.n = 50 // a token bucket comes to 2N-1
	for _, r := range contrasts(c) {
		worst, overfulls := 0.0, 0
		for _, name := range []string{"edges", "late flood"} {
			cell, err := r.run(c, traceNamed(t, name))
			if err != nil {
				t.Fatal(err)
			}
			worst = max(worst, cell.worst)
			overfulls += cell.faults[overfull]
		}
		if worst <= 1.9 || worst > 2 || overfulls == 0 {
			t.Errorf("%s: %.2f N in the fullest window, %d times overfull; want 1.9 to 2 and some", r.name, worst, overfulls)
		}
	}
}

func TestAFixedWindowBreaksTheVerdict(t *testing.T) {
	c := quick()
	r := gateRow(c, openMemory, core.Per(c.n, time.Second))
	r.name, r.plain = "impostor", true
	r.open = func() (subject, func() error, error) {
		return fixedWindow(c.n, c.window), func() error { return nil }, nil
	}
	var out bytes.Buffer
	if err := judgeAll(&out, c, []row{r}, false); !errors.Is(err, errBroken) {
		t.Fatalf("error %v, want %v", err, errBroken)
	}
	for _, want := range []string{"2.00 N in some window", faultNames[overfull], faultNames[wrongWait], "answers differ", "promises broken"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report does not say %q", want)
		}
	}
}

// spoilt is an ideal log with something wrong in its answers.
type spoilt struct {
	*ideal
	spoil func(offer, answer) answer
}

func (s spoilt) answer(o offer) (answer, error) {
	a, err := s.ideal.answer(o)
	return s.spoil(o, a), err
}

func TestTheJudgeFindsEachKindOfFault(t *testing.T) {
	refuse := func(a answer) answer { return answer{at: a.at, fits: a.at + 1} }
	for _, tt := range []struct {
		fault fault
		trace string
		late  core.Instant
		spoil func(offer, answer) answer
	}{
		{overfull, "edges", 0, func(_ offer, a answer) answer { a.admitted = true; return a }},
		{needless, "random", 0, func(_ offer, a answer) answer { return refuse(a) }},
		{needless, "random", 100_000, func(_ offer, a answer) answer { return refuse(a) }},
		{wrongWait, "random", 0, func(_ offer, a answer) answer { a.fits++; return a }},
		{wrongWait, "random", 0, func(_ offer, a answer) answer { a.fits--; return a }},
		{wrongWait, "random", 1000, func(_ offer, a answer) answer { a.fits += 1001; return a }},
		{wrongWait, "costs", 0, func(o offer, a answer) answer {
			if o.cost > 20 {
				a.fits = a.at + 1
			}
			return a
		}},
		{backwards, "clock", 0, func(o offer, a answer) answer { a.at = o.clock; return a }},
		{wrongInstant, "random", 0, func(_ offer, a answer) answer { a.at++; return a }},
		{wrongLapse, "reserved", 0, func(o offer, a answer) answer {
			if o.deed != take && o.deed != reserve {
				a.admitted = true
			}
			return a
		}},
	} {
		c := quick()
		tr := traceNamed(t, tt.trace)
		offers := tr.make(newPen(c, c.window))
		got, err := play(c, tr, offers, spoilt{newIdeal(c.n, c.window), tt.spoil}, tt.late)
		if err != nil {
			t.Fatal(err)
		}
		if got.faults[tt.fault] == 0 {
			t.Errorf("%q under %q was not found: %v", faultNames[tt.fault], tt.trace, got.faults)
		}
		honest, err := play(c, tr, offers, newIdeal(c.n, c.window), 0)
		if err != nil {
			t.Fatal(err)
		}
		if honest.faults != [faultKinds]int{} || honest.differs > 0 {
			t.Errorf("%q: faults found in the ideal log: %v", tt.trace, honest.faults)
		}
	}
}

func TestSlotsThatAdmitTooLittleBreakTheVerdict(t *testing.T) {
	c := quick()
	limit := core.Per(c.n, time.Second)
	r := gateRow(c, openMemory, limit.Slotted(10))
	r.limit = limit.Slotted(60) // promises more than it holds
	for _, name := range []string{"steady 10x", "random"} {
		cell, err := r.run(c, traceNamed(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if broken := r.brokenIn(cell); (len(broken) > 0) != (name == "steady 10x") {
			t.Errorf("under %q: broken %v", name, broken)
		}
	}
}

func TestTheSameSeedGivesTheSameReport(t *testing.T) {
	c := quick()
	c.n, c.windows = 13, 2
	var first, second, other bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := judgeAll(out, c, someGates(c)[:2], true); err != nil {
			t.Fatal(err)
		}
	}
	if first.String() != second.String() {
		t.Error("two runs with one seed differ")
	}
	c.seed++
	if err := judgeAll(&other, c, someGates(c)[:2], true); err != nil {
		t.Fatal(err)
	}
	if first.String() == other.String() {
		t.Error("another seed gives the same report")
	}
}

func TestTheCommittedPictureIsWhatTheProgramDraws(t *testing.T) {
	file := filepath.Join(t.TempDir(), "edge.svg")
	if err := run(t.Context(), []string{"-picture", file}, io.Discard); err != nil {
		t.Fatal(err)
	}
	drawn, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("../../docs/edge-burst.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(drawn, committed) {
		t.Error("docs/edge-burst.svg is stale: go run ./examples/accuracy -picture docs/edge-burst.svg")
	}
}

func TestThePictureShowsTwiceTheLimitAboveAndTheLimitBelow(t *testing.T) {
	fixed, err := playPanel(fixedWindow(pictureN, pictureW))
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGate(openMemory, core.Per(pictureN, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	exact, err := playPanel(g)
	if err != nil {
		t.Fatal(err)
	}
	if fixed.inBracket != 2*pictureN || exact.inBracket != pictureN {
		t.Errorf("%d and %d admitted within one window, want %d and %d", fixed.inBracket, exact.inBracket, 2*pictureN, pictureN)
	}
	if want := core.Instant(1_780_000); exact.fits != want {
		t.Errorf("the first refused may come back at %d, want %d", exact.fits, want)
	}
}

func TestMoreUnitsTakeMoreMemoryOnlyWhereTheyAreKeptApart(t *testing.T) {
	size := func(l core.Limit) uint64 {
		bytes, err := bytesPerKey(l, 100, 1000)
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	exact, slotted := size(core.PerSecond(100)), size(core.PerSecond(100).Slotted(10))
	if exact < 100*16 || exact < 2*slotted {
		t.Errorf("100 units: %d bytes exactly, %d in 10 slots", exact, slotted)
	}
	if _, err := bytesPerKey(core.PerSecond(5), 10, 1); err == nil {
		t.Error("no error although units were refused")
	}
}

func TestWrongArgumentsAreToldAndHelpIsNoFailure(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-h"}, flag.ErrHelp.Error()},
		{[]string{"extra"}, `unexpected argument "extra"`},
		{[]string{"-seed", "x"}, "invalid value"},
		{[]string{"-store", "disk"}, "-store disk"},
		{[]string{"-redis", "127.0.0.1:6379"}, "-store redis"},
		{[]string{"-picture", filepath.Join(t.TempDir(), "no", "such.svg")}, "no such file"},
	} {
		err := run(t.Context(), tt.args, io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: error %v, want %q", tt.args, err, tt.want)
		}
	}
}

func TestTablesLineUpInBothForms(t *testing.T) {
	tab := &table{title: "Title:", notes: []string{"A note."}}
	tab.add("limit", "µs")
	tab.add("a longer one", "1")
	for _, tt := range []struct {
		markdown bool
		want     string
	}{
		{false, "Title:\n\nlimit         µs\n------------  --\na longer one   1\n\nA note.\n\n"},
		{true, "Title:\n\n| limit        | µs |\n| ------------ | -: |\n| a longer one |  1 |\n\nA note.\n\n"},
	} {
		var out bytes.Buffer
		tab.print(&out, tt.markdown)
		if out.String() != tt.want {
			t.Errorf("markdown %v:\n%s\nwant\n%s", tt.markdown, out.String(), tt.want)
		}
	}
}

func TestTimePerDecisionIsMeasured(t *testing.T) {
	for _, how := range busyLimits(1000) {
		limit := like(core.PerHour(5), how)
		if limit.Algorithm() != how.Algorithm() || limit.Slots() != how.Slots() || limit.Hot() != how.Hot() {
			t.Errorf("%v was made like %v", limit, how)
		}
	}
	nanos, err := pace([]core.Limit{core.PerSecond(1000), core.PerSecond(1000).Hybrid(10, 0.8)}, 2)
	if err != nil || len(nanos) != 2 || nanos[0] <= 0 || math.IsInf(nanos[1], 0) {
		t.Errorf("%v ns, error %v", nanos, err)
	}
}
