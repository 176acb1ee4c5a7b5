package redisstore_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core"
)

// Requests that travel in one script must be answered as if each had come alone,
// one after the other at the same instant.
func TestMergedRequestsAreAnsweredAsIfEachCameAlone(t *testing.T) {
	algorithms := []core.Algorithm{core.Exact, core.Slotted, core.Hybrid}
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		merged, single := newStage(t), newStage(t)
		together, alone := merged.store(t), single.store(t)
		var parts []core.Part
		for i := range 1 + random.IntN(3) {
			c := counter(string(rune('a'+i)), algorithms[random.IntN(3)], time.Duration(1+random.IntN(100))*time.Millisecond, 1+random.IntN(12))
			x := part(c, 1+random.Int64N(20), 1)
			x.Watched = random.IntN(4) == 0
			parts = append(parts, x)
		}
		for range 12 {
			op := core.OpTake
			if random.IntN(5) == 0 {
				op = core.OpPeek
			}
			var calls, singles []*core.Call
			for range 1 + random.IntN(9) {
				c := &core.Call{Op: op, Parts: slices.Clone(parts)}
				cost := 1 + random.Int64N(4)
				for i := range c.Parts {
					c.Parts[i].Cost = cost
				}
				calls = append(calls, c)
				singles = append(singles, &core.Call{Op: op, Parts: slices.Clone(c.Parts)})
			}
			if err := together.Ask(context.Background(), calls...); err != nil {
				t.Fatal(err)
			}
			for i, c := range singles {
				do(t, alone, c)
				if !slices.Equal(c.Parts, calls[i].Parts) {
					t.Fatalf("seed %d: %s %d of %d:\nmerged %+v\nalone  %+v", seed, op, i+1, len(calls), calls[i].Parts, c.Parts)
				}
			}
			d := time.Duration(random.Int64N(30000)) * time.Microsecond
			if random.IntN(10) == 0 {
				d = -d
			}
			merged.move(d)
			single.move(d)
		}
	}
}
