package core

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"sync/atomic"

	"github.com/slidegate/slidegate/keyfunc"
)

// Reservation is a request that was admitted before its final cost is known:
// its units count in full from the moment of Reserve, until Commit, Correct or
// Cancel says what becomes of them, or until they lapse, a window after they
// were taken. It ends once; a second end is ErrEnded and does nothing, so that
//
//	defer r.Cancel(ctx)
//
// is safe after a Commit, and with the context of a request that is over: an end
// is carried out even if ctx has ended. The methods may be called by several
// goroutines, and on a nil Reservation.
//
// It is not the reservation of golang.org/x/time/rate, which books a turn in
// the future: to wait for a turn, use Limiter.Wait.
type Reservation struct {
	limiter *Limiter
	id      ReservationID
	cost    int64
	parts   []reservedPart
	ended   atomic.Bool
}

type reservedPart struct {
	key keyfunc.Key // sealed
	at  Instant
}

// Reserve is AllowN for a cost that is not final yet. The Reservation is nil
// unless the decision allowed the request and counted it (under the policy Open,
// a request may pass uncounted).
//
// n should be the most that the request can come to: what is corrected upward
// afterwards is counted even above the limit, and worked off before anything
// else is admitted.
func (l *Limiter) Reserve(ctx context.Context, key keyfunc.Key, n int64, own ...LimitKey) (*Reservation, Decision, error) {
	var d Decision
	c := l.call(OpReserve, n)
	defer l.calls.Put(c)
	c.ID = newReservationID()
	if err := l.address(c, key, own); err != nil {
		return nil, d, err
	}
	if err := l.decide(ctx, c, &d); err != nil || !d.Allowed || d.Reason == Undecided {
		return nil, d, err
	}
	r := &Reservation{limiter: l, id: c.ID, cost: n, parts: make([]reservedPart, len(c.Parts))}
	for i := range c.Parts {
		r.parts[i] = reservedPart{c.Parts[i].Key, c.Parts[i].At}
	}
	return r, d, nil
}

func newReservationID() (id ReservationID) {
	binary.LittleEndian.PutUint64(id[:], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	return id
}

// Commit makes the units final: they count as made now.
func (r *Reservation) Commit(ctx context.Context) error {
	if r == nil {
		return ErrEnded
	}
	return r.end(ctx, OpCommit, r.cost)
}

// Correct makes the reservation final at another cost, 0 to MaxUnits: fewer
// units give the rest back; more are counted even above the limit. Of a
// reservation that has lapsed, only what exceeds it is counted.
func (r *Reservation) Correct(ctx context.Context, cost int64) error {
	if r == nil {
		return ErrEnded
	}
	if cost < 0 || cost > MaxUnits {
		return &FieldError{Field: "cost", Value: strconv.FormatInt(cost, 10), Problem: "not a cost", Remedy: "use 0 to 999999999999999"}
	}
	return r.end(ctx, OpCorrect, cost)
}

// Cancel gives the units back, exactly those of this reservation.
func (r *Reservation) Cancel(ctx context.Context) error {
	if r == nil {
		return ErrEnded
	}
	return r.end(ctx, OpCancel, r.cost)
}

// end sends the end of the reservation, once: after an unclear reply it is not
// sent again, since it may have been carried out.
func (r *Reservation) end(ctx context.Context, op Op, cost int64) error {
	if r.limiter == nil || r.ended.Swap(true) {
		return ErrEnded
	}
	l := r.limiter
	c := l.call(op, cost)
	defer l.calls.Put(c)
	c.ID = r.id
	for i := range c.Parts {
		p := &c.Parts[i]
		p.Key, p.Reserved, p.ReservedAt = r.parts[i].key, r.cost, r.parts[i].at
	}
	// What was taken has to be settled, also when the request has ended that took
	// it. The budget bounds the wait instead.
	if err := l.do(context.WithoutCancel(ctx), c); err != nil {
		return err
	}
	for i := range c.Parts {
		if !c.Parts[i].Done {
			return ErrLapsed
		}
	}
	return nil
}
