package schemas

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// PartitionKey is the secret that spreads callers over partitions. All producers and analyzers of one installation
// share it. Without it, nobody can choose callers that all belong to one partition.
// Methods are safe for concurrent use.
type PartitionKey [16]byte

// DefaultPartitionKey is public: set your own where callers are hostile.
func DefaultPartitionKey() PartitionKey { return PartitionKey([]byte("floodgate-public")) }

// ErrPartitionKey says that a text is no partition key. Test with errors.Is.
var ErrPartitionKey = errors.New("bad partition key")

// ParsePartitionKey returns the key that text writes in 32 hexadecimal digits, with or without white space around them. A
// key of zeros is an error: the zero PartitionKey stands for no key at all. The error quotes nothing of the text.
func ParsePartitionKey(text string) (PartitionKey, error) {
	text = strings.TrimSpace(text)
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(PartitionKey{}) {
		return PartitionKey{}, fmt.Errorf("%w: got %d characters, want 32 hexadecimal digits", ErrPartitionKey, len(text))
	}
	k := PartitionKey(b)
	if k == (PartitionKey{}) {
		return PartitionKey{}, fmt.Errorf("%w: got zeros only, want random digits", ErrPartitionKey)
	}
	return k, nil
}

// Hash returns SipHash-2-4 (Aumasson and Bernstein, 2012) of kind, a zero byte, and id. Kinds hold no zero byte, so no
// two callers share an input.
func (k PartitionKey) Hash(kind, id string) uint64 {
	s, tail := newSip(k).write(0, 0, kind)
	n := len(kind)
	if n++; n&7 == 0 { // the zero byte needs no mixing in, but may complete a block
		s, tail = s.block(tail), 0
	}
	s, tail = s.write(tail, n, id)
	return s.sum(tail, n+len(id))
}

// Fingerprint identifies the key without revealing it. Frames carry it, so that an analyzer notices a producer with another key.
func (k PartitionKey) Fingerprint() uint64 {
	const text = "floodgate partition key"
	s, tail := newSip(k).write(0, 0, text)
	return s.sum(tail, len(text))
}

// Partition maps a hash to one of n partitions: hash mod n.
func Partition(hash uint64, n int) int { return int(hash % uint64(n)) }

// sip is the state of SipHash-2-4 between blocks of eight bytes. It is passed by value and has four words, so that the
// compiler keeps it in registers; the bytes that wait for a block to fill (tail) and their number travel beside it.
type sip struct{ v0, v1, v2, v3 uint64 }

func newSip(k PartitionKey) sip {
	k0, k1 := binary.LittleEndian.Uint64(k[:8]), binary.LittleEndian.Uint64(k[8:])
	return sip{
		v0: k0 ^ 0x736f6d6570736575, v1: k1 ^ 0x646f72616e646f6d,
		v2: k0 ^ 0x6c7967656e657261, v3: k1 ^ 0x7465646279746573,
	}
}

// write mixes b in after n bytes, of which the last n mod 8 are in tail, little-endian. It returns the new tail.
func (s sip) write(tail uint64, n int, b string) (sip, uint64) {
	used := 8 * (uint(n) & 7)
	for len(b) >= 8 {
		w := word(b)
		s = s.block(tail | w<<used)
		tail = w >> (64 - used) // all of it is shifted out where used is 0
		b = b[8:]
	}
	w := short(b)
	tail |= w << used
	if used+8*uint(len(b)) >= 64 {
		s, tail = s.block(tail), w>>(64-used)
	}
	return s, tail
}

// block mixes eight bytes of input in.
func (s sip) block(m uint64) sip {
	s.v3 ^= m
	s = s.round()
	s = s.round()
	s.v0 ^= m
	return s
}

// sum mixes in the last block, which is the up to seven bytes of tail and the length n of the input mod 256, and
// finishes.
func (s sip) sum(tail uint64, n int) uint64 {
	s = s.block(tail | uint64(n)<<56)
	s.v2 ^= 0xff
	s = s.round()
	s = s.round()
	s = s.round()
	s = s.round()
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}

func (s sip) round() sip {
	s.v0 += s.v1
	s.v2 += s.v3
	s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
	s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
	s.v2 += s.v1
	s.v0 = bits.RotateLeft64(s.v0, 32) + s.v3
	s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
	s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
	s.v2 = bits.RotateLeft64(s.v2, 32)
	return s
}

// word returns the first eight bytes of b, which has as many, little-endian. The compiler makes one load of it.
func word(b string) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// short returns the up to seven bytes of b, little-endian.
func short(b string) uint64 {
	var w uint64
	shift := uint(0)
	if len(b) >= 4 {
		w = uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24
		b, shift = b[4:], 32
	}
	if len(b) >= 2 {
		w |= (uint64(b[0]) | uint64(b[1])<<8) << shift
		b, shift = b[2:], shift+16
	}
	if len(b) == 1 {
		w |= uint64(b[0]) << shift
	}
	return w
}
