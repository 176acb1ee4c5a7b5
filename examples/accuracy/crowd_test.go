package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// TestMain lets the tests start processes of this program.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{workerArg}) {
		main()
		return
	}
	os.Exit(m.Run())
}

// quickCrowd is a crowd that a stand-in for Redis is up to.
func quickCrowd() crowd {
	return crowd{instances: 2, callers: 4, window: 200 * time.Millisecond, windows: 3, paced: []int64{10}, flooded: []int64{12}, seed: 7}
}

func standIn(t *testing.T) servers { return newServers(false, miniredis.RunT(t).Addr()) }

// faulty is a store that does something wrong before or after it answers. It
// takes a little time, as servers do.
type faulty struct {
	core.Store
	before func(*core.Call) error
	after  func(*core.Part)
}

func (f faulty) Do(ctx context.Context, c *core.Call) error {
	time.Sleep(100 * time.Microsecond)
	if f.before != nil && c.Op == core.OpTake {
		if err := f.before(c); err != nil {
			return err
		}
	}
	if err := f.Store.Do(ctx, c); err != nil {
		return err
	}
	if f.after != nil && c.Op == core.OpTake {
		f.after(&c.Parts[0])
	}
	return nil
}

// Close leaves the store to the others who share it.
func (f faulty) Close() error { return nil }

// inMemory opens stores in this process's memory that are shared under one prefix
// as those of servers are, with faults that may be nil.
func inMemory(t *testing.T, before func(*core.Call) error, after func(*core.Part)) func(servers) (core.Store, error) {
	var mu sync.Mutex
	stores := make(map[string]core.Store)
	return func(s servers) (core.Store, error) {
		mu.Lock()
		defer mu.Unlock()
		if stores[s.Prefix] == nil {
			m, err := core.NewMemory(core.MemoryConfig{})
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { m.Close() })
			stores[s.Prefix] = m
		}
		return faulty{stores[s.Prefix], before, after}, nil
	}
}

// attackTwo has two instances at the servers of their own attack.
func attackTwo(t *testing.T, w crowd, how hire, first, second servers) []outcome {
	t.Helper()
	list, err := w.attack(t.Context(), how, first, second)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestProcessesTogetherKeepEveryPromise(t *testing.T) {
	t.Run("stand-in", func(t *testing.T) { attackByProcesses(t, standIn(t)) })
	t.Run("redis", func(t *testing.T) { attackByProcesses(t, newServers(false, redistest.Need(t).Addr())) })
}

func attackByProcesses(t *testing.T, s servers) {
	list := attackTwo(t, quickCrowd(), hireProcess, s, s)
	if len(list) != 6 {
		t.Fatalf("%d outcomes, want 3 paced and 3 flooded", len(list))
	}
	for _, o := range list {
		for _, line := range o.broken() {
			t.Error(line)
		}
		if o.errors > 0 || len(o.instance) != 2 || slices.Contains(o.instance, 0) {
			t.Errorf("%s, N = %d: %d errors (%s), admitted by each: %v", o.name, o.job.N, o.errors, o.anyError, o.instance)
		}
		if o.times() < enoughOverload {
			t.Errorf("%s, N = %d: only %.2f times N were offered", o.name, o.job.N, o.times())
		}
	}
}

func TestInstancesThatCountApartBreakThePromise(t *testing.T) {
	for _, o := range attackTwo(t, quickCrowd(), hireHere(inMemory(t, nil, nil)), newServers(false), newServers(false)) {
		if o.worst <= o.job.N || o.worst > 2*o.job.N || !strings.Contains(strings.Join(o.broken(), "\n"), "units in some window") {
			t.Errorf("%s, N = %d: %d units in the fullest window, broken: %q", o.name, o.job.N, o.worst, o.broken())
		}
		if paced := o.job.Rate > 0; paced && o.faults[overfull] == 0 {
			t.Errorf("%s, N = %d: no admission into a full window was found", o.name, o.job.N)
		}
	}
}

// admitSome admits what was asked for in every eighth millisecond.
func admitSome(p *core.Part) {
	if p.At/1000%8 == 0 {
		p.Done = true
	}
}

// refuseSome refuses what was asked for in every other millisecond.
func refuseSome(p *core.Part) {
	if p.Done && p.At/1000%2 == 0 {
		p.Done, p.FitsAt = false, p.At+1
	}
}

func tellLater(by core.Instant) func(*core.Part) {
	return func(p *core.Part) {
		if !p.Done {
			p.FitsAt += by
		}
	}
}

func TestTheJudgeOfACrowdFindsEachKindOfFault(t *testing.T) {
	half := func(c *core.Call) error { c.Parts[0].N /= 2; return nil }
	for _, tt := range []struct {
		name   string
		before func(*core.Call) error
		after  func(*core.Part)
		want   string
	}{
		{"refuses some", nil, refuseSome, faultNames[needless]},
		{"tells a wait too long", nil, tellLater(1), faultNames[wrongWait]},
		{"tells a wait too short", nil, tellLater(-1), faultNames[wrongWait]},
		{"admits some", nil, admitSome, "units in some window"},
		{"admits half", half, nil, "no window was filled"},
		{"admits nothing", nil, func(p *core.Part) { p.Done, p.FitsAt = false, p.At+1 }, "nothing was admitted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, w := newServers(false), quickCrowd()
			found := ""
			for _, o := range attackTwo(t, w, hireHere(inMemory(t, tt.before, tt.after)), s, s) {
				if o.job.limit().Algorithm() == core.Exact {
					found += strings.Join(o.broken(), "\n")
				}
			}
			if !strings.Contains(found, tt.want) {
				t.Errorf("%q was not found, but\n%s", tt.want, found)
			}
		})
	}
}

func TestCallsWithoutADecisionAreCountedAndShown(t *testing.T) {
	fail := func(c *core.Call) error { return fmt.Errorf("the wire is cut") }
	s, w := newServers(false), quickCrowd()
	w.paced = nil
	list := attackTwo(t, w, hireHere(inMemory(t, fail, nil)), s, s)
	var out bytes.Buffer
	crowdTable(w, list).print(&out, false)
	for _, o := range list {
		if o.errors == 0 || o.errors != o.calls {
			t.Errorf("%d errors of %d calls", o.errors, o.calls)
		}
	}
	if !strings.Contains(out.String(), "the wire is cut") {
		t.Error("the table does not say what the error was")
	}
}

func TestTalliesSurviveTheirJourney(t *testing.T) {
	list := []heard{
		{1, answer{admitted: true, at: start + 5, fits: start + 5}},
		{2, answer{at: start + 7, fits: start + 1_000_000}},
		{4, answer{at: start + 7}},
		{3, answer{admitted: true, at: start + 900, fits: start + 900}},
	}
	shuffled := []heard{list[3], list[1], list[2], list[0]}
	var sent, got tally
	sent.pack(shuffled)
	var wire bytes.Buffer
	if err := errors.Join(gob.NewEncoder(&wire).Encode(sent), gob.NewDecoder(&wire).Decode(&got)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.unpack(), list) {
		t.Errorf("sent %v, got %v", list, got.unpack())
	}
}

func TestAnInstanceThatFailsEndsTheAttackWithItsError(t *testing.T) {
	cause := errors.New("no such place")
	how := hireHere(func(servers) (core.Store, error) { return nil, cause })
	if _, err := quickCrowd().attack(t.Context(), how, servers{}); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
	never := func(context.Context) (*instance, error) { return nil, cause }
	if _, err := quickCrowd().attack(t.Context(), never, servers{}); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
}

func TestTheEndOfTheContextEndsProcesses(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	w, s := quickCrowd(), standIn(t)
	w.windows = 1000
	ended := make(chan error, 1)
	go func() {
		_, err := w.attack(ctx, hireProcess, s, s)
		ended <- err
	}()
	time.AfterFunc(300*time.Millisecond, stop)
	select {
	case err := <-ended:
		if err == nil {
			t.Error("no error although the attack was cut short")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the processes go on")
	}
}

func TestAnInstanceEndsWithItsOrders(t *testing.T) {
	var orders bytes.Buffer
	if err := gob.NewEncoder(&orders).Encode(standIn(t)); err != nil {
		t.Fatal(err)
	}
	if err := work(t.Context(), &orders, io.Discard, servers.open); err != nil {
		t.Errorf("the end of the orders: %v", err)
	}
	if err := work(t.Context(), strings.NewReader("what?"), io.Discard, servers.open); err == nil {
		t.Error("no error for orders that make no sense")
	}
}

// Answers of one instant come in no order: a refusal is judged as if it came at the
// best place among the admissions, and no better.
func TestAnswersOfOneInstant(t *testing.T) {
	const window = 1000
	refused := func(cost int64, fits core.Instant) heard {
		return heard{cost, answer{at: 500, fits: fits}}
	}
	admitted := func(cost int64) heard { return heard{cost, answer{admitted: true, at: 500}} }
	for name, c := range map[string]struct {
		answers []heard
		want    fault
		faulty  bool
	}{
		"refused first":         {answers: []heard{refused(1, 1100), admitted(2)}},
		"refused last":          {answers: []heard{admitted(2), refused(1, 1100)}},
		"refused in between":    {answers: []heard{admitted(1), refused(2, 1100), admitted(1)}},
		"a wait of the start":   {answers: []heard{admitted(2), refused(3, 1100)}},
		"room is left":          {answers: []heard{admitted(1), refused(1, 1100)}, want: needless, faulty: true},
		"a wait for too little": {answers: []heard{admitted(2), refused(3, 1099)}, want: wrongWait, faulty: true},
		"a wait for too much":   {answers: []heard{admitted(2), refused(1, 1501)}, want: wrongWait, faulty: true},
		"too many":              {answers: []heard{admitted(2), admitted(1)}, want: overfull, faulty: true},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJudge(5, window, 0)
			j.hearTogether([]heard{{3, answer{admitted: true, at: 100}}})
			j.hearTogether(c.answers)
			if c.faulty && j.faults[c.want] == 0 || !c.faulty && j.faults != [faultKinds]int{} {
				t.Errorf("faults found: %v", j.faults)
			}
		})
	}
}
