package gate

import (
	"encoding/binary"
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

// arena is append-only memory for what readers look at, in chunks so that it grows without moving. It holds no
// pointers, so the garbage collector scans nothing in it. The zero value has no room.
//
// A ref is where something starts, in units of granule bytes; 0 is nowhere. The writer appends, then publishes the ref
// by an atomic store; bytes behind a published ref never change again.
type arena struct {
	chunks []*[chunkSize]byte // the slice is as long as it will ever be
	used   int                // chunks
	free   int                // first free byte of the last chunk in use
}

const (
	granule   = 8
	chunkSize = 64 << 10
)

// maxChunks keeps every ref below shadowBit.
const maxChunks = shadowBit / (chunkSize / granule)

// newArena returns an arena with room for at least size bytes in pieces of up to a tenth of a chunk.
func newArena(size int) arena {
	return arena{chunks: make([]*[chunkSize]byte, min(2+size/(chunkSize/10*9), maxChunks))}
}

// room reports whether there is room for the largest record and the largest terms.
func (a *arena) room() bool {
	return a.used < len(a.chunks) || a.used > 0 && chunkSize-a.free >= maxRecord+maxTerms+2*granule
}

// alloc returns n zero bytes and their ref. There must be room.
func (a *arena) alloc(n int) ([]byte, uint32) {
	n = (n + granule - 1) &^ (granule - 1)
	if a.used == 0 || a.free+n > chunkSize {
		if a.used == len(a.chunks) {
			panic("BUG: gate arena has no room")
		}
		a.chunks[a.used] = new([chunkSize]byte)
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

// record is one caller and its closures as the arena holds them, little-endian:
//
//	bytes 0, 1   tag of the caller
//	bytes 2, 3   length of the key
//	…            the key
//	1 byte       n, closures
//	n × 20       closures: terms u32 (the top bit says shadow), closeAt i64, until i64, in Unix nanoseconds
//	…            of an address: its text, after a byte that says how long it is
type record []byte

const (
	recordHead  = 4
	closureSize = 20
	maxClosures = 255
	maxAddrText = 39 // eight groups of four digits and seven colons
	maxRecord   = recordHead + schemas.MaxCallerID + 1 + maxClosures*closureSize + 1 + maxAddrText
	shadowBit   = 1 << 31
)

// closure is one rule's closing of one caller. until includes the jitter.
type closure struct {
	terms   uint32 // ref of the terms, and shadowBit
	closeAt int64
	until   int64
}

func (c closure) shadow() bool          { return c.terms&shadowBit != 0 }
func (c closure) covers(now int64) bool { return c.closeAt <= now && now < c.until }

func (r record) tag() uint16 { return binary.LittleEndian.Uint16(r) }

// gate returns the index of the gate.
func (r record) gate() uint8 { return uint8(r.tag() >> 1) }

func (r record) keyLen() int { return int(binary.LittleEndian.Uint16(r[2:])) }

// key returns the caller's key, in memory that never changes and may be kept.
func (r record) key() string { return text(r[recordHead:], r.keyLen()) }

// is reports whether the record is about this caller: the whole key is compared.
func (r record) is(tag uint16, key string) bool {
	return binary.LittleEndian.Uint32(r) == uint32(tag)|uint32(len(key))<<16 && text(r[recordHead:], len(key)) == key
}

// len returns how many closures there are; nil has none.
func (r record) len() int {
	if r == nil {
		return 0
	}
	return int(r[recordHead+r.keyLen()])
}

// closures returns the closures as they are in memory.
func (r record) closures() closures {
	at := recordHead + r.keyLen()
	return closures(r[at+1:][:int(r[at])*closureSize])
}

func (r record) closure(i int) closure { return r.closures().at(i) }

// id returns the caller's id, in memory that never changes and may be kept.
func (r record) id() string {
	if r.tag()&addrTag == 0 {
		return r.key()
	}
	b := r[recordHead+r.keyLen()+1+r.len()*closureSize:]
	return text(b[1:], int(b[0]))
}

// size returns how many bytes of the arena the record takes.
func (r record) size() int {
	n := recordHead + r.keyLen() + 1 + r.len()*closureSize
	if r.tag()&addrTag != 0 {
		n += 1 + len(r.id())
	}
	return n
}

// closures are those of one record, end to end.
type closures []byte

func (cs closures) at(i int) closure {
	b := cs[i*closureSize:][:closureSize]
	return closure{
		terms:   binary.LittleEndian.Uint32(b),
		closeAt: int64(binary.LittleEndian.Uint64(b[4:])),
		until:   int64(binary.LittleEndian.Uint64(b[12:])),
	}
}

// subject is the caller of a record.
type subject struct {
	tag uint16
	key string
	id  string // the key, unless that is an address
}

func (r record) subject() subject { return subject{tag: r.tag(), key: r.key(), id: r.id()} }

// putRecord appends a record and returns its ref.
func (a *arena) putRecord(who subject, cs []closure) uint32 {
	size := recordHead + len(who.key) + 1 + len(cs)*closureSize
	if who.tag&addrTag != 0 {
		size += 1 + len(who.id)
	}
	b, ref := a.alloc(size)
	binary.LittleEndian.PutUint16(b, who.tag)
	binary.LittleEndian.PutUint16(b[2:], uint16(len(who.key)))
	at := recordHead + copy(b[recordHead:], who.key)
	b[at] = uint8(len(cs))
	at++
	for _, c := range cs {
		binary.LittleEndian.PutUint32(b[at:], c.terms)
		binary.LittleEndian.PutUint64(b[at+4:], uint64(c.closeAt))
		binary.LittleEndian.PutUint64(b[at+12:], uint64(c.until))
		at += closureSize
	}
	if who.tag&addrTag != 0 {
		b[at] = uint8(len(who.id))
		copy(b[at+1:], who.id)
	}
	return ref
}

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
