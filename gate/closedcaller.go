package gate

import (
	"encoding/binary"
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

// closedCaller is one caller and its closures, as the arena holds them. After the fields that every one has follow, without
// padding:
//
//	the key
//	1 byte       n, the number of closures after the first
//	n × 20       these closures: terms u32, closeAt i64, until i64, little-endian
//	…            if the caller is an address: the length of its text (1 byte), and the text
//
// No byte of it changes once its ref is published. Values of this type exist in an arena only.
type closedCaller struct {
	tagAndLen uint32 // tag of the caller, and from bit 16 on the length of the key
	terms     uint32 // of the first closure, as the rest: the one that matters most
	closeAt   int64
	until     int64
}

const (
	closedCallerHead = int(unsafe.Sizeof(closedCaller{}))
	closureSize      = 20
	maxClosures      = 255
	maxAddrText      = 39 // eight groups of four digits and seven colons
	maxClosedCaller  = closedCallerHead + schemas.MaxCallerID + 1 + (maxClosures-1)*closureSize + 1 + maxAddrText

	// Bits of the field terms of a closure, beside the ref of its terms, which is less than each of them.
	shadowBit = 1 << 31 // the mode is shadow
	shareBit  = 1 << 30 // it is a share: the ref is that of a share, not of terms
	earlyBit  = 1 << 29 // the closure is predicted, and not counted yet
	heldBit   = 1 << 28 // the same, because of requests in flight: see schemas.Decision.Held. It has no earlyBit
	termBits  = shadowBit | shareBit | earlyBit | heldBit
)

// closure says that one rule closes one caller for one span of time. until includes the jitter. A rule has at most two
// closures of a caller: the two spans of its newest decision. It may have shares besides, which close the caller only when
// their permits are spent: the newest, and up to maxHeld before it. No two of a rule hold at the same time, and all of a rule
// have the same cell. If a caller has a share, its first closure is one.
type closure struct {
	terms   uint32 // ref of the terms, or of the share, and termBits
	closeAt int64
	until   int64
}

func (c closure) shadow() bool          { return c.terms&shadowBit != 0 }
func (c closure) share() bool           { return c.terms&shareBit != 0 }
func (c closure) early() bool           { return c.terms&(earlyBit|heldBit) != 0 }
func (c closure) held() bool            { return c.terms&heldBit != 0 }
func (c closure) covers(now int64) bool { return c.closeAt <= now && now < c.until }

// subject identifies a closed caller. Its tag is the index of its gate, plus addrTag if it is an address.
type subject struct {
	tag uint32
	key string
	id  string // the key, unless that is an address
}

// addrTag is set in the tag of an address.
const addrTag = 1 << 8

// tagAndLen returns the field of that name.
func tagAndLen(tag uint32, key string) uint32 { return tag | uint32(len(key))<<16 }

// belongsTo reports whether this is the caller with these: the whole key is compared.
func (cc *closedCaller) belongsTo(head uint32, key string) bool {
	return cc.tagAndLen == head && cc.hasKey(key)
}

// hasKey reports whether the caller's key is this one, which has the same length. It is the comparison of two strings, in
// line.
func (cc *closedCaller) hasKey(key string) bool {
	n := len(key)
	if n < 8 {
		return cc.text(closedCallerHead, n) == key
	}
	a, b := unsafe.Add(unsafe.Pointer(cc), closedCallerHead), unsafe.Pointer(unsafe.StringData(key))
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

// shared reports whether the caller has a share.
func (cc *closedCaller) shared() bool { return cc.terms&shareBit != 0 }

// gate returns the index of the gate.
func (cc *closedCaller) gate() uint8 { return uint8(cc.tagAndLen) }

func (cc *closedCaller) addr() bool { return cc.tagAndLen&addrTag != 0 }

// key returns the caller's key, in memory that never changes and may be kept.
func (cc *closedCaller) key() string { return cc.text(closedCallerHead, int(cc.tagAndLen>>16)) }

// text returns n bytes as a string, without copying them.
func (cc *closedCaller) text(from, n int) string {
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(cc), from)), n) // the arena put them there
}

// bytes returns n bytes, which must not be written to.
func (cc *closedCaller) bytes(from, n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(cc), from)), n)
}

// laterClosures returns where the closures after the first begin, and how many there are.
func (cc *closedCaller) laterClosures() (at, n int) {
	at = closedCallerHead + int(cc.tagAndLen>>16)
	return at + 1, int(cc.bytes(at, 1)[0])
}

// len returns how many closures there are; nil has none.
func (cc *closedCaller) len() int {
	if cc == nil {
		return 0
	}
	_, n := cc.laterClosures()
	return 1 + n
}

func (cc *closedCaller) closure(i int) closure {
	if i == 0 {
		return closure{terms: cc.terms, closeAt: cc.closeAt, until: cc.until}
	}
	at, _ := cc.laterClosures()
	b := cc.bytes(at+(i-1)*closureSize, closureSize)
	return closure{
		terms:   binary.LittleEndian.Uint32(b),
		closeAt: int64(binary.LittleEndian.Uint64(b[4:])),
		until:   int64(binary.LittleEndian.Uint64(b[12:])),
	}
}

// id returns the caller's id, in memory that never changes and may be kept.
func (cc *closedCaller) id() string {
	if !cc.addr() {
		return cc.key()
	}
	at, n := cc.laterClosures()
	at += n * closureSize
	return cc.text(at+1, int(cc.bytes(at, 1)[0]))
}

func (cc *closedCaller) subject() subject {
	return subject{tag: cc.tagAndLen & (1<<16 - 1), key: cc.key(), id: cc.id()}
}

// size returns how many bytes of the arena the closed caller takes.
func (cc *closedCaller) size() int { return closedCallerSize(cc.subject(), cc.len()) }

func closedCallerSize(s subject, closures int) int {
	n := closedCallerHead + len(s.key) + 1 + (closures-1)*closureSize
	if s.tag&addrTag != 0 {
		n += 1 + len(s.id)
	}
	return n
}

// putCaller appends a caller with at least one closure and returns its ref.
func (a *arena) putCaller(s subject, cs []closure) uint32 {
	b, ref := a.alloc(closedCallerSize(s, len(cs)))
	*a.caller(ref) = closedCaller{tagAndLen: tagAndLen(s.tag, s.key), terms: cs[0].terms, closeAt: cs[0].closeAt, until: cs[0].until}
	at := closedCallerHead + copy(b[closedCallerHead:], s.key)
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

// caller returns the closed caller at a ref.
func (a *arena) caller(ref uint32) *closedCaller {
	return (*closedCaller)(unsafe.Pointer(&a.chunks[ref/(chunkSize/granule)][ref%(chunkSize/granule)*granule])) // aligned to granule
}
