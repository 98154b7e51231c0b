package merge

import (
	"math"
	"math/bits"

	"github.com/509da70d/floodgate/schemas"
)

// keyBytes is the room for kind, id and resource that a Table sets aside per entry, on average.
const keyBytes = 64

// leastRoom is the least room that an entry has for its key.
const leastRoom = 48

// maxKey is the longest kind, id and resource together, in bytes.
const maxKey = schemas.MaxCallerKind + schemas.MaxCallerID + schemas.MaxResource

// Table merges entries that are equal in kind, caller, resource, status, blocked and response, and whose times lie in
// one aligned tick of schemas.MergeTick. It holds a fixed number of them. The zero value has no room; use New.
//
// One goroutine at a time may use a Table.
type Table struct {
	index    []uint32 // position in entries, plus one; 0 is empty. Linear probing, at most half full
	entries  []entry  // dense, in order of arrival
	arena    []byte
	requests uint64
	hand     int           // where Replace looks next
	shown    schemas.Entry // what Each shows
	addr     [39]byte      // the text of an address that Read shows
}

// entry is one merged entry. Its key lies at arena[off:], kind, id and resource end to end.
type entry struct {
	hash   uint64
	time   int64 // of the last request
	cost   int64
	count  uint32
	off    uint32
	room   uint16 // bytes of the arena that are this entry's own
	id     uint16
	res    uint16
	status uint16
	kind   uint8
	flags  uint8
}

const (
	flagBlocked = 1 << iota
	flagResponse
	flagAddr // the id is the 16 bytes of an address
)

// New returns an empty table for at most size entries (raised to 16). It takes about 120 bytes an entry, at once and
// for good.
func New(size int) *Table {
	size = min(max(size, 16), math.MaxInt32/(2*keyBytes))
	return &Table{
		index:   make([]uint32, 1<<bits.Len(uint(2*size-1))),
		entries: make([]entry, 0, size),
		arena:   make([]byte, 0, max(size*keyBytes, 4*maxKey)),
	}
}

// Len returns the number of entries.
func (t *Table) Len() int { return len(t.entries) }

// Cap returns the most entries that the table holds.
func (t *Table) Cap() int { return cap(t.entries) }

// Requests returns the sum of all counts.
func (t *Table) Requests() uint64 { return t.requests }

// Add merges e into an equal entry or else inserts it. It returns false, and changes nothing, where there is neither an
// equal entry nor room for another. The hash must be equal for equal entries. e must be within the bounds of package
// schemas, and its strings are copied.
func (t *Table) Add(hash uint64, e *schemas.Entry) bool { return t.add(hash, e, flagsOf(e)) }

// AddAddr is Add for an entry whose ID is the 16 bytes of an address, of which Read makes text.
func (t *Table) AddAddr(hash uint64, e *schemas.Entry) bool {
	return t.add(hash, e, flagsOf(e)|flagAddr)
}

func (t *Table) add(hash uint64, e *schemas.Entry, flags uint8) bool {
	at, found := t.find(hash, e, flags)
	if found {
		t.merge(&t.entries[t.index[at]-1], e)
		return true
	}
	if len(t.entries) == cap(t.entries) {
		return false
	}
	off, room := t.carve(keyLen(e))
	if room == 0 {
		return false
	}
	t.entries = append(t.entries, t.write(hash, e, flags, off, room))
	t.index[at] = uint32(len(t.entries))
	t.requests += uint64(e.Count)
	return true
}

// keyLen returns the bytes of e's key.
func keyLen(e *schemas.Entry) int { return len(e.Kind) + len(e.ID) + len(e.Resource) }

// carve takes room for a key of n bytes from the arena; room 0 says that there is none. Where it can it takes some more,
// so that the room fits most keys that may replace this one.
func (t *Table) carve(n int) (off, room int) {
	off, room = len(t.arena), min(max(n, leastRoom), cap(t.arena)-len(t.arena))
	if room < n {
		return 0, 0
	}
	t.arena = t.arena[:off+room]
	return off, room
}

// write copies e's key into the arena and returns its entry.
func (t *Table) write(hash uint64, e *schemas.Entry, flags uint8, off, room int) entry {
	dst := t.arena[off:]
	n := copy(dst, e.Kind)
	n += copy(dst[n:], e.ID)
	copy(dst[n:], e.Resource)
	return entry{
		hash: hash, time: e.Time, cost: e.Cost, count: e.Count,
		off: uint32(off), room: uint16(room),
		kind: uint8(len(e.Kind)), id: uint16(len(e.ID)), res: uint16(len(e.Resource)),
		status: e.Status, flags: flags,
	}
}

// find returns the place in the index where e is, or where it would go.
func (t *Table) find(hash uint64, e *schemas.Entry, flags uint8) (at int, found bool) {
	mask := len(t.index) - 1
	for at = int(hash) & mask; t.index[at] != 0; at = (at + 1) & mask {
		if s := &t.entries[t.index[at]-1]; s.hash == hash && t.equal(s, e, flags) {
			return at, true
		}
	}
	return at, false
}

// equal reports whether e can be merged into s: the same key, the same tick, and sums that fit.
func (t *Table) equal(s *entry, e *schemas.Entry, flags uint8) bool {
	if int(s.kind) != len(e.Kind) || int(s.id) != len(e.ID) || int(s.res) != len(e.Resource) ||
		s.status != e.Status || s.flags != flags || Tick(s.time) != Tick(e.Time) ||
		s.count > math.MaxUint32-e.Count || s.cost > math.MaxInt64-e.Cost {
		return false
	}
	kind, id := int(s.off)+int(s.kind), int(s.off)+int(s.kind)+int(s.id)
	return string(t.arena[kind:id]) == e.ID && string(t.arena[id:id+int(s.res)]) == e.Resource &&
		string(t.arena[s.off:kind]) == e.Kind
}

func (t *Table) merge(s *entry, e *schemas.Entry) {
	s.time = max(s.time, e.Time)
	s.count += e.Count
	s.cost += e.Cost
	t.requests += uint64(e.Count)
}

// Reset empties the table and keeps its memory. Entries that Each gave out are rewritten by later ones.
func (t *Table) Reset() {
	if len(t.entries) > len(t.index)/16 {
		clear(t.index)
	} else {
		mask := len(t.index) - 1
		for i := range t.entries {
			at := int(t.entries[i].hash) & mask
			for t.index[at] != uint32(i+1) {
				at = (at + 1) & mask
			}
			t.index[at] = 0
		}
	}
	t.entries, t.arena, t.requests, t.hand = t.entries[:0], t.arena[:0], 0, 0
}

// Tick returns the number of the aligned tick that a time in Unix nanoseconds lies in.
func Tick(t int64) int64 {
	if t < 0 {
		return (t+1)/schemas.MergeTick - 1
	}
	return t / schemas.MergeTick
}

func flagsOf(e *schemas.Entry) (f uint8) {
	if e.Blocked {
		f = flagBlocked
	}
	if e.Response {
		f |= flagResponse
	}
	return f
}
