package fallback

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/core"
)

// window is the local window: a memory store that decides in place of the primary,
// with this instance's share of each limit.
type window struct {
	memory   *core.Memory
	share    func() float64 // nil: by replicas
	replicas int64
	cold     bool
	calls    sync.Pool // of *core.Call
	// reserved says that reservations were made here, so that ends may concern them.
	reserved atomic.Bool
}

func newWindow(cfg Config) (*window, error) {
	m, err := core.NewMemory(core.MemoryConfig{MaxKeys: cfg.MaxKeys, Clock: cfg.Clock})
	if err != nil {
		return nil, err
	}
	w := &window{memory: m, share: cfg.Share, replicas: int64(max(cfg.Replicas, 1)), cold: cfg.Cold}
	w.calls.New = func() any { return new(core.Call) }
	return w, nil
}

// do has the memory store answer a copy of c, which change may alter, and hands the
// copy to use.
func (w *window) do(c *core.Call, op core.Op, change func(*core.Part), use func(*core.Call)) {
	own := w.calls.Get().(*core.Call)
	parts := append(own.Parts[:0], c.Parts...)
	*own = *c
	own.Op, own.Parts = op, parts
	for i := range parts {
		change(&parts[i])
	}
	// The one error is that the store was closed, which the primary has said already.
	if w.memory.Do(context.Background(), own) == nil && use != nil {
		use(own)
	}
	w.calls.Put(own)
}

// decides answers c with the share of its limits, if it is one that can be decided
// here.
func (w *window) decides(c *core.Call) bool {
	if c.Op > core.OpReserve {
		return false
	}
	if c.Op == core.OpReserve {
		w.reserved.Store(true)
	}
	part := w.portion()
	for i := range c.Parts {
		p := &c.Parts[i]
		p.N, p.HotFrom = quota(p.N, p.Cost, part), part.of(p.HotFrom)
	}
	return w.memory.Do(context.Background(), c) == nil
}

// warm counts what the primary store has admitted, whatever the share.
func (w *window) warm(c *core.Call) {
	switch {
	case w.cold:
	case c.Op == core.OpReset:
		w.forget(c)
	case c.Op == core.OpTake || c.Op == core.OpReserve:
		if admitted(c.Parts) {
			w.count(c, func(p *core.Part) int64 {
				if !p.Done {
					return 0 // it is only watched
				}
				return p.Cost
			})
		}
	case c.Op == core.OpCorrect && !w.reserved.Load(): // else ends has counted it
		w.count(c, func(p *core.Part) int64 { return p.Cost - p.Reserved })
	}
}

func admitted(parts []core.Part) bool {
	for i := range parts {
		if !parts[i].Done && !parts[i].Watched {
			return false
		}
	}
	return true
}

// count counts units that nobody asks about, and none where there are none. A
// reservation counts from its taking, as one that was never given back: then the local
// window holds a little too much, which refuses early.
func (w *window) count(c *core.Call, units func(*core.Part) int64) {
	part := portion{1, 1}
	if slices.ContainsFunc(c.Parts, func(p core.Part) bool { return p.HotFrom != 0 }) {
		part = w.portion()
	}
	w.do(c, core.OpTake, func(p *core.Part) {
		p.Cost = units(p)
		p.N, p.HotFrom = core.MaxUnits, part.of(p.HotFrom)
		p.Watched = true // a part that counts nothing must not stop the others
		if p.Cost <= 0 {
			p.N, p.Cost = 0, 1 // does not fit, and is not counted
		}
	}, nil)
}

// ends answers the end of a reservation that was made here, and reports whether it was.
func (w *window) ends(c *core.Call) (done bool) {
	if c.Op != core.OpCommit && c.Op != core.OpCorrect && c.Op != core.OpCancel || !w.reserved.Load() {
		return false
	}
	// A correction of what is not pending here counts what exceeds it, as warm would.
	w.do(c, c.Op, func(*core.Part) {}, func(own *core.Call) {
		for i := range own.Parts {
			done = done || own.Parts[i].Done
		}
		if done {
			copy(c.Parts, own.Parts)
		}
	})
	return done
}

// forget forgets the keys of c.
func (w *window) forget(c *core.Call) { w.do(c, core.OpReset, func(*core.Part) {}, nil) }

// portion is a part of N: a share, or one of so many replicas, exactly.
type portion struct {
	share    float64
	replicas int64
}

// portion returns this instance's part. A share that is not a number is taken for 1.
func (w *window) portion() portion {
	if w.share == nil {
		return portion{1, w.replicas}
	}
	share := w.share()
	if share <= 0 {
		return portion{0, 1}
	}
	if share < 1 {
		return portion{share, 1}
	}
	return portion{1, 1}
}

func (p portion) of(n int64) int64 {
	if p.share == 1 {
		return n / p.replicas
	}
	return int64(float64(n) * p.share)
}

// quota returns the units of a limit that this instance may admit: its part, but at
// least one, and no less than the request at hand, which could never pass otherwise:
// it does so when nothing else is counted.
func quota(n, cost int64, part portion) int64 {
	own := max(part.of(n), 1)
	if cost > own && cost <= n {
		return cost
	}
	return own
}
