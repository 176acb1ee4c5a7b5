package core

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

func TestEntriesAndShardsFillCacheLines(t *testing.T) {
	if size := unsafe.Sizeof(entry{}); size != 64 {
		t.Errorf("an entry has %d bytes, want 64", size)
	}
	if size := unsafe.Sizeof(shard{}); size%64 != 0 && strconv.IntSize == 64 {
		t.Errorf("a shard has %d bytes, want a multiple of 64", size)
	}
}

// TestTableFindsWhatIsInAndNothingElse draws ids of few hashes and few tags, so that
// many share a page and a place in it.
func TestTableFindsWhatIsInAndNothingElse(t *testing.T) {
	ids := rapid.Custom(func(t *rapid.T) counterID {
		return counterID{
			hash: uint64(rapid.Uint32Range(0, 3).Draw(t, "place"))<<30 | rapid.Uint64Range(0, 7).Draw(t, "member")<<32,
			tag:  rapid.Uint32Range(0, 7).Draw(t, "tag") << 29,
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		sh := new(shard)
		in := map[counterID]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				for range 40 {
					if id := ids.Draw(t, "id"); !in[id] {
						sh.insert(id, keyEntry).seen = Instant(id.hash) | Instant(id.tag)
						in[id] = true
					}
				}
			},
			"remove": func(t *rapid.T) {
				for range 20 {
					if id := ids.Draw(t, "id"); in[id] {
						sh.remove(sh.table.find(id))
						delete(in, id)
					}
				}
			},
			"": func(t *rapid.T) {
				checkShard(t, sh)
				for place := range uint64(4) {
					for member := range uint64(8) {
						for tag := range uint32(8) {
							id := counterID{place<<30 | member<<32, tag << 29}
							e := sh.table.find(id)
							if (e != nil) != in[id] || e != nil && (e.id() != id || e.seen != Instant(id.hash)|Instant(id.tag)) {
								t.Fatalf("%v is %+v, and should be there: %t", id, e, in[id])
							}
						}
					}
				}
				if sh.live != len(in) {
					t.Fatalf("live %d, want %d", sh.live, len(in))
				}
			},
		})
	})
}

// TestTableOfEqualTagsGrowsNoDirectory inserts what no split can share out.
func TestTableOfEqualTagsGrowsNoDirectory(t *testing.T) {
	sh := new(shard)
	const all = 5000
	for i := range uint64(all) {
		sh.insert(counterID{i * 0x9E37_79B9_7F4A_7C15, 5}, keyEntry)
	}
	checkShard(t, sh)
	if len(sh.table.dir) > 1<<maxDepth || sh.table.slots > 4*all {
		t.Errorf("%d slots, a directory of %d, for %d entries", sh.table.slots, len(sh.table.dir), all)
	}
	for i := range uint64(all) {
		if sh.table.find(counterID{i * 0x9E37_79B9_7F4A_7C15, 5}) == nil {
			t.Fatalf("entry %d is lost", i)
		}
	}
}

func TestTableIsWellFilledAtAnyNumberOfKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sh := new(shard)
	for n := 1; n <= 40_000; n++ {
		sh.insert(counterID{r.Uint64(), r.Uint32()}, keyEntry)
		if n >= 1000 && n%100 == 0 && 100*n < 48*sh.table.slots {
			t.Fatalf("%d slots for %d entries", sh.table.slots, n)
		}
	}
	checkShard(t, sh)
}

func TestOverflowCellsSpreadOverTheTable(t *testing.T) {
	// Their numbers differ in a few low bits: side by side they would make every
	// lookup that hits them walk past all.
	c := NewCounter("l", "1s", time.Second, Exact, 0)
	sh, seen := new(shard), map[counterID]bool{}
	for n := range uint64(overflowCells) {
		id := c.id(cellOf(n))
		seen[id] = true
		sh.insert(id, cellEntry)
	}
	checkShard(t, sh)
	if len(seen) != overflowCells {
		t.Fatalf("%d ids of %d cells", len(seen), overflowCells)
	}
	longest, run := 0, 0
	for _, p := range sh.table.pages {
		for i := range p.slots {
			if run++; p.slots[i].isFree() {
				run = 0
			}
			longest = max(longest, run)
		}
	}
	if longest > fullPage || sh.table.slots > 2*overflowCells {
		t.Errorf("%d slots in a row are taken, of %d", longest, sh.table.slots)
	}
}

// checkShard makes sure that the parts of a shard agree.
func checkShard(t failer, sh *shard) {
	t.Helper()
	live, cells, extras := 0, 0, 0
	var logs []*log
	for e := range sh.table.entries {
		live++
		if e.isCell() {
			cells++
		}
		if sh.table.find(e.id()) != e {
			t.Fatalf("the entry of %v is not found by its id", e.id())
		}
		logs = append(logs, &e.units)
		if x := sh.extra(e); x != nil {
			extras++
			logs = append(logs, &x.exact, &x.pending)
		}
	}
	if live != sh.live || cells != sh.cells {
		t.Fatalf("live %d, cells %d; the shard says %d, %d", live, cells, sh.live, sh.cells)
	}
	if extras+len(sh.spare) != len(sh.extras) {
		t.Fatalf("%d extras in use and %d spare, of %d", extras, len(sh.spare), len(sh.extras))
	}
	checkTable(t, &sh.table)
	checkBlocks(t, &sh.records, logs...)
}

// checkTable makes sure that the directory leads each prefix to the page of the
// entries that have it, and that the sums are right.
func checkTable(t failer, x *table) {
	t.Helper()
	slots, reached := 0, map[*page]int{}
	for prefix, to := range x.dir {
		p := to.page
		if reached[p]++; &to.slots[0] != &p.slots[0] || len(to.slots) != len(p.slots) {
			t.Fatalf("prefix %x leads to a page and to the slots of another", prefix)
		}
		for i := range p.slots {
			e := &p.slots[i]
			if bits := tagBits - int(p.depth); !e.isFree() && uint64(e.units.tag)>>bits != uint64(prefix)<<x.shift>>bits {
				t.Fatalf("the page of prefix %x holds tag %x", prefix, e.units.tag)
			}
		}
	}
	for k, p := range x.pages {
		used := 0
		for i := range p.slots {
			if !p.slots[i].isFree() {
				used++
			}
		}
		if used != int(p.used) || used == len(p.slots) {
			t.Fatalf("%d of %d slots of page %d are taken, it says %d", used, len(p.slots), k, p.used)
		}
		if want := 1 << (tagBits - x.shift - p.depth); reached[p] != want {
			t.Fatalf("%d prefixes lead to page %d of depth %d, want %d", reached[p], k, p.depth, want)
		}
		slots += len(p.slots)
	}
	if slots != x.slots || len(reached) != len(x.pages) {
		t.Fatalf("%d slots, %d pages in the directory; the table says %d, %d", slots, len(reached), x.slots, len(x.pages))
	}
}

// leaveLate is after all offsets of fillShard.
const leaveLate = 1_000_000

// testID returns one of many ids that differ everywhere.
func testID(i int) counterID {
	h := uint64(i+1) * 0x9E37_79B9_7F4A_7C15
	return counterID{h ^ h>>32, uint32(h >> 29)}
}

// leaveAt has the last unit of key i leave at t.
func leaveAt(sh *shard, i int, t Instant) {
	e := sh.table.find(testID(i))
	if x := sh.extra(e); x != nil {
		x.leaves = t
		return
	}
	for e.units.n > 1 {
		sh.records.retract(&e.units)
	}
	e.units.last.release, e.units.oldest = t, t
}

// fillShard makes keys 0 to n-1, each with i%5+1 records, and every seventh with
// an extra that has a reservation.
func fillShard(sh *shard, n int) {
	for i := range n {
		e := sh.insert(testID(i), keyEntry)
		e.seen = Instant(i)
		for k := range i%5 + 1 {
			sh.records.add(&e.units, Instant(leaveLate-4+k), 1)
		}
		if i%7 == 0 {
			x := sh.needExtra(e)
			x.leaves = leaveLate
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
			leaveAt(sh, i, 10)
		}
	}
	if keys := sh.sweep(sh.table.slots, 10); keys != all-all/100 {
		t.Fatalf("%d keys were forgotten, want %d", keys, all-all/100)
	}
	checkShard(t, sh)
	slots := sh.table.slots
	sh.shrink()
	checkShard(t, sh)
	if sh.table.slots > slots/50 || len(sh.extras) > all/100 {
		t.Errorf("a hundredth of the keys keep %d of %d slots, %d extras", sh.table.slots, slots, len(sh.extras))
	}
	if sh.records.held > 10_000 {
		t.Errorf("%d records are held for %d", sh.records.held, sh.records.used)
	}
	for i := 0; i < all; i += 100 {
		e := sh.table.find(testID(i))
		if e == nil || e.units.newest() < leaveLate-4 || e.isCell() {
			t.Fatalf("key %d is %+v", i, e)
		}
		if got := sh.records.units(&e.units, 0); got != uint64(i%5+1) {
			t.Fatalf("key %d has %d units, want %d", i, got, i%5+1)
		}
		x := sh.extra(e)
		if (x != nil) != (i%7 == 0) {
			t.Fatalf("key %d has an extra: %t", i, x != nil)
		}
		if x == nil {
			if e.seen != Instant(i) {
				t.Fatalf("key %d was seen at %d", i, e.seen)
			}
			continue
		}
		if x.seen != Instant(i) || x.leaves != leaveLate || x.offset != Instant(i) || len(x.open) != 1 || x.open[0].units != int64(i) ||
			sh.records.units(&x.exact, 0) != 3 || sh.records.units(&x.pending, 0) != uint64(i)+1 {
			t.Fatalf("the rest of key %d is %+v", i, x)
		}
	}
}

func TestShardPacksRecordsWhenKeysStayAndUnitsGo(t *testing.T) {
	sh := new(shard)
	for i := range 1000 {
		e := sh.insert(testID(i), keyEntry)
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
		sh.records.drop(&sh.table.find(testID(i)).units, 199)
	}
	sh.shrink()
	checkShard(t, sh)
	if sh.live != 1000 || sh.records.held > held/50 {
		t.Errorf("%d keys hold %d records, before %d", sh.live, sh.records.held, held)
	}
	for i := range 1000 {
		e := sh.table.find(testID(i))
		if r := *sh.records.at(&e.units, 0); e.units.n != 1 || r.release != 200 || sh.records.units(&e.units, 0) != 1 {
			t.Fatalf("key %d has %d records, the first %+v", i, e.units.n, r)
		}
	}
}

func TestEmptyShardHoldsNothing(t *testing.T) {
	sh := new(shard)
	fillShard(sh, 300)
	if keys := sh.sweep(sh.table.slots, leaveLate); keys != 300 {
		t.Fatalf("%d of 300 idle keys were forgotten", keys)
	}
	checkShard(t, sh)
	sh.shrink()
	if sh.table.slots != 0 || sh.table.pages != nil || sh.table.dir != nil || sh.records.held != 0 || sh.extras != nil {
		t.Errorf("an empty shard holds %+v", sh)
	}
	if sh.table.find(testID(1)) != nil || sh.sweep(10, leaveLate) != 0 {
		t.Error("an empty shard finds something")
	}
}

func TestSweepLooksAtEveryEntryOncePerRound(t *testing.T) {
	sh := new(shard)
	fillShard(sh, 100)
	sh.sweep(30, 0)
	for i := range 100 {
		leaveAt(sh, i, 10)
	}
	total := 0
	for slots := sh.table.slots; slots > 0; slots -= 10 {
		total += sh.sweep(10, 10)
	}
	if total != 100 || sh.live != 0 {
		t.Errorf("%d of 100 idle keys went in one round, %d stay", total, sh.live)
	}
}

func TestSweepHeedsTheTimeOfAKeyWhoseClockWasSetBack(t *testing.T) {
	sh := new(shard)
	e := sh.insert(counterID{1, 2}, keyEntry)
	sh.records.add(&e.units, 100, 1)
	sh.needExtra(e).offset = 40
	if sh.idle(e, 59) || !sh.idle(e, 60) {
		t.Error("a key whose time is 40 ahead is idle from 60 on, when its last unit leaves at 100")
	}
}
