package keyfunc_test

import (
	"hash/maphash"
	"math/bits"
	"net/netip"
	"strconv"
	"testing"

	"github.com/slidegate/slidegate/keyfunc"
)

// variety returns keys of all kinds and forms, many of the same text, none twice.
func variety(t *testing.T) []keyfunc.Key {
	sealer, err := keyfunc.NewSealer(make([]byte, keyfunc.MinSecret))
	if err != nil {
		t.Fatal(err)
	}
	keys := []keyfunc.Key{
		{}, keyfunc.NoAddress(), keyfunc.Method("GET"), keyfunc.User("GET"), keyfunc.Name("GET"), keyfunc.Route("GET"),
		keyfunc.APIKey("GET"), keyfunc.Header("X", "GET"), keyfunc.Header("Y", "GET"), keyfunc.Header("X", "get"),
	}
	long := string(make([]byte, 2*keyfunc.MaxText))
	keys = append(keys, keyfunc.User(long), keyfunc.Name(long), keyfunc.Header("X", long), keyfunc.Header("Y", long), keyfunc.Header(long, "x"))
	addr := netip.MustParseAddr("2001:db8::1")
	for n := range 129 {
		keys = append(keys, keyfunc.Subnet(netip.PrefixFrom(addr, n)))
	}
	for n := range 1000 {
		keys = append(keys, keyfunc.User(strconv.Itoa(n)), keyfunc.Name(strconv.Itoa(n)))
	}
	for _, k := range keys[1:] {
		keys = append(keys, sealer.Seal(k), keyfunc.Join(k), keyfunc.Join(k, k))
	}
	return keys
}

func TestHashTellsKeysApart(t *testing.T) {
	seed, other := maphash.MakeSeed(), maphash.MakeSeed()
	known, under := map[keyfunc.Key]bool{}, map[uint64]keyfunc.Key{}
	alike := 0
	for _, k := range variety(t) {
		if known[k] {
			t.Fatalf("%v is there twice", k)
		}
		known[k] = true
		h := k.Hash(seed)
		if before, taken := under[h]; taken {
			t.Errorf("%#v and %#v have one hash", before, k)
		}
		under[h] = k
		again := k
		if again.Hash(seed) != h {
			t.Errorf("%#v has two hashes", k)
		}
		alike += 64 - bits.OnesCount64(h^k.Hash(other))
	}
	// Under another seed, half of the bits are alike: the deviation of their mean is
	// 4 over the root of the number of keys.
	if mean := float64(alike) / float64(len(known)); mean < 31.5 || mean > 32.5 {
		t.Errorf("%.2f of 64 bits are alike under two seeds, want 32", mean)
	}
}

func TestHashSpreadsKeysThatDifferInLittle(t *testing.T) {
	seed := maphash.MakeSeed()
	const keys, cells = 64_000, 64
	// Of the lowest and the highest bits: those choose shards and pages.
	var low, high [cells]int
	for i := range keys {
		k := keyfunc.User(strconv.Itoa(i))
		h := k.Hash(seed)
		low[h%cells]++
		high[h>>58]++
	}
	for i := range cells {
		for _, n := range []int{low[i], high[i]} {
			if n < 750 || n > 1250 { // 1000 and eight deviations
				t.Errorf("%d of %d keys are in one of %d cells", n, keys, cells)
			}
		}
	}
}
