package redisstore

import "github.com/slidegate/slidegate/core"

// A cluster's slots are divided into 64 lanes of 256 slots, each with a breaker of its
// own, so that a master that is down does not keep others from being asked. Masters
// usually hold long runs of slots, so that most lanes lie on one of them.
const (
	slotBits = 14
	laneBits = 6
)

// lanes returns the lanes of a call as bits.
func lanes(c *core.Call) (all uint64) {
	for i := range c.Parts {
		if i == 0 || !sameTag(&c.Parts[i-1], &c.Parts[i]) {
			all |= 1 << laneOf(&c.Parts[i])
		}
	}
	return all
}

// laneOf returns the lane of a part's key, by its hash tag.
func laneOf(x *core.Part) int { return slotOf(x) >> (slotBits - laneBits) }

// slotOf returns the slot of a part's key, by its hash tag.
func slotOf(x *core.Part) int {
	var buf [128]byte
	return int(crc16(appendTag(buf[:0], x)) & (1<<slotBits - 1))
}

// crc16 is the checksum by which a cluster finds the slot of a key: CRC-16/XMODEM
// (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model).
func crc16(b []byte) (sum uint16) {
	for _, c := range b {
		sum = sum<<8 ^ crcTable[byte(sum>>8)^c]
	}
	return sum
}

var crcTable = func() (table [256]uint16) {
	for i := range table {
		sum := uint16(i) << 8
		for range 8 {
			if sum&0x8000 != 0 {
				sum = sum<<1 ^ 0x1021
			} else {
				sum <<= 1
			}
		}
		table[i] = sum
	}
	return table
}()
