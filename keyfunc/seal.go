package keyfunc

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"sync"
)

// MinSecret is the length in bytes of the shortest secret of a [Sealer].
const MinSecret = 16

// sealDomain separates sealed keys from other uses of the same secret.
const sealDomain = "slidegate sealed key v1\x00"

// Sealer turns keys into keys that say nothing to those who do not know its
// secret: without it, addresses and user names can be guessed and tried. Make
// one with [NewSealer]. It is safe for concurrent use.
type Sealer struct {
	states sync.Pool // of *sealState; empty and without New in the zero Sealer
}

// sealState is one running HMAC and the room for its input and output.
type sealState struct {
	mac hash.Hash
	buf [MaxBinary]byte
}

// NewSealer returns a Sealer with the given secret, which it copies. All
// instances that share counters need the same secret. The error is a
// [*FieldError] when the secret is shorter than [MinSecret] bytes.
func NewSealer(secret []byte) (*Sealer, error) {
	if len(secret) < MinSecret {
		return nil, &FieldError{
			Field:   "Secret",
			Value:   fmt.Sprintf("%d bytes", len(secret)),
			Problem: fmt.Sprintf("shorter than %d bytes", MinSecret),
			Remedy:  "use random bytes, the same for all instances, such as the output of: openssl rand 32",
		}
	}
	secret = bytes.Clone(secret)
	s := &Sealer{}
	s.states.New = func() any { return &sealState{mac: hmac.New(sha256.New, secret)} }
	return s, nil
}

// Seal returns the sealed form of k: 128 bits of HMAC-SHA-256 over its binary
// form. The kind stays readable; the rest is not. Equal keys are sealed alike
// by every Sealer with the same secret, and a sealed key never equals one that
// is not. The zero Key stays zero. A nil or zero Sealer has no secret, and
// returns k as it is. Sealing does not allocate in the long run.
func (s *Sealer) Seal(k Key) Key {
	if s == nil || k.IsZero() {
		return k
	}
	state, ok := s.states.Get().(*sealState)
	if !ok {
		return k
	}
	defer s.states.Put(state)
	state.mac.Reset()
	state.mac.Write(append(state.buf[:0], sealDomain...)) // a hash never returns an error
	state.mac.Write(k.appendBinary(state.buf[:0]))
	return Key{kind: k.kind, form: sealedForm, sum: [16]byte(state.mac.Sum(state.buf[:0]))}
}
