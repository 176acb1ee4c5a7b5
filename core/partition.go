package core

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/slidegate/slidegate/keyfunc"
)

const (
	partitionBytes = 12
	partitionLen   = partitionBytes / 3 * 4 // in base64, without padding
)

// appendPartitionKey appends what tells clients which of their keys was counted: the
// first bytes of a digest, in base64. The key itself may be a secret, or somebody's
// address. The prefix keeps the digest apart from those of keyfunc.
func appendPartitionKey(b []byte, k keyfunc.Key) []byte {
	var buf [96]byte
	text, _ := k.AppendBinary(append(buf[:0], "slidegate partition\x00"...))
	sum := sha256.Sum256(text)
	return base64.StdEncoding.AppendEncode(b, sum[:partitionBytes])
}

// partitionKeys keeps the keys of a call for the headers.
func (v *Verdict) partitionKeys(c *Call) {
	v.keys = make([]byte, 0, len(c.Parts)*partitionLen)
	for i := range c.Parts {
		v.keys = appendPartitionKey(v.keys, c.Parts[i].Key)
	}
}

// keyOf returns the partition key of a limit, or nil.
func (v *Verdict) keyOf(i int) []byte {
	if v.keys == nil {
		return nil
	}
	return v.keys[i*partitionLen : (i+1)*partitionLen]
}
