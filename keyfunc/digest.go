package keyfunc

import (
	"crypto/sha256"
	"hash"
)

// digestDomain separates the digests of keys from SHA-256 digests made for
// any other purpose. Changing it makes every stored digest another key.
const digestDomain = "slidegate key digest v1\x00"

// digest returns 128 bits of SHA-256 over a kind, a name and a text. Half of
// SHA-256 keeps collisions out of reach (2^64 work) at half the storage.
func digest(k kind, name, text string) [16]byte {
	var h hasher
	h.begin(k)
	h.addLen(len(name))
	h.addString(name)
	h.addString(text)
	return h.sum()
}

// hasher is SHA-256 that does not allocate for inputs of ordinary size: they
// are gathered in an array and hashed at once. Beyond that it streams.
type hasher struct {
	buf    [512]byte
	n      int
	stream hash.Hash // nil until buf has overflowed
	chunk  []byte    // what stream reads: buf itself would move to the heap
}

func (h *hasher) begin(k kind) {
	h.addString(digestDomain)
	h.addByte(byte(k))
}

// addPart adds b after its length, so that parts cannot run into each other.
func (h *hasher) addPart(b []byte) {
	h.addLen(len(b))
	for len(b) > 0 {
		if h.n == len(h.buf) {
			h.flush()
		}
		n := copy(h.buf[h.n:], b)
		h.n += n
		b = b[n:]
	}
}

func (h *hasher) addString(s string) {
	for len(s) > 0 {
		if h.n == len(h.buf) {
			h.flush()
		}
		n := copy(h.buf[h.n:], s)
		h.n += n
		s = s[n:]
	}
}

func (h *hasher) addLen(n int) {
	for ; n >= 0x80; n >>= 7 {
		h.addByte(byte(n) | 0x80)
	}
	h.addByte(byte(n))
}

func (h *hasher) addByte(c byte) {
	if h.n == len(h.buf) {
		h.flush()
	}
	h.buf[h.n] = c
	h.n++
}

func (h *hasher) flush() {
	if h.stream == nil {
		h.stream = sha256.New()
		h.chunk = make([]byte, len(h.buf))
	}
	n := copy(h.chunk, h.buf[:h.n])
	h.stream.Write(h.chunk[:n]) // a hash never returns an error
	h.n = 0
}

// sum ends the input and returns the first 128 bits of the digest.
func (h *hasher) sum() [16]byte {
	if h.stream == nil {
		full := sha256.Sum256(h.buf[:h.n])
		return [16]byte(full[:])
	}
	h.flush()
	return [16]byte(h.stream.Sum(nil))
}
