package keyfunc

// MaxBinary is the length in bytes of the longest binary form of a [Key].
const MaxBinary = 128

// ipv6Offset is added to the prefix length of an IPv6 network in the binary
// form, so that one byte tells the family too: 0 to 32 is IPv4.
const ipv6Offset = 33

// AppendBinary appends the canonical binary form of k to b: different keys
// have different forms, equal keys the same, in every process and version. It
// has 1 to [MaxBinary] bytes (an IPv4 address 6, an IPv6 one 18, a digest 17)
// and may hold any byte. It does not allocate when b has room. The error is
// always nil.
func (k Key) AppendBinary(b []byte) ([]byte, error) { return k.appendBinary(b), nil }

// appendBinary writes one byte of kind and form, and what these two call for.
func (k Key) appendBinary(b []byte) []byte {
	b = append(b, byte(k.kind)<<2|byte(k.form))
	if k.form == plainForm && k.kind == ipKind {
		return k.appendBinaryAddress(b)
	}
	if k.kind == headerKind && k.form != sealedForm {
		b = append(b, byte(len(k.name))) // at most maxHeaderName
		b = append(b, k.name...)
	}
	if k.form != plainForm {
		return append(b, k.sum[:]...)
	}
	return append(b, k.text...)
}

func (k Key) appendBinaryAddress(b []byte) []byte {
	prefix := k.prefix()
	if prefix.Addr().Is4() {
		b = append(b, byte(prefix.Bits()))
		return append(b, k.sum[12:]...)
	}
	b = append(b, byte(prefix.Bits()+ipv6Offset))
	return append(b, k.sum[:]...)
}
