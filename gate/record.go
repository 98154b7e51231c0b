package gate

import (
	"encoding/binary"
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

// record is one caller and its closures as the arena holds them. Behind what every record has come, without padding:
//
//	the key
//	1 byte       closures but the first
//	n × 20       these: terms u32, closeAt i64, until i64, little-endian
//	…            of an address: its text, after a byte that says how long it is
//
// Nothing of it changes once its ref is published. Records exist in an arena only.
type record struct {
	who     uint32 // tag of the caller, and from bit 16 on the length of the key
	terms   uint32 // of the first closure, as the rest: the one that matters most
	closeAt int64
	until   int64
}

const (
	recordHead  = int(unsafe.Sizeof(record{}))
	closureSize = 20
	maxClosures = 255
	maxAddrText = 39 // eight groups of four digits and seven colons
	maxRecord   = recordHead + schemas.MaxCallerID + 1 + (maxClosures-1)*closureSize + 1 + maxAddrText
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

// subject is the caller of a record. Its tag is the index of its gate, with addrTag if it is an address.
type subject struct {
	tag uint32
	key string
	id  string // the key, unless that is an address
}

// addrTag is set in the tag of an address.
const addrTag = 1 << 8

// who returns the first word of the record of a caller.
func who(tag uint32, key string) uint32 { return tag | uint32(len(key))<<16 }

// is reports whether the record is about this caller: the whole key is compared.
func (r *record) is(who uint32, key string) bool { return r.who == who && r.same(key) }

// same reports whether the record's key is this one, which is as long. It is what a comparison of strings does, in line.
func (r *record) same(key string) bool {
	n := len(key)
	if n < 8 {
		return r.text(recordHead, n) == key
	}
	a, b := unsafe.Add(unsafe.Pointer(r), recordHead), unsafe.Pointer(unsafe.StringData(key))
	for i := 0; i < n-8; i += 8 {
		if load8(a, i) != load8(b, i) {
			return false
		}
	}
	return load8(a, n-8) == load8(b, n-8)
}

func load8(p unsafe.Pointer, at int) uint64 {
	return binary.NativeEndian.Uint64((*[8]byte)(unsafe.Add(p, at))[:])
}

// gate returns the index of the gate.
func (r *record) gate() uint8 { return uint8(r.who) }

func (r *record) addr() bool { return r.who&addrTag != 0 }

// key returns the caller's key, in memory that never changes and may be kept.
func (r *record) key() string { return r.text(recordHead, int(r.who>>16)) }

// text returns n bytes of the record as a string, without copying them.
func (r *record) text(from, n int) string {
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(r), from)), n) // the arena put them there
}

// bytes returns n bytes of the record, which nobody may write to.
func (r *record) bytes(from, n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(r), from)), n)
}

// more returns where the closures but the first are, and how many.
func (r *record) more() (at, n int) {
	at = recordHead + int(r.who>>16)
	return at + 1, int(r.bytes(at, 1)[0])
}

// len returns how many closures there are; nil has none.
func (r *record) len() int {
	if r == nil {
		return 0
	}
	_, n := r.more()
	return 1 + n
}

func (r *record) closure(i int) closure {
	if i == 0 {
		return closure{terms: r.terms, closeAt: r.closeAt, until: r.until}
	}
	at, _ := r.more()
	b := r.bytes(at+(i-1)*closureSize, closureSize)
	return closure{
		terms:   binary.LittleEndian.Uint32(b),
		closeAt: int64(binary.LittleEndian.Uint64(b[4:])),
		until:   int64(binary.LittleEndian.Uint64(b[12:])),
	}
}

// id returns the caller's id, in memory that never changes and may be kept.
func (r *record) id() string {
	if !r.addr() {
		return r.key()
	}
	at, n := r.more()
	at += n * closureSize
	return r.text(at+1, int(r.bytes(at, 1)[0]))
}

func (r *record) subject() subject {
	return subject{tag: r.who & (1<<16 - 1), key: r.key(), id: r.id()}
}

// size returns how many bytes of the arena the record takes.
func (r *record) size() int { return recordSize(r.subject(), r.len()) }

func recordSize(s subject, closures int) int {
	n := recordHead + len(s.key) + 1 + (closures-1)*closureSize
	if s.tag&addrTag != 0 {
		n += 1 + len(s.id)
	}
	return n
}

// putRecord appends a record with at least one closure and returns its ref.
func (a *arena) putRecord(s subject, cs []closure) uint32 {
	b, ref := a.alloc(recordSize(s, len(cs)))
	*a.record(ref) = record{who: who(s.tag, s.key), terms: cs[0].terms, closeAt: cs[0].closeAt, until: cs[0].until}
	at := recordHead + copy(b[recordHead:], s.key)
	b[at] = uint8(len(cs) - 1)
	at++
	for _, c := range cs[1:] {
		binary.LittleEndian.PutUint32(b[at:], c.terms)
		binary.LittleEndian.PutUint64(b[at+4:], uint64(c.closeAt))
		binary.LittleEndian.PutUint64(b[at+12:], uint64(c.until))
		at += closureSize
	}
	if s.tag&addrTag != 0 {
		b[at] = uint8(len(s.id))
		copy(b[at+1:], s.id)
	}
	return ref
}

// record returns the record at a ref.
func (a *arena) record(ref uint32) *record {
	return (*record)(unsafe.Pointer(&a.chunks[ref/(chunkSize/granule)][ref%(chunkSize/granule)*granule])) // aligned to granule
}
