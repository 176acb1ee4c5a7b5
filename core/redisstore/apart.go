package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/slidegate/slidegate/core"
)

// group is the parts of a call that one script can decide, with a call of their
// own.
type group struct {
	call    core.Call
	indices []int // of its parts in the whole call
	tag     string
	err     error
}

// groups divides a call by hash tag. They come in the order of their tags: all
// instances reserve in this order, so that of two requests for the same keys the
// one that is first at the first key is first at the others too.
func groups(c *core.Call) []group {
	var list []group
	for i := range c.Parts {
		x := &c.Parts[i]
		k := slices.IndexFunc(list, func(g group) bool { return sameTag(&g.call.Parts[0], x) })
		if k < 0 {
			k = len(list)
			g := group{call: *c, tag: x.Counter.Limiter + ":" + x.Key.String()}
			g.call.Parts = nil
			list = append(list, g)
		}
		list[k].call.Parts = append(list[k].call.Parts, *x)
		list[k].indices = append(list[k].indices, i)
	}
	slices.SortFunc(list, func(a, b group) int { return strings.Compare(a.tag, b.tag) })
	return list
}

// answerApart answers a call whose parts no single script can hold: what takes or
// reserves does so only if it all would pass, and gives back what it has when
// another request was quicker.
func (s *link) answerApart(ctx context.Context, c *core.Call) error {
	list := groups(c)
	var err error
	if c.Op == core.OpTake || c.Op == core.OpReserve {
		err = s.takeApart(ctx, c, list)
	} else {
		err = s.askAll(ctx, list)
	}
	if err != nil {
		return err
	}
	for _, g := range list {
		for k, i := range g.indices {
			c.Parts[i] = g.call.Parts[k]
		}
	}
	return nil
}

// askAll asks all groups at the same time.
func (s *link) askAll(ctx context.Context, list []group) error {
	var all sync.WaitGroup
	for i := range list {
		g := &list[i]
		all.Go(func() { g.err = s.ask(ctx, new(question), &g.call) })
	}
	all.Wait()
	var errs []error
	for _, g := range list {
		errs = append(errs, g.err)
	}
	return errors.Join(errs...)
}

// takeApart looks at all groups at once. If they would pass, it reserves in one
// after the other; the last group of a take takes at once, and the others commit.
func (s *link) takeApart(ctx context.Context, c *core.Call, list []group) error {
	for i := range list {
		list[i].call.Op = core.OpPeek
	}
	if err := s.askAll(ctx, list); err != nil {
		return err
	}
	for i := range list {
		if !admits(list[i].call.Parts) {
			return nil
		}
	}
	id := c.ID
	if c.Op == core.OpTake {
		_, _ = rand.Read(id[:]) // never fails: see crypto/rand
	}
	last := len(list) - 1
	for i := range list {
		g := &list[i]
		g.call.Op, g.call.ID = core.OpReserve, id
		if i == last {
			g.call.Op = c.Op
		}
		err := s.ask(ctx, new(question), &g.call)
		if err == nil && admits(g.call.Parts) {
			continue
		}
		if err != nil {
			// It may have been counted all the same.
			s.backOut(ctx, c, list[:i+1])
			return err
		}
		s.backOut(ctx, c, list[:i])
		return nil
	}
	if c.Op == core.OpTake {
		s.commit(ctx, list[:last])
	}
	return nil
}

// commit makes final what the groups have reserved. Where that fails the units
// count as they are until the reservation lapses, so the decision stands.
func (s *link) commit(ctx context.Context, list []group) {
	s.end(ctx, list, core.OpCommit)
}

// backOut gives back what the groups have reserved. Their limits had room, so the
// answers say that the cost fits, and what is used without it.
func (s *link) backOut(ctx context.Context, c *core.Call, list []group) {
	ctx, stop := bounded(context.WithoutCancel(ctx), c.Budget)
	defer stop()
	s.end(ctx, list, core.OpCancel)
}

// end ends what the groups have reserved, and takes over what is true after it.
func (s *link) end(ctx context.Context, list []group, op core.Op) {
	ends := make([]group, len(list))
	for i := range list {
		ends[i].call = *ending(&list[i].call, op)
	}
	_ = s.askAll(ctx, ends)
	for i := range ends {
		if ends[i].err == nil {
			adopt(list[i].call.Parts, ends[i].call.Parts, op)
		}
	}
}

// adopt takes over what is true after the end of a reservation. Parts that did not
// take the cost keep the answer they have; so does what lapsed before its commit,
// which counted from its taking for the window that it was asked for.
func adopt(parts, ended []core.Part, op core.Op) {
	for i := range parts {
		x, e := &parts[i], &ended[i]
		if !x.Done || op == core.OpCommit && !e.Done {
			continue
		}
		x.At, x.FitsAt, x.Used, x.OldestLeaves = e.At, e.At, e.Used, e.OldestLeaves
	}
}
