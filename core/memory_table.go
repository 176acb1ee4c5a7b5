package core

// table finds the entries of a shard by their ids, and holds them: a hash table
// that grows a page at a time (extendible hashing: Fagin, Nievergelt, Pippenger,
// Strong, ACM TODS 4.3, 1979). What is looked up lies where it is found, so that
// a lookup waits for memory once; and no insertion moves more than one page.
//
// An insertion or a removal may move other entries of its page: pointers to
// entries hold until then.
type table struct {
	dir   []direction // by prefix of a tag
	shift uint8       // tag >> shift is the prefix
	pages []*page
	slots int // of all pages
}

// direction leads to a page, and to its slots without a look at the page.
type direction struct {
	slots []entry
	page  *page
}

// page is a hash table with linear probing. Its entries have the first depth bits
// of their tags in common.
type page struct {
	slots []entry // at most three quarters in use
	used  uint32
	depth uint8
}

const (
	tagBits   = 32
	firstPage = 4 // entries in the first page: a store of few keys stays small
	// fullPage is how many entries a page has that splits rather than grow: 16 KiB,
	// which takes a few microseconds, and makes the directory small enough to be at
	// hand.
	fullPage = 256
	// maxDepth bounds the directory, should many tags be alike. Pages then grow on.
	maxDepth = 20
)

// nextSize returns the size of the page after one of n slots. There is one between
// half a page and a full one, for the halves of a page that was split.
func nextSize(n int) int {
	if n == fullPage/2 {
		return fullPage / 4 * 3
	}
	if n == fullPage/4*3 {
		return fullPage
	}
	return 2 * n
}

// sizeFor returns the size of a page that holds n entries and some more.
func sizeFor(n int) int {
	size := firstPage
	for n > size/8*5 {
		size = nextSize(size)
	}
	return size
}

func (p *page) full() bool { return int(p.used) >= len(p.slots)/4*3 }

// home returns the slot where an entry with the hash is looked for first.
func home(slots []entry, hash uint64) int {
	return int(uint64(uint32(hash)) * uint64(len(slots)) >> 32)
}

// next returns the slot after slot i.
func next(slots []entry, i int) int {
	if i++; i < len(slots) {
		return i
	}
	return 0
}

// at returns the direction of a tag. There is at least one.
func (t *table) at(tag uint32) *direction { return &t.dir[uint64(tag)>>(t.shift&63)] }

// find returns the entry of id, nil if there is none.
func (t *table) find(id counterID) *entry {
	if len(t.dir) == 0 {
		return nil
	}
	slots := t.at(id.tag).slots
	for i := home(slots, id.hash); ; i = next(slots, i) {
		e := &slots[i]
		if e.isFree() {
			return nil
		}
		if e.hash == id.hash && e.units.tag == id.tag {
			return e
		}
	}
}

// insert makes an empty entry for an id that is not in the table.
func (t *table) insert(id counterID, state entryState) *entry {
	if len(t.dir) == 0 {
		p := &page{slots: make([]entry, firstPage)}
		*t = table{dir: []direction{{p.slots, p}}, shift: tagBits, pages: []*page{p}, slots: firstPage}
	}
	p := t.at(id.tag).page
	for p.full() {
		t.extend(p, id.tag)
		p = t.at(id.tag).page
	}
	p.used++
	e := p.vacancy(id.hash)
	*e = entry{hash: id.hash, units: log{tag: id.tag, state: state}}
	return e
}

// vacancy returns the free slot for an entry with the hash.
func (p *page) vacancy(hash uint64) *entry {
	i := home(p.slots, hash)
	for !p.slots[i].isFree() {
		i = next(p.slots, i)
	}
	return &p.slots[i]
}

// extend makes room in p, the page of tag.
func (t *table) extend(p *page, tag uint32) {
	old := p.slots
	if len(old) >= fullPage && p.depth < maxDepth {
		t.split(p, tag)
	} else {
		t.renew(p, nextSize(len(old)))
		for i := range old {
			p.adopt(&old[i])
		}
		t.point(p, tag)
	}
	t.slots -= len(old)
}

// point has all prefixes of p, the page of tag, lead there.
func (t *table) point(p *page, tag uint32) {
	bits := tagBits - p.depth // those of a tag that differ within the page
	first := uint64(tag) >> bits << bits >> t.shift
	for i := range uint64(1) << (bits - t.shift) {
		t.dir[first+i] = direction{p.slots, p}
	}
}

// renew gives p that many free slots.
func (t *table) renew(p *page, size int) {
	p.slots, p.used = make([]entry, size), 0
	t.slots += size
}

// adopt takes in an entry that lay elsewhere, unless it is free.
func (p *page) adopt(e *entry) {
	if !e.isFree() {
		*p.vacancy(e.hash) = *e
		p.used++
	}
}

// split shares the entries of p, the page of tag, with a new page, by one more bit
// of their tags.
func (t *table) split(p *page, tag uint32) {
	if p.depth == tagBits-t.shift {
		t.widen()
	}
	old, bit := p.slots, tagBits-1-p.depth
	var count [2]int
	for i := range old {
		if e := &old[i]; !e.isFree() {
			count[e.units.tag>>bit&1]++
		}
	}
	halves := [2]*page{p, {depth: p.depth + 1}}
	p.depth++
	for i, half := range halves {
		t.renew(half, sizeFor(count[i]))
	}
	for i := range old {
		halves[old[i].units.tag>>bit&1].adopt(&old[i])
	}
	t.pages = append(t.pages, halves[1])
	t.point(halves[0], tag&^(1<<bit))
	t.point(halves[1], tag|1<<bit)
}

// widen makes the directory tell tags apart by one more bit.
func (t *table) widen() {
	dir := make([]direction, 2*len(t.dir))
	for i := range dir {
		dir[i] = t.dir[i/2]
	}
	t.dir = dir
	t.shift--
}

// remove takes an entry out, and closes the gap: entries behind it move up as
// long as that brings none before where it belongs.
func (t *table) remove(e *entry) {
	p := t.at(e.units.tag).page
	slots := p.slots
	gap := home(slots, e.hash)
	for &slots[gap] != e {
		gap = next(slots, gap)
	}
	for i := next(slots, gap); !slots[i].isFree(); i = next(slots, i) {
		if distance(slots, home(slots, slots[i].hash), i) >= distance(slots, gap, i) {
			slots[gap], gap = slots[i], i
		}
	}
	slots[gap] = entry{}
	p.used--
}

// distance returns how many steps from slot i lead to slot k.
func distance(slots []entry, i, k int) int {
	if k < i {
		k += len(slots)
	}
	return k - i
}

// entries walks all entries.
func (t *table) entries(yield func(*entry) bool) {
	for _, p := range t.pages {
		slots := p.slots
		for i := range slots {
			if !slots[i].isFree() && !yield(&slots[i]) {
				return
			}
		}
	}
}
