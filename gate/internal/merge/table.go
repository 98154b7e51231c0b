package merge

import (
	"encoding/binary"
	"math"
	"math/bits"
	"net/netip"
	"unsafe"

	"github.com/509da70d/floodgate/gate/internal/netkey"
	"github.com/509da70d/floodgate/schemas"
)

// keyBytes is the room for kind, id and resource that a Table sets aside per entry, on average.
const keyBytes = 64

// minRoom is how many bytes an entry has for its key at least.
const minRoom = 48

// maxKey is the longest kind, id and resource together, in bytes.
const maxKey = schemas.MaxCallerKind + schemas.MaxCallerID + schemas.MaxResource

// Table merges entries that are equal in kind, id, resource, status, blocked, early and response, and whose times lie in one
// aligned tick of schemas.MergeTick. It holds a fixed number of entries. The zero value has no room; use New or NewHolding.
//
// One goroutine at a time may use a Table.
type Table struct {
	index      []uint32 // position in entries, plus one; 0 is empty. Linear probing, at most half full
	entries    []entry  // dense, in order of arrival
	holds      []hold   // of the same entries; nil unless NewHolding made the table
	arena      []byte
	requests   uint64
	nextVictim int           // where Replace looks next
	visited    schemas.Entry // what Each shows
	addr       [39]byte      // the text of an address, or of a network, that Read shows
}

// entry is one merged entry. Its key lies at arena[off:]: kind, id and resource, one after the other.
type entry struct {
	hash       uint64
	shape      shape
	time       int64 // of the last request
	cost       int64
	count      uint32
	tickOffset uint32 // how far into its tick that is
	off        uint32
	room       uint16 // bytes of the arena that are this entry's own
}

// shape contains all of an entry except its strings, time and sums. One comparison of shapes distinguishes most entries that
// have the same hash. From the top: the lengths of id (16 bits), resource (16) and kind (8), the flags (8) and the status
// (16).
type shape uint64

func shapeOf(e *schemas.Entry, addr bool) shape {
	s := shape(len(e.ID)<<48 | len(e.Resource)<<32 | len(e.Kind)<<24 | int(e.Status))
	if e.Blocked {
		s |= flagBlocked
	}
	if e.Early {
		s |= flagEarly
	}
	if e.Response {
		s |= flagResponse
	}
	if addr {
		s |= flagAddr
	}
	return s
}

func (s shape) id() int        { return int(s >> 48) }
func (s shape) resource() int  { return int(s >> 32 & math.MaxUint16) }
func (s shape) kind() int      { return int(s >> 24 & math.MaxUint8) }
func (s shape) status() uint16 { return uint16(s) }

const (
	flagBlocked shape = 1 << (16 + iota)
	flagResponse
	flagAddr // the id is the 16 bytes of an address, or of a network
	flagEarly
	flagArrived  // the sum of arrival ticks is known
	flagDeclared // the sum of declared costs is known
)

// New returns an empty table for at most size entries (raised to 16). It allocates about 120 bytes an entry at once, and
// never more.
func New(size int) *Table {
	size = min(max(size, 16), math.MaxInt32/(2*keyBytes))
	return &Table{
		index:   make([]uint32, 1<<bits.Len(uint(2*size-1))),
		entries: make([]entry, 0, size),
		arena:   make([]byte, 0, max(size*keyBytes, 4*maxKey)),
	}
}

// Cap returns the number of entries that there is room for.
func (t *Table) Cap() int { return cap(t.entries) }

// Grown returns a table for at most size entries that has those of t.
func (t *Table) Grown(size int) *Table {
	larger := New(size)
	if t.holds != nil {
		larger = NewHolding(size)
	}
	t.Each(func(hash uint64, e *schemas.Entry) { larger.Add(hash, e) })
	return larger
}

// Len returns the number of entries.
func (t *Table) Len() int { return len(t.entries) }

// Requests returns the sum of all counts.
func (t *Table) Requests() uint64 { return t.requests }

// Add merges e into an equal entry, or inserts it if there is none. If there is also no room, it returns false and changes
// nothing. The hash must be equal for equal entries. e must be within the bounds of package schemas. Its strings are copied.
func (t *Table) Add(hash uint64, e *schemas.Entry) bool { return t.AddKey(hash, e, false) }

// AddKey is Add for an entry whose ID, if addr is set, is the 16 bytes of an address, or of a network, as gate.Callers.Key returns
// them. Read returns the text.
func (t *Table) AddKey(hash uint64, e *schemas.Entry, addr bool) bool {
	shape := shapeOf(e, addr)
	if t.holds != nil {
		shape |= holdFlags(e)
	}
	at, found := t.find(hash, shape, e)
	if found {
		t.merge(int(t.index[at])-1, e)
		return true
	}
	if len(t.entries) == cap(t.entries) {
		return false
	}
	off, room := t.allocKey(keyLen(e))
	if room == 0 {
		return false
	}
	t.entries = append(t.entries, t.write(hash, shape, e, off, room))
	if t.holds != nil {
		t.holds = append(t.holds, hold{e.Arrived, e.Declared})
	}
	t.place(len(t.entries)-1, at)
	t.requests += uint64(e.Count)
	return true
}

// keyLen returns the bytes of e's key.
func keyLen(e *schemas.Entry) int { return len(e.Kind) + len(e.ID) + len(e.Resource) }

// allocKey takes room for a key of n bytes from the arena; it returns room 0 if there is none. It takes at least minRoom
// bytes if there are as many, so that most keys that replace this one later fit.
func (t *Table) allocKey(n int) (off, room int) {
	off, room = len(t.arena), min(max(n, minRoom), cap(t.arena)-len(t.arena))
	if room < n {
		return 0, 0
	}
	t.arena = t.arena[:off+room]
	return off, room
}

// write copies e's key into the arena and returns its entry.
func (t *Table) write(hash uint64, shape shape, e *schemas.Entry, off, room int) entry {
	dst := t.arena[off:]
	n := copy(dst, e.Kind)
	n += copy(dst[n:], e.ID)
	copy(dst[n:], e.Resource)
	return entry{
		hash: hash, shape: shape, time: e.Time, tickOffset: uint32(e.Time - Tick(e.Time)*schemas.MergeTick),
		cost: e.Cost, count: e.Count, off: uint32(off), room: uint16(room),
	}
}

// find looks for an entry into which e, of this shape, can be merged. It returns the place of that entry in the index and
// true. Otherwise it returns the place where e would go: an empty one, or the place of an equal entry whose sums have no
// room for e.
func (t *Table) find(hash uint64, shape shape, e *schemas.Entry) (at int, found bool) {
	mask := len(t.index) - 1
	for at = int(hash) & mask; t.index[at] != 0; at = (at + 1) & mask {
		i := int(t.index[at]) - 1
		s := &t.entries[i]
		if s.hash != hash || s.shape != shape || !s.sameTick(e) || !same(t.arena[s.off:], e) {
			continue
		}
		if t.holds == nil {
			return at, s.fits(e)
		}
		if t.sameSecond(i, e) {
			return at, s.fits(e) && t.holds[i].fits(e)
		}
	}
	return at, false
}

// sameTick reports whether e lies in the same tick as s.
func (s *entry) sameTick(e *schemas.Entry) bool {
	return uint64(e.Time-s.time+int64(s.tickOffset)) < schemas.MergeTick
}

// fits reports whether the sums of s have room for e.
func (s *entry) fits(e *schemas.Entry) bool {
	return s.count <= math.MaxUint32-e.Count && s.cost <= math.MaxInt64-e.Cost
}

// merge adds e to entry i, which has room for it.
func (t *Table) merge(i int, e *schemas.Entry) {
	s := &t.entries[i]
	if later := e.Time - s.time; later > 0 {
		s.time = e.Time
		s.tickOffset += uint32(later) // it stays within the tick, because e lies in the same one
	}
	s.count += e.Count
	s.cost += e.Cost
	if t.holds != nil {
		t.holds[i].arrived += e.Arrived
		t.holds[i].declared += e.Declared
	}
	t.requests += uint64(e.Count)
}

// Reset empties the table and keeps its memory. Later entries overwrite the strings that Each and Read returned.
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
	t.entries, t.holds, t.arena, t.requests, t.nextVictim = t.entries[:0], t.holds[:0], t.arena[:0], 0, 0
}

// Tick returns the number of the aligned tick that a time in Unix nanoseconds lies in.
func Tick(t int64) int64 {
	if t < 0 {
		return (t+1)/schemas.MergeTick - 1
	}
	return t / schemas.MergeTick
}

// Each calls visit with every entry and its hash, in order of arrival. It uses the same Entry for each call, and its strings
// are memory of the table: they are valid until visit returns. Copy them to keep them longer.
func (t *Table) Each(visit func(hash uint64, e *schemas.Entry)) {
	for i := range t.entries {
		t.Read(i, &t.visited)
		visit(t.entries[i].hash, &t.visited)
	}
}

// Read sets *e to entry i, 0 ≤ i < Len. Its strings are valid until the next call of a method of t.
func (t *Table) Read(i int, e *schemas.Entry) {
	s := &t.entries[i]
	kind := int(s.off) + s.shape.kind()
	id := kind + s.shape.id()
	*e = schemas.Entry{
		Time: s.time, Kind: t.text(int(s.off), kind), ID: t.text(kind, id), Resource: t.text(id, id+s.shape.resource()),
		Cost: s.cost, Count: s.count, Status: s.shape.status(),
		Blocked: s.shape&flagBlocked != 0, Early: s.shape&flagEarly != 0, Response: s.shape&flagResponse != 0,
	}
	if t.holds != nil {
		e.Arrived, e.Declared = t.holds[i].arrived, t.holds[i].declared
	}
	if s.shape&flagAddr != 0 {
		e.ID = t.addrText(e.Kind, [16]byte(t.arena[kind:id]))
	}
}

// addrText returns the text of an address in its canonical form, or of a network.
func (t *Table) addrText(kind string, key [16]byte) string {
	b := t.addr[:0]
	if kind == schemas.KindNet {
		b = netkey.Prefix(key).AppendTo(b)
	} else {
		b = netip.AddrFrom16(key).Unmap().AppendTo(b)
	}
	return unsafe.String(&t.addr[0], len(b)) // valid until the next Read
}

// text returns arena[from:to] without a copy. Copies would be the only garbage that the recorder makes.
func (t *Table) text(from, to int) string {
	if from == to {
		return ""
	}
	return unsafe.String(&t.arena[from], to-from) // valid until Reset, as Each says
}

// sampled is how many entries Replace looks at. The entry of a flooding caller is safe when it counts two requests: among
// eight entries of a full table, nearly always one counts a single request and can be dropped instead.
const sampled = 8

// Replace makes room for e, which Add refused. It drops the smallest of a few entries if that one is no greater than e, and
// drops e otherwise. In both cases it returns how many requests were dropped. So if there are more callers than room, callers
// that sent one request are lost, and never a caller that floods.
func (t *Table) Replace(hash uint64, e *schemas.Entry) (dropped uint64) {
	return t.ReplaceKey(hash, e, false)
}

// ReplaceKey is Replace for an entry that AddKey refused.
func (t *Table) ReplaceKey(hash uint64, e *schemas.Entry, addr bool) (dropped uint64) {
	n := len(t.entries)
	need := keyLen(e)
	victim := -1
	for i := range min(sampled, n) {
		at := (t.nextVictim + i) % n
		s := &t.entries[at]
		fits := int(s.room) >= need || need <= cap(t.arena)-len(t.arena)
		if fits && s.count <= e.Count && (victim < 0 || s.count < t.entries[victim].count) {
			victim = at
		}
	}
	t.nextVictim += sampled
	if victim < 0 {
		return uint64(e.Count)
	}
	s := &t.entries[victim]
	dropped = uint64(s.count)
	t.unindex(victim)
	off, room := int(s.off), int(s.room)
	if room < need {
		off, room = t.allocKey(need)
	}
	shape := shapeOf(e, addr)
	if t.holds != nil {
		shape |= holdFlags(e)
	}
	*s = t.write(hash, shape, e, off, room)
	if t.holds != nil {
		t.holds[victim] = hold{e.Arrived, e.Declared}
	}
	at, _ := t.find(hash, shape, e)
	t.place(victim, at)
	t.requests += uint64(e.Count) - dropped
	return dropped
}

// unindex removes entry i from the index, and moves later entries back into the hole (Knuth, TAOCP 3, algorithm 6.4R).
func (t *Table) unindex(i int) {
	mask := len(t.index) - 1
	hole := t.home(i)
	for t.index[hole] != uint32(i+1) {
		hole = (hole + 1) & mask
	}
	for at := (hole + 1) & mask; t.index[at] != 0; at = (at + 1) & mask {
		// The entry at `at` may fill the hole unless its home lies behind the hole, cyclically.
		if home := t.home(int(t.index[at]) - 1); (at-home)&mask >= (at-hole)&mask {
			t.index[hole] = t.index[at]
			hole = at
		}
	}
	t.index[hole] = 0
}

// home returns the place of entry i in an empty index.
func (t *Table) home(i int) int {
	return int(t.entries[i].hash) & (len(t.index) - 1)
}

// same reports whether a key in the arena is the key of e. Its three lengths are equal to those of e. It compares three
// strings in line: keys are short, and a call of the runtime takes longer than the comparison.
func same(key []byte, e *schemas.Entry) bool {
	kind, id := len(e.Kind), len(e.Kind)+len(e.ID)
	key = key[:id+len(e.Resource)] // the only bounds check
	p := unsafe.Pointer(unsafe.SliceData(key))
	return equal(unsafe.Add(p, kind), e.ID) && equal(unsafe.Add(p, id), e.Resource) && equal(p, e.Kind)
}

// equal reports whether the bytes at p are s.
func equal(p unsafe.Pointer, s string) bool {
	q, n := unsafe.Pointer(unsafe.StringData(s)), len(s)
	switch {
	case n >= 8:
		for i := 0; i < n-8; i += 8 {
			if load8(p, i) != load8(q, i) {
				return false
			}
		}
		return load8(p, n-8) == load8(q, n-8)
	case n >= 2:
		for i := 0; i < n-2; i += 2 {
			if load2(p, i) != load2(q, i) {
				return false
			}
		}
		return load2(p, n-2) == load2(q, n-2)
	}
	return n == 0 || *(*byte)(p) == s[0]
}

func load2(p unsafe.Pointer, at int) uint16 {
	return binary.NativeEndian.Uint16((*[2]byte)(unsafe.Add(p, at))[:])
}

func load8(p unsafe.Pointer, at int) uint64 {
	return binary.NativeEndian.Uint64((*[8]byte)(unsafe.Add(p, at))[:])
}
