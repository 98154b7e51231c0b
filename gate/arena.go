package gate

import (
	"encoding/binary"
	"unsafe"
)

// arena is append-only memory for what readers look at, in chunks so that it grows without moving. It holds no
// pointers, so the garbage collector scans nothing in it. The zero value has no room.
//
// A ref is where something starts, in units of granule bytes; 0 is nowhere. The writer appends, then publishes the ref
// by an atomic store; bytes behind a published ref never change again.
type arena struct {
	chunks []*chunk // the slice is as long as it will ever be
	used   int      // chunks
	free   int      // first free byte of the last chunk in use
}

const (
	granule   = 8
	chunkSize = 32 << 10
)

// maxChunks keeps every ref below shadowBit.
const maxChunks = shadowBit / (chunkSize / granule)

// newArena returns an arena with room for at least size bytes in pieces of up to maxRecord.
func newArena(size int) arena {
	return arena{chunks: make([]*chunk, min(2+size/(chunkSize-maxRecord), maxChunks))}
}

// room reports whether there is room for the largest record and the largest terms.
func (a *arena) room() bool {
	return a.used < len(a.chunks) || a.used > 0 && chunkSize-a.free >= maxRecord+maxTerms+2*granule
}

// chunk is aligned to granule: it is allocated as words.
type chunk [chunkSize]byte

// alloc returns n zero bytes and their ref. There must be room.
func (a *arena) alloc(n int) ([]byte, uint32) {
	n = (n + granule - 1) &^ (granule - 1)
	if a.used == 0 || a.free+n > chunkSize {
		if a.used == len(a.chunks) {
			panic("BUG: gate arena has no room")
		}
		a.chunks[a.used] = (*chunk)(unsafe.Pointer(new([chunkSize / granule]uint64)))
		a.used++
		a.free = 0
		if a.used == 1 {
			a.free = granule // so that no ref is 0
		}
	}
	at := (a.used-1)*chunkSize + a.free
	b := a.chunks[a.used-1][a.free : a.free+n : a.free+n]
	a.free += n
	return b, uint32(at / granule)
}

// bytes returns what starts at ref, with whatever follows it in its chunk.
func (a *arena) bytes(ref uint32) []byte {
	return a.chunks[ref/(chunkSize/granule)][ref%(chunkSize/granule)*granule:]
}

// size returns how many bytes the arena holds.
func (a *arena) size() int { return a.used * chunkSize }

// terms are what closures of one rule have in common. They are kept once for all callers closed on the same ones.
type terms struct {
	rule      string
	limit     int64
	window    int64 // nanoseconds
	partition int32
}

const (
	termsHead = 22
	maxRule   = 1024 // bytes of a rule's name
	maxTerms  = termsHead + maxRule
)

// putTerms appends terms and returns their ref.
func (a *arena) putTerms(t terms) uint32 {
	b, ref := a.alloc(termsHead + len(t.rule))
	binary.LittleEndian.PutUint64(b, uint64(t.limit))
	binary.LittleEndian.PutUint64(b[8:], uint64(t.window))
	binary.LittleEndian.PutUint32(b[16:], uint32(t.partition))
	binary.LittleEndian.PutUint16(b[20:], uint16(len(t.rule)))
	copy(b[termsHead:], t.rule)
	return ref
}

// terms returns the terms at the ref in a closure; the rule is in memory that never changes.
func (a *arena) terms(ref uint32) terms {
	b := a.bytes(ref &^ shadowBit)
	rule := b[termsHead:]
	return terms{
		limit:     int64(binary.LittleEndian.Uint64(b)),
		window:    int64(binary.LittleEndian.Uint64(b[8:])),
		partition: int32(binary.LittleEndian.Uint32(b[16:])),
		rule:      text(rule, int(binary.LittleEndian.Uint16(b[20:]))),
	}
}

// text returns the first n of some bytes that never change as a string, without copying them.
func text(b []byte, n int) string {
	return unsafe.String(unsafe.SliceData(b), n) // bytes behind a published ref never change
}
