package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// quickPlan is a plan that runs fast even under the race detector.
func quickPlan(open func(servers) (core.Store, error)) plan {
	one := liveSetting(7)
	one.windows = 2
	return plan{one: one, under: plainTraces(), comebacks: 12, many: quickCrowd(), how: hireHere(open), open: open}
}

func judged(t *testing.T, p plan, s servers, markdown bool) {
	t.Helper()
	var out bytes.Buffer
	if err := p.judge(t.Context(), &out, s, markdown); err != nil {
		t.Fatalf("error %v\n%s", err, out.String())
	}
	for _, want := range []string{p.under[0].name, fmt.Sprintf("%d refusals", p.comebacks), "2 processes with 4 callers each", "every promise kept"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report does not say %q", want)
		}
	}
	if strings.Contains(out.String(), "| exact") != markdown {
		t.Errorf("markdown %v:\n%s", markdown, out.String())
	}
}

func TestTheWholePlanIsKept(t *testing.T) {
	p := quickPlan(inMemory(t, nil, nil))
	judged(t, p, newServers(false), false)
	p.under = p.under[3:4]
	p.many.flooded = nil
	p.comebacks = 3
	judged(t, p, newServers(false), true)
}

func TestThePlanIsKeptOnServers(t *testing.T) {
	p := quickPlan(servers.open)
	p.how, p.comebacks, p.under = hireProcess, 3, []trace{traceNamed(t, "costs")}
	t.Run("stand-in", func(t *testing.T) { judged(t, p, standIn(t), false) })
	t.Run("redis", func(t *testing.T) { judged(t, p, newServers(false, redistest.Need(t).Addr()), false) })
	t.Run("cluster", func(t *testing.T) {
		judged(t, p, newServers(true, redistest.NeedCluster(t, 3, 0).Addrs()...), true)
	})
}

func TestABrokenStoreBreaksTheVerdictOnAServer(t *testing.T) {
	var out bytes.Buffer
	p := quickPlan(inMemory(t, nil, admitSome))
	if err := p.judge(t.Context(), &out, newServers(false), false); !errors.Is(err, errBroken) {
		t.Fatalf("error %v, want %v", err, errBroken)
	}
	for _, want := range []string{`exact under "edges": ` + faultNames[overfull], "N in some window", "units in some window", "promises broken"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report does not say %q", want)
		}
	}
}

func TestALiveClockIsMetAtTheEdgesOfSlots(t *testing.T) {
	c, s, memory := liveSetting(7), newServers(false), inMemory(t, nil, nil)
	edge := slotSize(c.window, 10)
	open := openLive(t.Context(), c, edge, func(name string) (core.Store, error) { return memory(s.named(name)) }, "edges")
	g, err := newGate(open, core.Per(1000, 1e9))
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	e, shift := (start/edge+2)*edge, core.Instant(0)
	for _, tt := range []struct {
		clock  core.Instant
		before bool
	}{{e - 1, true}, {e, false}, {e + edge - 1, true}, {e + edge, false}} {
		a, err := g.answer(offer{clock: tt.clock, cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		// A busy machine may come late, but never early: so much before an edge that
		// many calls are through by then, and not before it if it is for the edge.
		due := tt.clock
		if tt.before {
			due -= edge / 2
		}
		if shift == 0 {
			shift = (a.at - due) / c.window * c.window
		}
		if a.at < due+shift {
			t.Errorf("an offer for %d came %d µs too early", tt.clock, due+shift-a.at)
		}
	}
}

func TestTheCheckOfComingBackFindsEachKindOfFault(t *testing.T) {
	var told atomic.Int64
	for _, tt := range []struct {
		name  string
		after func(*core.Part)
		want  func(comebacks) int
	}{
		{"told too late", tellLater(20_000), func(c comebacks) int { return c.early }},
		{"told too early", tellLater(-20_000), func(c comebacks) int { return c.late }},
		{"told another instant each time", func(p *core.Part) {
			if !p.Done {
				p.FitsAt -= core.Instant(20_000 + 100*(told.Add(1)%8))
			}
		}, func(c comebacks) int { return c.moved }},
		{"no fault", nil, func(c comebacks) int {
			if c.samples == 6 && c.probes >= 6 && len(c.broken()) == 0 {
				return 1
			}
			return 0
		}},
	} {
		store, err := inMemory(t, nil, tt.after)(newServers(false))
		if err != nil {
			t.Fatal(err)
		}
		// A busy machine can miss the moments at which a fault shows: they come again.
		var c comebacks
		for try := uint64(0); try < 10 && tt.want(c) == 0; try++ {
			if c, err = comeBack(t.Context(), store, 7+try, 6); err != nil {
				t.Fatal(err)
			}
		}
		if tt.want(c) == 0 || (tt.after != nil) != (len(c.broken()) > 0) {
			t.Errorf("%s: %v%q", tt.name, c.String(), c.broken())
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestComingBackEndsWithAnError(t *testing.T) {
	store, err := inMemory(t, func(*core.Call) error { return errors.New("the wire is cut") }, nil)(newServers(false))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := comeBack(t.Context(), store, 7, 3); err == nil || !strings.Contains(err.Error(), "the wire is cut") {
		t.Errorf("error %v", err)
	}
}
