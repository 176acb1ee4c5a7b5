package redisstore

import (
	"fmt"
	"runtime/debug"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/keyfunc"
)

// bundle is the flights of a trip that one script can answer together: they ask the same
// of the same counters.
type bundle struct {
	flights []*flight
	calls   []*core.Call
	err     error
}

// counted is what tells bundles apart, mostly: the first part of a call.
type counted struct {
	op      core.Op
	key     keyfunc.Key
	counter *core.Counter
	n       int64
}

// carry has the server answer all flights of the trip. What happens to one bundle stays
// with it.
func (r *road) carry(t *trip) {
	ctx, stop := t.context()
	defer stop()
	t.bundle()
	bundles := t.bundles
	// Packed where that can be, and what a pack could not answer once more, by itself.
	for pack := len(bundles) > 1 && !r.link.apart.Load(); len(bundles) > 0; pack = false {
		parcels := r.wrap(bundles, pack)
		r.send(ctx, parcels)
		bundles = nil
		for _, p := range parcels {
			bundles = append(bundles, r.open(p)...)
		}
	}
}

// wrap makes parcels of the bundles: packs of those for which there is a script that
// answers many, if pack says so, and of the others one each.
func (r *road) wrap(bundles []*bundle, pack bool) (parcels []*parcel) {
	var last *parcel
	for _, b := range bundles {
		if !pack || !packs(b.calls[0]) {
			parcels = append(parcels, &parcel{bundles: []*bundle{b}})
			continue
		}
		if last == nil || len(last.bundles) == mostPacked {
			last = &parcel{packed: true}
			parcels = append(parcels, last)
		}
		last.bundles = append(last.bundles, b)
	}
	for _, p := range parcels {
		p.err = guarded(func() error {
			if p.packed {
				p.question.putMany(r.link.prefix, p.bundles)
			} else {
				p.question.put(r.link.prefix, p.bundles[0].calls...)
			}
			return errNotSent
		})
	}
	return parcels
}

// open lands the bundles of a parcel, and returns those that have no answer yet.
func (r *road) open(p *parcel) (left []*bundle) {
	if p.packed && redis.HasErrorPrefix(p.err, "CROSSSLOT") {
		// Refused before it ran. Something in front of Redis divides the keys.
		r.link.apart.Store(true)
		return p.bundles
	}
	if p.err == nil {
		p.err = guarded(p.read)
	}
	for _, b := range p.bundles {
		if p.err == nil && b.err == errLeftAlone {
			b.err = nil
			left = append(left, b)
			continue
		}
		b.err = p.err
		r.land(b)
	}
	return left
}

// read fills the reply into the calls.
func (p *parcel) read() error {
	if p.packed {
		return readMany(p.reply, p.bundles)
	}
	return read(p.reply, p.bundles[0].calls...)
}

// guarded has f run, and makes an error of a panic in it: a client has hooks of the
// user's, and what they do to one call must not end the service.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("slidegate: panic while asking Redis: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// bundle puts together what can be answered together. Flights keep their order among
// those on the same counters.
func (t *trip) bundle() {
	t.spare, t.bundles = append(t.spare, t.bundles...), t.bundles[:0]
	if len(t.flights) == 1 {
		t.add(t.flights[0])
		return
	}
	if t.found == nil {
		t.found = make(map[counted]*bundle, len(t.flights))
	}
	clear(t.found)
	for _, f := range t.flights {
		if f.call.Op > core.OpPeek {
			t.add(f)
			continue
		}
		x := &f.call.Parts[0]
		id := counted{f.call.Op, x.Key, x.Counter, x.N}
		if b := t.found[id]; b != nil && sameCounters(b.calls[0], &f.call) {
			b.add(f)
			continue
		}
		t.found[id] = t.add(f)
	}
}

// add makes a bundle of a flight.
func (t *trip) add(f *flight) *bundle {
	var b *bundle
	if last := len(t.spare) - 1; last >= 0 {
		b, t.spare = t.spare[last], t.spare[:last]
		b.flights, b.calls, b.err = b.flights[:0], b.calls[:0], nil
	} else {
		b = new(bundle)
	}
	b.add(f)
	t.bundles = append(t.bundles, b)
	return b
}

func (b *bundle) add(f *flight) {
	b.flights = append(b.flights, f)
	b.calls = append(b.calls, &f.call)
}

// sameCounters reports whether two calls differ in nothing but their costs.
func sameCounters(c, d *core.Call) bool {
	if len(c.Parts) != len(d.Parts) {
		return false
	}
	for i := range c.Parts {
		x, y := &c.Parts[i], &d.Parts[i]
		if x.Counter != y.Counter || x.N != y.N || x.HotFrom != y.HotFrom || x.Watched != y.Watched || x.Key != y.Key {
			return false
		}
	}
	return true
}

// land brings the answer of a bundle to those who wait for it.
func (r *road) land(b *bundle) {
	if b.err != nil && r.leadsElsewhere(b) {
		return
	}
	for _, f := range b.flights {
		r.link.land(f, b.err)
	}
}
