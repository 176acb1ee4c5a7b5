package main

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/slidegate/slidegate/bench/internal/server"
	"github.com/slidegate/slidegate/core"
	"github.com/slidegate/slidegate/core/redisstore"
)

// stories are what happens to a key, one operation after the other; those that end
// a reservation end the last that was made.
var stories = [][]core.Op{
	{core.OpTake},
	{core.OpTake, core.OpTake, core.OpPeek},
	{core.OpPeek},
	{core.OpReserve},
	{core.OpReserve, core.OpCommit},
	{core.OpReserve, core.OpCorrect},
	{core.OpReserve, core.OpCancel},
	{core.OpReserve, core.OpCancel, core.OpReserve},
	{core.OpTake, core.OpReserve, core.OpCancel, core.OpTake},
	{core.OpTake, core.OpReset},
	{core.OpReserve, core.OpReset, core.OpCommit},
	{core.OpReserve, core.OpReset, core.OpTake},
	{core.OpReserve, core.OpReset, core.OpCorrect},
}

// expire tells all stories on windows of 1 s, and some again when their reservation
// has lapsed. It returns how many keys are left and how long after the last call,
// and waits for the last to go as long as a key may live, and 2 s for the server to
// notice.
func expire(ctx context.Context, s *server.Server) (int64, time.Duration, error) {
	if err := s.FlushDB(ctx).Err(); err != nil {
		return 0, 0, err
	}
	store, err := redisstore.New(s.Client, redisstore.Logger(server.Quiet), redisstore.NoRefusalCache())
	if err != nil {
		return 0, 0, err
	}
	calls, err := tell(ctx, store)
	if err != nil {
		return 0, 0, err
	}
	if size, err := s.DBSize(ctx).Result(); err != nil || size == 0 {
		return 0, 0, errors.Join(err, errors.New("the calls left no key from the start"))
	}
	if err := pause(ctx, 1200*time.Millisecond); err != nil {
		return 0, 0, err
	}
	for i, c := range calls {
		if i%2 == 1 {
			c.Op = core.OpCommit // comes too late, or for the second time
			if err := store.Do(ctx, c); err != nil {
				return 0, 0, err
			}
		}
	}
	for from := time.Now(); ; {
		size, err := s.DBSize(ctx).Result()
		if took := time.Since(from); err != nil || size == 0 || took > 5*time.Second {
			return size, took, err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return 0, 0, err
		}
	}
}

// tell makes the calls of all stories, and returns the last call of each key.
func tell(ctx context.Context, store core.Store) ([]*core.Call, error) {
	var calls []*core.Call
	var id uint64
	for _, k := range kinds {
		for _, story := range stories {
			c := &core.Call{Parts: []core.Part{k.part(100+len(calls), 10, time.Second)}}
			calls = append(calls, c)
			for _, op := range story {
				c.Op, c.Parts[0].Cost = op, 1
				if op == core.OpReserve {
					id++
					binary.BigEndian.PutUint64(c.ID[:], id)
				}
				if op == core.OpCorrect {
					c.Parts[0].Cost = 3
				}
				if err := store.Do(ctx, c); err != nil {
					return nil, err
				}
				if op == core.OpReserve {
					c.Parts[0].Reserved, c.Parts[0].ReservedAt = 1, c.Parts[0].At
				}
			}
		}
	}
	return calls, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
