package gate

import (
	"encoding/binary"
	"unsafe"
)

// arena is append-only memory for the closed callers that readers look at. It consists of chunks, so that it grows without
// moving. It holds no pointers, so the garbage collector scans nothing in it. The zero value has no room.
//
// A ref says where a value starts, in units of granule bytes; no value starts at ref 0. The writer appends a value, then
// publishes its ref by an atomic store. After that the bytes of the value never change.
type arena struct {
	chunks []*chunk // the length of the slice never changes
	used   int      // chunks
	free   int      // first free byte of the last chunk in use
}

const (
	granule   = 8
	chunkSize = 32 << 10
)

// maxChunks bounds the chunks, so that every ref is less than heldBit: the bits from there on are flags of a closure.
const maxChunks = heldBit / (chunkSize / granule)

// newArena returns an arena with room for at least size bytes in pieces of up to maxRecord.
func newArena(size int) arena {
	return arena{chunks: make([]*chunk, min(2+size/(chunkSize-maxClosedCaller), maxChunks))}
}

// room reports whether there is room for the largest closed caller, the largest terms and a share.
func (a *arena) room() bool {
	return a.used < len(a.chunks) || a.used > 0 && chunkSize-a.free >= maxClosedCaller+maxTerms+shareSize+2*granule
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

// bytes returns the chunk's bytes from ref on.
func (a *arena) bytes(ref uint32) []byte {
	return a.chunks[ref/(chunkSize/granule)][ref%(chunkSize/granule)*granule:]
}

// size returns how many bytes the arena holds.
func (a *arena) size() int { return a.used * chunkSize }

// terms are the properties that closures of one rule have in common. Callers that are closed on the same terms share them.
type terms struct {
	rule      string
	limit     int64
	window    int64 // nanoseconds
	partition int32
	counter   uint32 // of the rule: see refusals
	repeat    uint32 // the number of RepeatBegins before the decision was applied
}

const (
	termsHead = 30
	maxRule   = 1024 // bytes of a rule's name
	maxTerms  = termsHead + maxRule
)

// putTerms appends terms and returns their ref.
func (a *arena) putTerms(t terms) uint32 {
	b, ref := a.alloc(termsHead + len(t.rule))
	binary.LittleEndian.PutUint64(b, uint64(t.limit))
	binary.LittleEndian.PutUint64(b[8:], uint64(t.window))
	binary.LittleEndian.PutUint32(b[16:], uint32(t.partition))
	binary.LittleEndian.PutUint32(b[20:], t.counter)
	binary.LittleEndian.PutUint32(b[24:], t.repeat)
	binary.LittleEndian.PutUint16(b[28:], uint16(len(t.rule)))
	copy(b[termsHead:], t.rule)
	return ref
}

// terms returns the terms to which the field terms of a closure refers. The closure must not be a share. The rule's name lies in memory
// that never changes.
func (a *arena) terms(ref uint32) terms {
	b := a.bytes(ref &^ termBits)
	rule := b[termsHead:]
	return terms{
		limit:     int64(binary.LittleEndian.Uint64(b)),
		window:    int64(binary.LittleEndian.Uint64(b[8:])),
		partition: int32(binary.LittleEndian.Uint32(b[16:])),
		counter:   binary.LittleEndian.Uint32(b[20:]),
		repeat:    binary.LittleEndian.Uint32(b[24:]),
		rule:      text(rule, int(binary.LittleEndian.Uint16(b[28:]))),
	}
}

// text returns the first n bytes of b as a string, without copying them. The bytes never change.
func text(b []byte, n int) string {
	return unsafe.String(unsafe.SliceData(b), n) // bytes behind a published ref never change
}
