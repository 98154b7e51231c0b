package schemas

import (
	"encoding/binary"
	"math/bits"
)

// PartitionKey is the secret that spreads callers over partitions. All producers and analyzers of one installation
// share it; who does not know it cannot pick callers that fall into one partition.
// Methods are safe for concurrent use.
type PartitionKey [16]byte

// DefaultPartitionKey is public: set your own where callers are hostile.
func DefaultPartitionKey() PartitionKey { return PartitionKey([]byte("floodgate-public")) }

// Hash returns SipHash-2-4 (Aumasson and Bernstein, 2012) of kind, a zero byte, and id. Kinds hold no zero byte, so no
// two callers share an input.
func (k PartitionKey) Hash(kind, id string) uint64 {
	s := newSip(k)
	s.writeString(kind)
	s.writeByte(0)
	s.writeString(id)
	return s.sum()
}

// Fingerprint identifies the key without revealing it. Frames carry it, so that two parts of an installation which were
// given different keys find out.
func (k PartitionKey) Fingerprint() uint64 {
	s := newSip(k)
	s.writeString("floodgate partition key")
	return s.sum()
}

// Partition maps a hash to one of n partitions: hash mod n.
func Partition(hash uint64, n int) int { return int(hash % uint64(n)) } //nolint:gosec // n > 0, the result is < n

// sip is a streaming SipHash-2-4 without allocation.
type sip struct {
	v0, v1, v2, v3 uint64
	tail           uint64 // bytes not yet mixed, little-endian
	n              uint64 // bytes written
}

func newSip(k PartitionKey) sip {
	k0, k1 := binary.LittleEndian.Uint64(k[:8]), binary.LittleEndian.Uint64(k[8:])
	return sip{
		v0: k0 ^ 0x736f6d6570736575, v1: k1 ^ 0x646f72616e646f6d,
		v2: k0 ^ 0x6c7967656e657261, v3: k1 ^ 0x7465646279746573,
	}
}

func (s *sip) writeByte(b byte) {
	s.tail |= uint64(b) << (8 * (s.n & 7))
	s.n++
	if s.n&7 == 0 {
		s.block(s.tail)
		s.tail = 0
	}
}

func (s *sip) writeString(b string) {
	for len(b) > 0 && s.n&7 != 0 {
		s.writeByte(b[0])
		b = b[1:]
	}
	for len(b) >= 8 {
		m := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		s.block(m)
		s.n += 8
		b = b[8:]
	}
	for i := range len(b) {
		s.writeByte(b[i])
	}
}

func (s *sip) block(m uint64) {
	s.v3 ^= m
	s.round()
	s.round()
	s.v0 ^= m
}

func (s *sip) sum() uint64 {
	s.block(s.tail | s.n<<56)
	s.v2 ^= 0xff
	for range 4 {
		s.round()
	}
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}

func (s *sip) round() {
	s.v0 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
	s.v0 = bits.RotateLeft64(s.v0, 32)
	s.v2 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
	s.v0 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
	s.v2 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
	s.v2 = bits.RotateLeft64(s.v2, 32)
}
