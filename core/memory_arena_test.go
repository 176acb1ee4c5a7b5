package core

import (
	"slices"
	"testing"
)

// checkBlocks makes sure that every record of the arena lies in exactly one
// block, which is either free or the block of one of the logs, that its sums are
// right, and that no log has more storage than it may.
func checkBlocks(t failer, a *arena, logs ...*log) {
	t.Helper()
	owners := make([][]bool, len(a.chunks))
	held := 0
	for i, c := range a.chunks {
		owners[i] = make([]bool, len(c))
		held += len(c)
		if (c == nil) != slices.Contains(a.vacant, uint32(i)) {
			t.Fatalf("chunk %d is nil: %t, and in the list of vacant ones: %t", i, c == nil, c != nil)
		}
	}
	own := func(class uint8, at uint32) {
		for i := range capacity(class) {
			seen := &owners[(at+i)/chunkSize][(at+i)%chunkSize]
			if *seen {
				t.Fatalf("place %d is in two blocks", at+i)
			}
			*seen = true
		}
	}
	used, queues := 0, 0
	for _, l := range logs {
		blocks, class := []uint32{l.block}, l.class
		switch l.class {
		case 0:
			if l.n > 1 {
				t.Fatalf("a log without a block has %d records", l.n)
			}
			continue
		case longClass:
			queues++
			blocks, class = a.queues[l.block].blocks, maxClass
			if reach := (int(l.head)+int(l.n)-1)/maxBlock + 1; l.head >= maxBlock || len(blocks) > reach {
				t.Fatalf("a log from %d of %d records has %d blocks", l.head, l.n, len(blocks))
			}
		}
		if l.n < 2 || l.n-1 > uint32(len(blocks))*capacity(class) {
			t.Fatalf("%d records in %d blocks of class %d", l.n, len(blocks), class)
		}
		for _, b := range blocks {
			own(class, b)
			used += int(capacity(class))
		}
	}
	spares := 0
	for class := uint8(1); class <= maxClass; class++ {
		for at := a.free[class]; at != 0; at = uint32(a.place(at - 1).total) {
			own(class, at-1)
			if class == maxClass {
				spares++
			}
		}
	}
	for i := range owners {
		if k := slices.Index(owners[i], false); k >= 0 {
			t.Fatalf("place %d of chunk %d is in no block", k, i)
		}
	}
	if held != a.held || used != a.used || spares != a.spares || spares > spareBlock {
		t.Fatalf("held %d, used %d, spares %d; the arena says %d, %d, %d", held, used, spares, a.held, a.used, a.spares)
	}
	for _, i := range a.unused {
		if a.queues[i].blocks != nil {
			t.Fatalf("queue %d is unused and keeps %d blocks", i, len(a.queues[i].blocks))
		}
	}
	if len(a.queues)-len(a.unused) != queues {
		t.Fatalf("%d queues, %d of them unused, for %d long logs", len(a.queues), len(a.unused), queues)
	}
}

func TestGrowingLogNeverMovesMoreThanOneBlock(t *testing.T) {
	a := new(arena)
	var u logUnderTest
	u.fill(a, maxBlock+1) // what a single block holds is all that is ever moved
	if u.log.class != maxClass {
		t.Fatalf("%d records are of class %d, want %d", u.log.n, u.log.class, maxClass)
	}
	u.fill(a, 1)
	for range 20 * maxBlock {
		before := slices.Clone(a.queues[u.log.block].blocks)
		first := a.at(&u.log, 0)
		u.fill(a, 1)
		now := a.queues[u.log.block].blocks
		if !slices.Equal(now[:len(before)], before) || a.at(&u.log, 0) != first {
			t.Fatalf("at %d records, blocks %v became %v", u.log.n, before, now)
		}
	}
	// The same while old records leave.
	for range 4 * maxBlock {
		late := a.at(&u.log, u.log.n-2)
		a.drop(&u.log, 1)
		u.model = u.model[1:]
		if a.at(&u.log, u.log.n-2) != late {
			t.Fatal("dropping the first record moved one of the last")
		}
		u.fill(a, 1)
	}
	u.check(t, a)
	checkBlocks(t, a, &u.log)
}

func TestLongLogGivesItsMemoryBackWhileOthersStay(t *testing.T) {
	a := new(arena)
	var long, small logUnderTest
	small.fill(a, 3)
	long.fill(a, 1_000_000)
	if a.held < 1_000_000 {
		t.Fatalf("a million records are held in room for %d", a.held)
	}
	a.drop(&long.log, 999_990)
	long.model = long.model[999_990:]
	if most := 20 * chunkSize; a.held > most {
		t.Errorf("13 records hold room for %d, want at most %d", a.held, most)
	}
	long.check(t, a)
	small.check(t, a)
	checkBlocks(t, a, &long.log, &small.log)
	vacant := len(a.vacant)
	long.fill(a, 100*maxBlock)
	if used := vacant - len(a.vacant); used < 90 {
		t.Errorf("a hundred new blocks took %d of %d vacant chunks", used, vacant)
	}
	checkBlocks(t, a, &long.log, &small.log)
}

func TestLongLogGivesBlocksAtItsEndBack(t *testing.T) {
	a := new(arena)
	var u logUnderTest
	u.fill(a, 10*maxBlock)
	for u.log.n > 3*maxBlock+1 {
		if a.remove(&u.log, u.log.n-1, 1); u.log.n%97 == 0 {
			checkBlocks(t, a, &u.log)
		}
	}
	u.model = u.model[:u.log.n]
	u.check(t, a)
	if got := len(a.queues[u.log.block].blocks); got != 4 {
		t.Errorf("three blocks and a record lie in %d blocks, want 4", got)
	}
	u.fill(a, maxBlock)
	u.check(t, a)
	checkBlocks(t, a, &u.log)
}

func TestLongLogThatRollsOnTakesNoMemory(t *testing.T) {
	a := new(arena)
	var l log
	now := Instant(0)
	for range 20 * maxBlock {
		now++
		a.add(&l, now, 1)
	}
	// A block's worth at a time: its queue may move once in a while.
	if got := testing.AllocsPerRun(100, func() {
		for range maxBlock {
			now++
			a.drop(&l, 1)
			a.add(&l, now, 1)
		}
	}); got != 0 {
		t.Errorf("%v allocations per %d units that come and go", got, maxBlock)
	}
}
