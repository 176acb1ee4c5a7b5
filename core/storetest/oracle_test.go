package storetest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/storetest"
	"github.com/slidegate/slidegate/keyfunc"
)

func TestWorstCountsHalfOpenWindows(t *testing.T) {
	at := func(weights ...int64) (units []storetest.Unit) { // pairs of instant and weight
		for i := 0; i < len(weights); i += 2 {
			units = append(units, storetest.Unit{Made: core.Instant(weights[i]), Weight: weights[i+1]})
		}
		return units
	}
	for _, test := range []struct {
		name  string
		units []storetest.Unit
		want  int64
	}{
		{"none", nil, 0},
		{"one", at(5, 3), 3},
		{"one window apart", at(5, 3, 15, 4), 4},
		{"1 µs less than one window apart", at(5, 3, 14, 4), 7},
		{"same instant", at(5, 3, 5, 4, 5, 1), 8},
		{"in any order", at(30, 1, 14, 4, 40, 2, 5, 3), 7},
		{"in the middle", at(0, 5, 6, 2, 12, 3, 15, 2, 22, 1), 7},
		{"given back", at(5, 0, 6, 2), 2},
	} {
		if got := storetest.Worst(test.units, 10*time.Microsecond); got != test.want {
			t.Errorf("%s: the worst window holds %d, want %d", test.name, got, test.want)
		}
	}
}

// answered returns a call of one exact limit of 2 in 10 s, with its answer.
func answered(op core.Op, at core.Instant, used int64, oldest, fits core.Instant, done bool) *core.Call {
	return &core.Call{Op: op, Parts: []core.Part{{
		Counter: core.NewCounter("oracle", "limit", 10*time.Second, core.Exact, 0), Key: keyfunc.User("x"),
		N: 2, Cost: 1, At: at, Used: used, OldestLeaves: oldest, FitsAt: fits, Done: done,
	}}}
}

const start core.Instant = 1_900_000_000_000_000

func TestOracleNamesTheWrongField(t *testing.T) {
	right := *answered(core.OpTake, start, 1, start+10e6, start, true)
	for field, spoil := range map[string]func(*core.Part){
		"At is":           func(x *core.Part) { x.At++ },
		"Used is":         func(x *core.Part) { x.Used++ },
		"OldestLeaves is": func(x *core.Part) { x.OldestLeaves = 0 },
		"FitsAt is":       func(x *core.Part) { x.FitsAt-- },
		"Done is":         func(x *core.Part) { x.Done = false },
	} {
		var o storetest.Oracle
		c := right
		c.Parts = []core.Part{right.Parts[0]}
		spoil(&c.Parts[0])
		err := o.Check(&c, start, start)
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("the error for a wrong field is %v, want it to say %q", err, field)
		}
	}
	var o storetest.Oracle
	if err := o.Check(&right, start, start); err != nil {
		t.Error(err)
	}
}

func TestOracleAcceptsAnIdleKeyForgottenOrKept(t *testing.T) {
	for name, second := range map[string]*core.Call{
		"kept":      answered(core.OpTake, start, 2, start+10e6, start, true),
		"forgotten": answered(core.OpTake, start-5e6, 1, start+5e6, start-5e6, true),
	} {
		var o storetest.Oracle
		if err := o.Check(answered(core.OpTake, start, 1, start+10e6, start, true), start, start); err != nil {
			t.Fatal(err)
		}
		o.Pass(start + 10e6)
		if err := o.Check(second, start-5e6, start-5e6); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// What it was is known from then on.
		third := answered(core.OpTake, start-5e6, 2, start+5e6, start-5e6, true)
		err := o.Check(third, start-5e6, start-5e6)
		if (err == nil) != (name == "forgotten") {
			t.Errorf("%s: then starting anew gives the error %v", name, err)
		}
	}
}

func TestOracleDoesNotForgetALiveKey(t *testing.T) {
	var o storetest.Oracle
	if err := o.Check(answered(core.OpTake, start, 1, start+10e6, start, true), start, start); err != nil {
		t.Fatal(err)
	}
	o.Pass(start + 10e6 - 1)
	if o.Check(answered(core.OpTake, start-5e6, 1, start+5e6, start-5e6, true), start-5e6, start-5e6) == nil {
		t.Error("a key with a live unit may be forgotten")
	}
}

func TestOracleSeesAWindowAboveN(t *testing.T) {
	c := answered(core.OpTake, start, 1, start+10e6, start, true)
	counter, key := c.Parts[0].Counter, c.Parts[0].Key
	var o storetest.Oracle
	if err := o.Check(c, start, start); err != nil {
		t.Fatal(err)
	}
	if err := o.Check(answered(core.OpTake, start+7e6, 2, start+10e6, start+7e6, true), start+7e6, start+7e6); err != nil {
		t.Fatal(err)
	}
	if worst := o.Worst(counter, key, 10*time.Second); worst != 2 {
		t.Errorf("the worst window holds %d, want 2", worst)
	}
	if worst := o.Worst(counter, key, 7*time.Second); worst != 1 {
		t.Errorf("the worst window of 7 s holds %d, want 1", worst)
	}
	if err := o.CheckWindows(); err != nil {
		t.Error(err)
	}
}

func TestOracleRefusesACallThatNamesACountTwice(t *testing.T) {
	c := answered(core.OpTake, start, 1, start+10e6, start, true)
	c.Parts = append(c.Parts, c.Parts[0])
	var o storetest.Oracle
	if err := o.Check(c, start, start); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("the error is %v, want one that says twice", err)
	}
}
