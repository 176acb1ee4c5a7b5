package core

import (
	"testing"

	"pgregory.net/rapid"
)

// sameTag returns ids that differ and yet have one tag.
func sameTag(family, member uint64) counterID { return counterID{family ^ member, member} }

func TestIndexFindsWhatIsInAndNothingElse(t *testing.T) {
	if tagOf(sameTag(7, 1)) != tagOf(sameTag(7, 2)) {
		t.Fatal("the ids of a family should have one tag")
	}
	ids := rapid.Custom(func(t *rapid.T) counterID {
		return sameTag(rapid.Uint64Range(0, 20).Draw(t, "family"), rapid.Uint64Range(1, 4).Draw(t, "member"))
	})
	rapid.Check(t, func(t *rapid.T) {
		sh := new(shard)
		in := map[counterID]*entry{}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				if id := ids.Draw(t, "id"); in[id] == nil {
					in[id] = sh.insert(id, keyEntry)
				}
			},
			"remove": func(t *rapid.T) {
				if id := ids.Draw(t, "id"); in[id] != nil {
					sh.remove(in[id])
					delete(in, id)
				}
			},
			"": func(t *rapid.T) {
				checkShard(t, sh)
				for family := range uint64(21) {
					for member := range uint64(5) {
						id := sameTag(family, member)
						if got := sh.entry(id); got != in[id] || got != nil && got.id != id {
							t.Fatalf("entry(%v) is %p, want %p", id, got, in[id])
						}
					}
				}
				if sh.live != len(in) || int(sh.index.used) != len(in) || 4*len(in) > 3*len(sh.index.slots) {
					t.Fatalf("live %d, in use %d of %d slots, want %d", sh.live, sh.index.used, len(sh.index.slots), len(in))
				}
			},
		})
	})
}

func TestOverflowCellsSpreadOverTheIndex(t *testing.T) {
	// Their ids differ in a few low bits: side by side they would make every
	// lookup that hits them walk past all.
	x := new(index)
	for i := range uint32(256) {
		x.insert(tagOf(counterID{99, 77 ^ uint64(i)}), i)
	}
	longest, run := 0, 0
	for _, s := range x.slots {
		if run++; s == 0 {
			run = 0
		}
		longest = max(longest, run)
	}
	if longest > 64 {
		t.Errorf("%d slots in a row are taken", longest)
	}
}

// checkShard makes sure that the parts of a shard agree.
func checkShard(t failer, sh *shard) {
	t.Helper()
	live, cells, extras := 0, 0, 0
	var logs []*log
	for i := range sh.made {
		e := sh.at(i)
		if e.state == freeEntry {
			continue
		}
		live++
		if e.state == cellEntry {
			cells++
		}
		if sh.entry(e.id) != e {
			t.Fatalf("entry %d is not found by its id", i)
		}
		logs = append(logs, &e.units)
		if x := sh.extra(e); x != nil {
			extras++
			logs = append(logs, &x.exact, &x.pending)
		}
	}
	free := 0
	for i := sh.free; i != 0; i = sh.at(i - 1).extra {
		if sh.at(i-1).state != freeEntry {
			t.Fatalf("entry %d is in use and in the list of free ones", i-1)
		}
		free++
	}
	if live != sh.live || cells != sh.cells || live+free != int(sh.made) || int(sh.index.used) != live {
		t.Fatalf("live %d, cells %d, free %d, indexed %d; the shard says %d, %d of %d", live, cells, free, sh.index.used, sh.live, sh.cells, sh.made)
	}
	if extras+len(sh.spare) != len(sh.extras) {
		t.Fatalf("%d extras in use and %d spare, of %d", extras, len(sh.spare), len(sh.extras))
	}
	checkBlocks(t, &sh.records, logs...)
}

// leaveLate is after all offsets of fillShard.
const leaveLate = 1_000_000

// fillShard makes keys 0 to n-1, each with i%5 records, and every seventh with
// an extra that has a reservation.
func fillShard(sh *shard, n int) {
	for i := range n {
		e := sh.insert(counterID{uint64(i), 5}, keyEntry)
		e.seen, e.leaves = Instant(i), leaveLate
		for k := range i % 5 {
			sh.records.add(&e.units, Instant(96+k), 1)
		}
		if i%7 == 0 {
			x := sh.needExtra(e)
			x.offset = Instant(i)
			x.open = []openReservation{{units: int64(i), lapses: 100}}
			sh.records.add(&x.exact, 99, 3)
			sh.records.add(&x.pending, 100, uint64(i)+1)
		}
	}
}

func TestShardShrinksAfterAFlood(t *testing.T) {
	sh := new(shard)
	const all = 20_000
	fillShard(sh, all)
	checkShard(t, sh)
	for i := range all {
		if i%100 != 0 {
			sh.entry(counterID{uint64(i), 5}).leaves = 10
		}
	}
	if keys := sh.sweep(all, 10); keys != all-all/100 {
		t.Fatalf("%d keys were forgotten, want %d", keys, all-all/100)
	}
	checkShard(t, sh)
	blocks, slots := len(sh.blocks), len(sh.index.slots)
	sh.shrink()
	checkShard(t, sh)
	if len(sh.blocks) > blocks/50 || len(sh.index.slots) > slots/50 || len(sh.extras) > all/100 {
		t.Errorf("a hundredth of the keys keep %d of %d blocks, %d of %d slots, %d extras", len(sh.blocks), blocks, len(sh.index.slots), slots, len(sh.extras))
	}
	if sh.records.held > 10_000 {
		t.Errorf("%d records are held for %d", sh.records.held, sh.records.used)
	}
	for i := 0; i < all; i += 100 {
		e := sh.entry(counterID{uint64(i), 5})
		if e == nil || e.seen != Instant(i) || e.leaves != leaveLate || e.state != keyEntry {
			t.Fatalf("key %d is %+v", i, e)
		}
		if got := sh.records.units(&e.units, 0); got != uint64(i%5) {
			t.Fatalf("key %d has %d units, want %d", i, got, i%5)
		}
		x := sh.extra(e)
		if (x != nil) != (i%7 == 0) {
			t.Fatalf("key %d has an extra: %t", i, x != nil)
		}
		if x == nil {
			continue
		}
		if x.offset != Instant(i) || len(x.open) != 1 || x.open[0].units != int64(i) ||
			sh.records.units(&x.exact, 0) != 3 || sh.records.units(&x.pending, 0) != uint64(i)+1 {
			t.Fatalf("the rest of key %d is %+v", i, x)
		}
	}
}

func TestShardPacksRecordsWhenKeysStayAndUnitsGo(t *testing.T) {
	sh := new(shard)
	for i := range 1000 {
		e := sh.insert(counterID{uint64(i), 5}, keyEntry)
		e.leaves = 1000
		for k := range 200 {
			sh.records.add(&e.units, Instant(k+1), 1)
		}
	}
	held := sh.records.held
	sh.shrink()
	if sh.records.held != held {
		t.Errorf("records in use were moved: %d held, before %d", sh.records.held, held)
	}
	for i := range 1000 {
		sh.records.drop(&sh.entry(counterID{uint64(i), 5}).units, 199)
	}
	sh.shrink()
	checkShard(t, sh)
	if sh.live != 1000 || sh.records.held > held/50 {
		t.Errorf("%d keys hold %d records, before %d", sh.live, sh.records.held, held)
	}
	for i := range 1000 {
		e := sh.entry(counterID{uint64(i), 5})
		if r := *sh.records.at(&e.units, 0); e.units.n != 1 || r.release != 200 || sh.records.units(&e.units, 0) != 1 {
			t.Fatalf("key %d has %d records, the first %+v", i, e.units.n, r)
		}
	}
}

func TestEmptyShardHoldsNothing(t *testing.T) {
	sh := new(shard)
	fillShard(sh, 300)
	if keys := sh.sweep(300, leaveLate); keys != 300 {
		t.Fatalf("%d of 300 idle keys were forgotten", keys)
	}
	checkShard(t, sh)
	sh.shrink()
	if sh.made != 0 || sh.blocks != nil || sh.index.slots != nil || sh.records.held != 0 || sh.extras != nil {
		t.Errorf("an empty shard holds %+v", sh)
	}
	if sh.entry(counterID{1, 5}) != nil || sh.sweep(10, leaveLate) != 0 {
		t.Error("an empty shard finds something")
	}
}

func TestSweepLooksAtEveryEntryOncePerRound(t *testing.T) {
	sh := new(shard)
	fillShard(sh, 100)
	sh.sweep(30, 0)
	for i := range 100 {
		sh.entry(counterID{uint64(i), 5}).leaves = 10
	}
	total := 0
	for _, n := range []int{50, 30, 20} {
		total += sh.sweep(n, 10)
	}
	if total != 100 || sh.live != 0 {
		t.Errorf("%d of 100 idle keys went in one round, %d stay", total, sh.live)
	}
}

func TestSweepHeedsTheTimeOfAKeyWhoseClockWasSetBack(t *testing.T) {
	sh := new(shard)
	e := sh.insert(counterID{1, 2}, keyEntry)
	e.leaves = 100
	sh.needExtra(e).offset = 40
	if sh.idle(e, 59) || !sh.idle(e, 60) {
		t.Error("a key whose time is 40 ahead is idle from 60 on, when its last unit leaves at 100")
	}
}
