package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/bench/internal/server"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// TestAllStatesAreMeasured runs each contender in each kind of state. The answers
// of all calls are judged on the way: a run that measures something else fails.
func TestAllStatesAreMeasured(t *testing.T) {
	for _, markdown := range []bool{false, true} {
		var out bytes.Buffer
		err := run(context.Background(), &out, options{redis: redistest.Need(t).Addr(), rounds: 1, tiny: true, markdown: markdown})
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range states(true) {
			if !strings.Contains(out.String(), st.name) {
				t.Errorf("no table %q in:\n%s", st.name, &out)
			}
		}
		for _, name := range []string{plainName, leanName, "redis_rate", exactName, "slotted(10)", "hybrid(10)", bothName, eightName} {
			if got := strings.Count(out.String(), name); got < len(states(true)) {
				t.Errorf("%s stands in %d tables of %d", name, got, len(states(true)))
			}
		}
	}
}

func TestWrongAnswersAreNotMeasured(t *testing.T) {
	s, err := server.Open(context.Background(), redistest.Need(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, st := range []state{room(200, 2), refused(20, 2)} {
		st.refused = !st.refused
		if _, err := measure(context.Background(), s, st, 1); err == nil || !strings.Contains(err.Error(), "not what is to be measured") {
			t.Errorf("%s, taken for the opposite: %v", st.name, err)
		}
	}
}

func TestRepliesAreRead(t *testing.T) {
	for _, tt := range []struct {
		name     string
		read     func([]any, int) (bool, error)
		reply    []any
		requests int
		want     bool
		fails    bool
	}{
		{"plain allowed", flagged, []any{int64(1), int64(3)}, 1, true, false},
		{"plain refused", flagged, []any{int64(0), int64(3)}, 1, false, false},
		{"plain empty", flagged, nil, 1, false, true},
		{"plain text", flagged, []any{"1"}, 1, false, true},
		{"one limit allowed", fitted, []any{int64(9), int64(0), int64(0), int64(9)}, 1, true, false},
		{"one limit refused", fitted, []any{int64(9), int64(0), int64(0), int64(12)}, 1, false, false},
		{"never fits", fitted, []any{int64(9), int64(0), int64(0), int64(0)}, 1, false, false},
		{"second limit refused", fitted, []any{int64(9), int64(0), int64(0), int64(8), int64(0), int64(0), int64(9), int64(10)}, 1, false, false},
		{"two limits allowed", fitted, []any{int64(9), int64(0), int64(0), int64(8), int64(0), int64(0), int64(9), int64(8)}, 1, true, false},
		{"last of two requests refused", fitted, []any{int64(9), int64(0), int64(0), int64(9), int64(12)}, 2, false, false},
		{"too short", fitted, []any{int64(9), int64(0)}, 1, false, true},
		{"a number too many", fitted, []any{int64(9), int64(0), int64(0), int64(9), int64(9)}, 1, false, true},
	} {
		got, err := tt.read(tt.reply, tt.requests)
		if got != tt.want || (err != nil) != tt.fails {
			t.Errorf("%s: %t, %v", tt.name, got, err)
		}
	}
}

func TestBrokenBoundsAreTold(t *testing.T) {
	results := func(exact, both, eight float64) []*result {
		return []*result{
			{name: plainName, times: []float64{10}}, {name: leanName, times: []float64{10}},
			{name: exactName, times: []float64{exact}}, {name: bothName, times: []float64{both}}, {name: eightName, times: []float64{eight}},
		}
	}
	for _, tt := range []struct {
		name    string
		st      state
		results []*result
		want    int
	}{
		{"all at the bounds", room(100, 1), results(15, 28, 20), 0},
		{"all above", room(100, 1), results(15.1, 28.1, 20.1), 3},
		{"few units", manyKeys(10), results(15, 90, 20), 0},
		{"refused at the bounds", refused(100, 1), results(18, 33, 22), 0},
		{"refused above", refused(100, 1), results(18.1, 33.1, 22.1), 3},
		{"flow above", flow(time.Second, "1"), results(15.1, 28.1, 20.1), 3},
		{"small flow at the bounds", flow(time.Millisecond, "1"), results(15, 34, 20), 0},
		{"small flow above", flow(time.Millisecond, "1"), results(15.1, 34.1, 20.1), 3},
	} {
		if got := judge(tt.st, tt.results); len(got) != tt.want {
			t.Errorf("%s: %q, want %d", tt.name, got, tt.want)
		}
	}
	slowOnce := results(15, 28, 20)
	slowOnce[2].times = []float64{15, 15, 15, 99, 99, 99}
	if got := judge(room(100, 1), slowOnce); len(got) != 0 {
		t.Errorf("a median alone above the bound: %q", got)
	}
	var out bytes.Buffer
	if err := verdict(&out, []string{"x"}, true); !errors.Is(err, errBound) {
		t.Errorf("-check with a broken bound: %v", err)
	}
	if err := verdict(&out, []string{"x"}, false); err != nil {
		t.Errorf("without -check: %v", err)
	}
	if err := verdict(&out, nil, true); err != nil {
		t.Errorf("-check with no broken bound: %v", err)
	}
}

func TestQuantiles(t *testing.T) {
	r := result{}
	for i := range 101 {
		r.times = append(r.times, float64(i))
	}
	if r.low() != 10 || r.median() != 50 || r.quantile(0.9) != 90 || r.quantile(1) != 100 {
		t.Errorf("quantiles %v %v %v %v", r.low(), r.median(), r.quantile(0.9), r.quantile(1))
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"stray"}} {
		if err := command(context.Background(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
