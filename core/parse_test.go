package core_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/core"
)

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]core.Limit{
		"100/1m":                        core.PerMinute(100),
		"10/s":                          core.PerSecond(10),
		"10/m":                          core.PerMinute(10),
		"10/h":                          core.PerHour(10),
		"10/d":                          core.PerDay(10),
		"10/ms":                         core.Per(10, time.Millisecond),
		"10/2000us":                     core.Per(10, 2*time.Millisecond),
		"10/2000µs":                     core.Per(10, 2*time.Millisecond),
		"10/7d":                         core.Per(10, 7*24*time.Hour),
		"10/1d12h":                      core.Per(10, 36*time.Hour),
		"10/1.5d":                       core.Per(10, 36*time.Hour),
		"10/366d":                       core.Per(10, core.MaxWindow),
		"10/1h30m":                      core.Per(10, 90*time.Minute),
		"10/1.5s":                       core.Per(10, 1500*time.Millisecond),
		"007/1s":                        core.PerSecond(7),
		"999999999999999/1s":            core.PerSecond(core.MaxUnits),
		"5/1m exact":                    core.PerMinute(5),
		"100000/24h slotted=48":         core.PerDay(100_000).Slotted(48),
		"1000/1h hybrid=60":             core.PerHour(1000).Hybrid(60, core.DefaultHot),
		"1000/1h hybrid=60 hot=0.5":     core.PerHour(1000).Hybrid(60, 0.5),
		"1000/1h hot=0.5 hybrid=60":     core.PerHour(1000).Hybrid(60, 0.5),
		"5/1m name=login":               core.PerMinute(5).Named("login"),
		"5/1m name=login slotted=6":     core.PerMinute(5).Slotted(6).Named("login"),
		" 5/1m \t name=a.b_c/d-e \n":    core.PerMinute(5).Named("a.b_c/d-e"),
		"1000/1h name=x hybrid=60":      core.PerHour(1000).Hybrid(60, 0).Named("x"),
		"5/1m exact name=exact":         core.PerMinute(5).Named("exact"),
		"1000/1h hybrid=60 hot=0x1p-01": core.PerHour(1000).Hybrid(60, 0.5),
	} {
		got, err := core.ParseLimit(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if !sameLimit(got, want) {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}

func TestParseLimitNamesWhatItCannotRead(t *testing.T) {
	for _, test := range []struct{ text, field, problem string }{
		{"", "limit", "nothing to read"},
		{"  ", "limit", "nothing to read"},
		{"100", "limit", "no slash"},
		{"/", "limit", `"" is no whole number of units`},
		{"/1m", "limit", `"" is no whole number of units`},
		{"x/1m", "limit", `"x" is no whole number of units`},
		{"+5/1m", "limit", `"+5" is no whole number of units`},
		{"-5/1m", "limit", `"-5" is no whole number of units`},
		{"5.5/1m", "limit", `"5.5" is no whole number of units`},
		{"1e3/1m", "limit", `"1e3" is no whole number of units`},
		{"0x10/1m", "limit", `"0x10" is no whole number of units`},
		{"1_000/1m", "limit", `"1_000" is no whole number of units`},
		{"9223372036854775808/1m", "limit", "is no whole number of units"},
		{"٣/1m", "limit", "is no whole number of units"},
		{"5/", "limit", `"" is no window`},
		{"5/1", "limit", `"1" is no window`},
		{"5/1y", "limit", `"1y" is no window`},
		{"5/65536d", "limit", `"65536d" is no window`},
		{"5/1m/1s", "limit", `"1m/1s" is no window`},
		{"5/ 1m", "limit", `"" is no window`},
		{"5/1m fast", "limit", `"fast" is no option`},
		{"5/1m =", "limit", `"=" is no option`},
		{"5/1m Slotted=4", "limit", `"Slotted=4" is no option`},
		{"5/1m slotted", "limit", `"slotted" is no number`},
		{"5/1m slotted=x", "limit", `"slotted=x" is no number`},
		{"5/1m slotted=4.5", "limit", `"slotted=4.5" is no number`},
		{"5/1m hybrid=", "limit", `"hybrid=" is no number`},
		{"5/1m hybrid=10 hot=x", "limit", `"hot=x" is no number`},
		{"5/1m hybrid=10 hot=1e999", "limit", `"hot=1e999" is no number`},
		{"5/1m exact=1", "limit", "exact takes no value"},
		{"5/1m exact=", "limit", "exact takes no value"},
		{"5/1m name", "limit", "name is empty"},
		{"5/1m name=", "limit", "name is empty"},
		{"5/1m name=a name=b", "limit", "name stands twice"},
		{"5/1m slotted=4 slotted=5", "limit", "slotted stands twice"},
		{"5/1m slotted=4 hybrid=5", "limit", "one algorithm"},
		{"5/1m exact slotted=4", "limit", "one algorithm"},
		{"5/1m hybrid=4 exact", "limit", "one algorithm"},
		{"5/1m hot=0.5", "limit", "hot goes with hybrid"},
		{"5/1m slotted=5 hot=0.5", "limit", "hot goes with hybrid"},
		{"0/1m", "limit.N", "at least 1 unit"},
		{"1000000000000000/1m", "limit.N", "more than the header fields can carry"},
		{"5/0s", "limit.Window", "shorter than 1ms"},
		{"5/us", "limit.Window", "shorter than 1ms"},
		{"5/µs", "limit.Window", "shorter than 1ms"},
		{"5/-1m", "limit.Window", "shorter than 1ms"},
		{"5/-1d", "limit.Window", "shorter than 1ms"},
		{"5/xd", "limit", `"xd" is no window`},
		{"5/1dx", "limit", `"1dx" is no window`},
		{"5/99999d", "limit", `"99999d" is no window`},
		{"5/367d", "limit.Window", "longer than 366 days"},
		{"5/1s1ns", "limit.Window", "finer than a microsecond"},
		{"5/1m slotted=0", "limit.Slots", "not a number of slots"},
		{"5/1m slotted=10001", "limit.Slots", "not a number of slots"},
		{"5/1ms slotted=1001", "limit.Slots", "shorter than a microsecond"},
		{"5/1m hybrid=10 hot=0", "limit.Hot", "not a share"},
		{"5/1m hybrid=10 hot=1", "limit.Hot", "not a share"},
		{"5/1m hybrid=10 hot=NaN", "limit.Hot", "not a share"},
		{"5/1m name=a=b", "limit.Name", "not a name"},
		{"5/1m name={a}", "limit.Name", "not a name"},
	} {
		l, err := core.ParseLimit(test.text)
		if err == nil {
			t.Errorf("%q was read as %v", test.text, l)
			continue
		}
		if !sameLimit(l, core.Limit{}) {
			t.Errorf("%q: the limit beside the error is %v", test.text, l)
		}
		f, ok := errors.AsType[*core.FieldError](err)
		if !ok || f.Field != test.field || !strings.Contains(f.Problem, test.problem) {
			t.Errorf("%q: %v; want %s: …%s…", test.text, err, test.field, test.problem)
		}
		checkFaults(t, err)
		if f.Field == "limit" && (f.Value != test.text || !strings.Contains(f.Remedy, `"100/1m"`)) {
			t.Errorf("%q: value %q, remedy %q", test.text, f.Value, f.Remedy)
		}
	}
}

func TestParseLimitTellsAllFaultsOfWhatItRead(t *testing.T) {
	_, err := core.ParseLimit("0/0s hybrid=0 hot=2 name={}")
	want := []string{"limit.N", "limit.Window", "limit.Name", "limit.Slots", "limit.Hot"}
	if got := fieldsOf(err); !equalStrings(got, want) {
		t.Errorf("faults in %v, want %v", got, want)
	}
}

// sameLimit compares all that ParseLimit reads.
func sameLimit(a, b core.Limit) bool {
	return a.Name() == b.Name() && a.N() == b.N() && a.Window() == b.Window() &&
		a.Algorithm() == b.Algorithm() && a.Slots() == b.Slots() && a.Hot() == b.Hot() &&
		a.OwnKey() == b.OwnKey() && a.String() == b.String()
}

// anyLimit draws valid limits.
func anyLimit(t *rapid.T) core.Limit {
	window := rapid.OneOf(
		rapid.Int64Range(1000, int64(core.MaxWindow/time.Microsecond)),
		rapid.Map(rapid.Int64Range(1, 8784*3600), func(s int64) int64 { return s * 1e6 }),
		rapid.Map(rapid.Int64Range(1, 8784), func(h int64) int64 { return h * 3600 * 1e6 }),
	).Draw(t, "window")
	l := core.Per(rapid.Int64Range(1, core.MaxUnits).Draw(t, "n"), time.Duration(window)*time.Microsecond)
	slots := rapid.IntRange(1, int(min(window, core.MaxSlots)))
	switch rapid.IntRange(0, 2).Draw(t, "algorithm") {
	case 1:
		l = l.Slotted(slots.Draw(t, "slots"))
	case 2:
		hot := rapid.Float64Range(0, 1).Filter(func(f float64) bool { return f < 1 })
		l = l.Hybrid(slots.Draw(t, "slots"), hot.Draw(t, "hot"))
	}
	return l.Named(rapid.StringMatching(`([A-Za-z0-9._/-]{1,64})?`).Draw(t, "name"))
}

func TestParseLimitReadsWhatStringWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLimit(t)
		if _, err := core.New(core.Config{Limits: []core.Limit{l}}); err != nil {
			t.Fatalf("%v is not valid: %v", l, err)
		}
		got, err := core.ParseLimit(l.String())
		if err != nil {
			t.Fatal(err)
		}
		if !sameLimit(got, l) {
			t.Fatalf("%v was read as %v", l, got)
		}
	})
}

func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{
		"", "100/1m", "10/s", "100000/24h slotted=48", "1000/1h hybrid=60 hot=0.8 name=api", "5/1m exact",
		"0/0s hybrid=0 hot=2 name={}", "1/366d", "9223372036854775808/1m", "5/-1m", "5/1.5h", "5/1m name=a=b", "5/1ms slotted=1000",
		"5/1m hybrid=10 hot=NaN", "5/1m hybrid=10 hot=5e-324", "٣/1m", "5/1µs", "5/1s1ns", "5//", "\xff/\xff", "5/1m \x00=\x00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := core.ParseLimit(text)
		if err != nil {
			checkFaults(t, err)
			if !sameLimit(l, core.Limit{}) {
				t.Fatalf("%q: %v beside %v", text, l, err)
			}
			return
		}
		again, err := core.ParseLimit(l.String())
		if err != nil || !sameLimit(again, l) {
			t.Fatalf("%q was read as %v, and that as %v (%v)", text, l, again, err)
		}
		if _, err := core.New(core.Config{Limits: []core.Limit{l}}); err != nil {
			t.Fatalf("%q was read as %v, which is not valid: %v", text, l, err)
		}
	})
}
