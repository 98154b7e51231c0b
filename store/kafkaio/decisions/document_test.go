package decisions_test

import (
	"cmp"
	"encoding/binary"
	"math/big"
	"strings"
	"unicode/utf8"
)

// A gate that was written after schemas/DECISIONS.md and nothing else. It shares no code with the rest of floodgate, so that the
// vectors prove that the document is enough.

// docField is one field of a protobuf message.
type docField struct {
	number int
	wire   byte
	varint uint64 // or the fixed number
	bytes  []byte
}

// docFields splits a message. ok is false where it is none.
func docFields(b []byte) (fields []docField, ok bool) {
	for len(b) > 0 {
		tag, n := docVarint(b)
		number := tag >> 3
		if n == 0 || number == 0 || number > 1<<29-1 {
			return nil, false
		}
		f := docField{number: int(number), wire: byte(tag & 7)}
		b = b[n:]
		switch f.wire {
		case 0:
			f.varint, n = docVarint(b)
		case 1:
			if n = 8; len(b) >= 8 {
				f.varint = binary.LittleEndian.Uint64(b)
			}
		case 2:
			size, head := docVarint(b)
			if head == 0 || size > uint64(len(b)-head) {
				return nil, false
			}
			f.bytes, n = b[head:head+int(size)], head+int(size)
		case 3:
			n = docGroup(b, number)
		case 5:
			n = 4
		default:
			return nil, false
		}
		if n == 0 || n > len(b) {
			return nil, false
		}
		b = b[n:]
		fields = append(fields, f)
	}
	return fields, true
}

// docVarint returns a varint and its length, 0 if it is none.
func docVarint(b []byte) (v uint64, n int) {
	if v, n = binary.Uvarint(b); n < 0 {
		n = 0
	}
	return v, n
}

// docGroup returns the length of a group up to its end, 0 if it has none.
func docGroup(b []byte, number uint64) int {
	for at := 0; at < len(b); {
		tag, n := docVarint(b[at:])
		if n == 0 || tag>>3 == 0 {
			return 0
		}
		at += n
		size := 0
		switch tag & 7 {
		case 0:
			_, size = docVarint(b[at:])
		case 1:
			size = 8
		case 2:
			length, head := docVarint(b[at:])
			if head == 0 || length > uint64(len(b)) {
				return 0
			}
			size = head + int(length)
		case 3:
			size = docGroup(b[at:], tag>>3)
		case 4:
			if tag>>3 != number {
				return 0
			}
			return at
		case 5:
			size = 4
		}
		if size == 0 {
			return 0
		}
		at += size
	}
	return 0
}

// docRecord is a record as the document says it. member is 1 to 3.
type docRecord struct {
	member               int
	numbers              map[int]uint64 // by field number
	texts                map[int][]byte
	rule, kind, id       string
	closeAt, until, from int64
	early, held          bool
	next                 docSpan
	share                [8]int64 // by field number; period 0 is none
	partition            int32
	epoch, seq, mode     uint64
}

// docSpan is a Span as the document says it.
type docSpan struct {
	closeAt, until int64
	early          bool
}

// docWires has the wire type of each field that a member has. 's' is bytes that are text, 'm' a message.
var docWires = map[int]string{1: " s122011000m0mm0", 2: " 001s", 3: " 00010100010s0"}

// docRead reads a value. The reason is empty if it is one.
func docRead(value []byte) (r docRecord, reason string) {
	if len(value) > 4096 {
		return r, "bounds"
	}
	fields, ok := docFields(value)
	if !ok {
		return r, "malformed"
	}
	for _, f := range fields {
		if f.number > 3 || f.wire != 2 {
			continue
		}
		if r.member != f.number {
			r = docRecord{member: f.number, numbers: map[int]uint64{}, texts: map[int][]byte{}}
		}
		if !r.merge(f.bytes) {
			return r, "malformed"
		}
	}
	switch r.member {
	case 0:
		return r, "unknown"
	case 1:
		return r, r.decision()
	case 2:
		r.partition, r.epoch = int32(r.numbers[1]), r.numbers[2]
		if len(r.texts[4]) > 256 || r.partition < 0 {
			return r, "bounds"
		}
	case 3:
		r.partition, r.epoch, r.seq, r.from = int32(r.numbers[1]), r.numbers[2], r.numbers[3], int64(r.numbers[8])
		if len(r.texts[12]) > 256 || r.partition < 0 {
			return r, "bounds"
		}
	}
	return r, ""
}

func (r *docRecord) merge(message []byte) bool {
	fields, ok := docFields(message)
	wires := docWires[r.member]
	for _, f := range fields {
		if f.number >= len(wires) {
			continue
		}
		switch want := wires[f.number]; {
		case want == 's' && f.wire == 2:
			r.texts[f.number] = f.bytes
			ok = ok && utf8.Valid(f.bytes)
		case want == 'm' && f.wire == 2: // the same message twice is merged
			_, whole := docFields(f.bytes)
			r.texts[f.number], ok = append(r.texts[f.number], f.bytes...), ok && whole
		case want == '2' && f.wire == 2:
			r.texts[f.number] = f.bytes
		case want-'0' == f.wire:
			r.numbers[f.number] = f.varint
		}
	}
	return ok
}

func (r *docRecord) decision() (reason string) {
	r.rule, r.kind, r.id = string(r.texts[1]), string(r.texts[3]), string(r.texts[4])
	r.closeAt, r.until = int64(r.numbers[6]), int64(r.numbers[7])
	r.mode = uint64(uint32(r.numbers[5]))
	r.partition, r.epoch, r.seq = int32(r.numbers[8]), r.numbers[9], r.numbers[10]
	r.early, r.held = r.numbers[12] != 0, r.numbers[15] != 0
	spans := r.spans()
	r.until, r.next.until = docClamp(r.closeAt, r.until), docClamp(r.next.closeAt, r.next.until)
	switch {
	case r.mode != 1 && r.mode != 2:
		return "mode"
	case len(r.rule) > 256 || r.partition < 0 || !spans || !r.shares() || r.held && !r.early:
		return "bounds"
	case r.kind == "" || len(r.kind) > 32 || strings.Trim(r.kind, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "":
		return "caller_kind"
	case r.id == "" || len(r.id) > 256:
		return "caller_id"
	}
	return ""
}

// docNumbers reads a message that has numbers only, with these wire types.
func docNumbers(b []byte, wires string) (numbers [16]uint64) {
	fields, _ := docFields(b)
	for _, f := range fields {
		if f.number < len(wires) && wires[f.number]-'0' == f.wire {
			numbers[f.number] = f.varint
		}
	}
	return numbers
}

// docClamp is until, at most 366 days after closeAt.
func docClamp(closeAt, until int64) int64 {
	const year = 366 * 24 * 3600 * 1e9
	if longest := closeAt + year; longest > closeAt {
		return min(until, longest)
	}
	return until
}

// spans reads next, and reports whether it is none or comes after the first closure.
func (r *docRecord) spans() bool {
	n := docNumbers(r.texts[13], " 110")
	r.next = docSpan{int64(n[1]), int64(n[2]), n[3] != 0}
	if r.next == (docSpan{}) {
		return true
	}
	return r.until > r.closeAt && r.next.closeAt >= r.until && r.next.until > r.next.closeAt
}

// shares reads the share, and reports whether it is none or within its bounds.
func (r *docRecord) shares() bool {
	b, is := r.texts[14]
	if !is {
		return true
	}
	n := docNumbers(b, " 1100110")
	for i := range r.share {
		r.share[i] = int64(n[i])
	}
	from, until, period, permits := r.share[1], r.share[2], r.share[3], r.share[4]
	demandFrom, demandUntil, demand := r.share[5], r.share[6], r.share[7]
	return docClamp(from, until) == until && from < until && docClamp(0, period) == period && period > 0 && permits >= 0 &&
		docClamp(demandFrom, demandUntil) == demandUntil && demandFrom < demandUntil && demand > 0
}

// docAllows is rule 2.
func docAllows(epoch uint64, recordTime, now int64) bool {
	last := new(big.Int).SetInt64(now)
	last.Add(last, big.NewInt(2*3600e9))
	if t := big.NewInt(recordTime); t.Cmp(last) < 0 {
		last = t
	}
	const day = 24 * 3600 * 1e9
	last.Add(last, new(big.Int).Mul(big.NewInt(36525), big.NewInt(day)))
	last.Div(last, big.NewInt(1e6)) // rounds down
	return new(big.Int).SetUint64(epoch).Cmp(last) <= 0
}

// docReopens is when a closure ends that is not early.
func docReopens(kind, id string, closeAt, until int64) int64 {
	if until-closeAt < 10e9 {
		return until
	}
	h := uint64(14695981039346656037)
	for _, b := range []byte(kind + ":" + id) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	u := float64(h>>11) / float64(1<<53)
	return until + int64(float64(min((until-closeAt)/10, 10e9))*u)
}

// docMessage is one record of the log.
type docMessage struct {
	offset, time int64
	value        []byte
}

// docGate follows one partition.
type docGate struct {
	partition  int32
	now        int64
	log        []docMessage // all that will ever be there
	start      int64
	epoch, seq uint64 // the fence
	apply      int64
	moved      map[uint64]bool
	verdicts   []string
	closed     map[string]docRecord // by rule, kind and id
}

// newest returns the newest announcement in [start, end) with at least an epoch.
func (g *docGate) newest(end int64, epoch uint64, heartbeat bool) (best docRecord, offset int64) {
	offset = -1
	for size := int64(512); offset < 0 && end > g.start; size *= 4 {
		from := max(g.start, end-size)
		for _, m := range g.log {
			if m.offset < from || m.offset >= end {
				continue
			}
			r, reason := docRead(m.value)
			if reason != "" || r.member == 1 || heartbeat && r.member == 2 || r.member == 3 && r.seq == 0 ||
				r.partition != g.partition || r.epoch < max(epoch, 1) || !docAllows(r.epoch, m.time, g.now) {
				continue
			}
			if offset < 0 || cmp.Or(cmp.Compare(r.epoch, best.epoch), cmp.Compare(r.seq, best.seq)) > 0 {
				best, offset = r, m.offset
			}
		}
		end = from
	}
	return best, offset
}

// find returns where to read from, with end as the end of the log, and sets g.apply.
func (g *docGate) find(end int64) (read int64) {
	for epoch := uint64(1); ; {
		h, at := g.newest(end, epoch, true)
		if at < 0 {
			g.apply = g.start
			return g.start
		}
		g.apply = min(max(h.from, g.start), at)
		a, before := g.newest(g.apply+1, h.epoch, false)
		if before < 0 {
			a, before = g.newest(g.apply+1, 1, false)
		}
		switch {
		case before < 0:
			return g.apply
		case a.epoch <= h.epoch:
			return before
		}
		epoch = a.epoch
	}
}

// run reads the log, of which the records before end are there when the gate starts.
func (g *docGate) run(end int64) {
	g.moved, g.closed = map[uint64]bool{}, map[string]docRecord{}
	for read := g.find(end); ; {
		again := false
		for _, m := range g.log {
			if m.offset < read {
				continue
			}
			verdict := g.take(m)
			g.verdicts = append(g.verdicts, verdict)
			if again = verdict == "moved"; again {
				break
			}
		}
		if !again {
			return
		}
		last := g.log[len(g.log)-1].offset + 1
		read, g.epoch, g.seq = g.find(last), 0, 0
	}
}

// take is the five rules.
func (g *docGate) take(m docMessage) string {
	r, reason := docRead(m.value)
	switch {
	case reason != "":
		return reason
	case r.partition != g.partition:
		return "partition"
	case r.member != 1 && !docAllows(r.epoch, m.time, g.now):
		return "epoch"
	}
	fence := g.epoch
	if r.member == 2 && r.epoch > g.epoch || r.member == 3 && r.epoch > g.epoch && r.seq > 0 {
		g.epoch, g.seq = r.epoch, 0
		if r.member == 2 {
			return "claim"
		}
	}
	if r.member == 2 || r.epoch != g.epoch || r.epoch == 0 || r.seq <= g.seq {
		if r.member == 1 && m.offset < g.apply {
			return "skipped"
		}
		return "fenced"
	}
	g.seq = r.seq
	switch {
	case r.member == 3 && fence != 0 && r.epoch > fence && r.from < g.apply && !g.moved[r.epoch]:
		g.moved[r.epoch] = true
		return "moved"
	case r.member == 3:
		return "heartbeat"
	case m.offset < g.apply:
		return "skipped"
	}
	key := r.rule + "\x00" + r.kind + "\x00" + r.id
	if g.closed[key] = r; (r.until <= r.closeAt || r.until <= g.now) && r.next.until <= g.now {
		delete(g.closed, key)
	}
	return "decision"
}
