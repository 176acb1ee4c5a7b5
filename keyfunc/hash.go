package keyfunc

import "hash/maphash"

// Hash returns a hash of k that is keyed with seed, for tables in memory. Equal keys
// have equal hashes; whoever does not know the seed can neither foresee a hash nor
// find keys whose hashes collide. Hashes are good for the life of the process only.
//
// It does not allocate. The receiver is a pointer since copying a key takes as long
// as hashing it.
func (k *Key) Hash(seed maphash.Seed) uint64 {
	if k.name != "" {
		return k.hashBinary(seed)
	}
	// Keys of the same text or sum differ in the rest, which changes the hash by a
	// known amount: hashes that differ by that are as hard to find as equal ones.
	rest := uint64(k.kind)<<16 | uint64(k.form)<<8 | uint64(k.bits)
	rest *= 0x9E37_79B9_7F4A_7C15 // 2^64 over the golden ratio: every bit takes part
	if k.text != "" {
		return maphash.String(seed, k.text) ^ rest
	}
	return maphash.Bytes(seed, k.sum[:]) ^ rest
}

// hashBinary hashes the binary form, and with it the name of a header. It is apart
// since its buffer would make all hashes slower.
func (k *Key) hashBinary(seed maphash.Seed) uint64 {
	var buf [MaxBinary]byte
	return maphash.Bytes(seed, k.appendBinary(buf[:0]))
}
