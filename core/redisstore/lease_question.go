package redisstore

import (
	_ "embed"
	"encoding/binary"

	"github.com/slidegate/slidegate/core"
)

// opLease ends a lease and begins the next: see lease.lua. Its calls come from a keeper,
// and use fields that takes do not:
//
//	ID                  of the lease that begins; that of the one that ends is the one before
//	Part.Reserved       units of the lease that ends, 0 if none does; answered: of the one that began
//	Part.Cost           those that were spent
//	Part.ReservedAt     the latest instant at which they may have been
//	Part.Used           the most units that the next may have, 0 if none is to begin
//	Part.OldestLeaves   how long it lasts, in µs
const opLease core.Op = 255

// before returns the id of the lease before the one with that id.
func before(id core.ReservationID) core.ReservationID {
	binary.BigEndian.PutUint64(id[8:], binary.BigEndian.Uint64(id[8:])-1)
	return id
}

func after(id core.ReservationID) core.ReservationID {
	binary.BigEndian.PutUint64(id[8:], binary.BigEndian.Uint64(id[8:])+1)
	return id
}

var (
	//go:embed lease.lua
	leaseLua    string
	leaseScript = newScript(counterLua + rareLua + leaseLua)
)

// putLease asks for what opLease says.
func (q *question) putLease(c *core.Call) {
	q.script = leaseScript
	q.putHex(before(c.ID))
	q.putHex(c.ID)
	q.putInt(c.Parts[0].Used)
	q.putInt(int64(c.Parts[0].OldestLeaves))
	for i := range c.Parts {
		x := &c.Parts[i]
		q.putInt(x.Reserved)
		q.putInt(x.Cost)
		q.putInt(int64(x.ReservedAt))
		q.putPart(x)
	}
}

// readLease reads how many units a lease has.
func readLease(heads, units []int64, c *core.Call) {
	readEnd(heads, units, c)
	for i := range c.Parts {
		x := &c.Parts[i]
		x.Reserved, x.Done = units[i], units[i] > 0
	}
}
