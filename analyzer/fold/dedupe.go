package fold

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/heap"
	"github.com/509da70d/floodgate/store/rows"
)

// Bounds of the dedupe table, in log time.
const (
	producerExpiry = 24 * time.Hour       // a producer silent for longer is forgotten
	sourceExpiry   = 400 * 24 * time.Hour // a source silent for longer is forgotten; no window reaches back further: see schemas.MaxClosure
	dedupeGrace    = 10 * time.Minute     // neither is forgotten sooner than this, however full the table is
)

// dedupeResult says whether a frame, or a line of a source, was folded before.
type dedupeResult uint8

const (
	fresh     dedupeResult = iota // not seen before: fold it
	duplicate                     // seen before
	tooOld                        // older than the bitmap reaches: not folded, so that a count is never too high
	crowded                       // the table is full, and none of its senders may be evicted
)

// sender is one row of the dedupe table. For a producer, highestSeq is the highest sequence number seen, and bitmap says which of that
// number (bit 0) and the 63 numbers before it were seen. For a source, highestSeq is the last offset folded; bitmap is 1 if there is one,
// else 0. The ids of both have 16 bytes.
type sender struct {
	highestSeq uint64
	bitmap     uint64
	last       int64  // Unix nanoseconds: the newest time of its messages, or log time when the last one came if that is later
	from       uint64 // dedupe.gaps counts the gaps above this sequence number; not stored
	stored     uint64 // rows.Sum of the row as last committed; 0 if it never was
	dirty      bool
}

// senderID tells producers and sources apart.
type senderID struct {
	id     schemas.ProducerID
	source bool
}

// dedupe remembers what has been folded from each producer and source. Use newDedupe. One goroutine may use it.
//
// Its content is a function of the log, because rows expire and are evicted by log time. The times of a sender's own messages may be ahead
// of log time: no frame makes its own sender expire.
//
// Sources are kept for longer than producers. A producer repeats a frame within minutes, if at all. A reader of logs may be off for weeks,
// and then send the last lines of a log again, after the lines of other logs have moved log time.
type dedupe struct {
	rows      map[senderID]*sender
	producers idleHeap // of the rows of all producers
	sources   idleHeap // of the rows of all sources
	max       int      // of producers and sources together
	gaps      uint64   // sequence numbers skipped and not filled since, as far as this process saw
	changed   []senderID
	removed   rows.Removed
}

func newDedupe(limit int) *dedupe {
	return &dedupe{
		rows: make(map[senderID]*sender), producers: newIdleHeap(), sources: newIdleHeap(), max: limit, removed: make(rows.Removed),
	}
}

// idle returns the heap that a sender is in.
func (d *dedupe) idle(id senderID) *idleHeap {
	if id.source {
		return &d.sources
	}
	return &d.producers
}

// row returns the row of a sender that sent a message at the time at. It makes one if there is none. It returns nil if there is no room at
// log time now.
func (d *dedupe) row(id senderID, now, at int64) *sender {
	s := d.rows[id]
	if s == nil {
		if len(d.rows) >= d.max && !d.evict(now) {
			return nil
		}
		s = &sender{last: at}
		if len(d.removed) > 0 {
			s.stored = d.removed.Take(id.key())
		}
		d.put(id, s)
	}
	s.last = max(s.last, at)
	if !s.dirty {
		s.dirty = true
		d.change(id)
	}
	return s
}

// put adds a row, or replaces one.
func (d *dedupe) put(id senderID, s *sender) {
	if old := d.rows[id]; old != nil {
		s.last = max(s.last, old.last) // its place in the heap stays
	} else {
		d.idle(id).Add(idleSender{s.last, id})
	}
	d.rows[id] = s
}

// change puts a sender on the list of the next checkpoint. When the list is twice as long as the table, it removes the senders that were
// dropped since. So the list does not grow without bound while nothing can be committed and senders come and go.
func (d *dedupe) change(id senderID) {
	if len(d.changed) >= 2*max(d.max, len(d.rows)) {
		slices.SortFunc(d.changed, senderID.compare)
		d.changed = slices.DeleteFunc(slices.Compact(d.changed), func(id senderID) bool { return d.rows[id] == nil })
	}
	d.changed = append(d.changed, id)
}

// frame reports whether frame seq of a producer must be folded, and remembers the frame. now is log time, and recorded is the message's
// time.
func (d *dedupe) frame(id schemas.ProducerID, seq uint64, now, recorded int64) dedupeResult {
	s := d.row(senderID{id: id}, now, max(now, recorded))
	if s == nil {
		return crowded
	}
	switch {
	case s.highestSeq == 0: // a new producer, or one whose earlier frames are no longer in the log
		s.highestSeq, s.bitmap, s.from = seq, 1, seq
	case seq > s.highestSeq:
		ahead := seq - s.highestSeq
		d.gaps += ahead - 1
		s.bitmap = shiftLeft(s.bitmap, ahead) | 1
		s.highestSeq = seq
	case s.highestSeq-seq >= 64:
		return tooOld
	default:
		bit := uint64(1) << (s.highestSeq - seq)
		if s.bitmap&bit != 0 {
			return duplicate
		}
		s.bitmap |= bit
		if seq > s.from {
			d.gaps--
		}
	}
	return fresh
}

func shiftLeft(v, n uint64) uint64 {
	if n >= 64 {
		return 0
	}
	return v << n
}

// offset reports whether the line at an offset of a source must be folded, and remembers it.
func (s *sender) offset(offset int64) dedupeResult {
	if offset < 0 || (s.bitmap != 0 && uint64(offset) <= s.highestSeq) {
		return duplicate
	}
	s.highestSeq, s.bitmap = uint64(offset), 1
	return fresh
}

// expire forgets producers that were silent for a day of log time, and sources that were silent for longer than any window.
func (d *dedupe) expire(now int64) {
	for d.removeIdle(&d.producers, ago(now, producerExpiry)) {
	}
	for d.removeIdle(&d.sources, ago(now, sourceExpiry)) {
	}
}

// evict makes room: it removes about a tenth of the table, the senders that were silent for longest, but none that was heard of within the
// grace period. It reports whether it removed any. The kind of which the table has more makes room: mostly that is the producers. Only if
// none of that kind may be removed, the other kind makes room. evict does not use the order of the map, so the result is a function of the
// log.
func (d *dedupe) evict(now int64) bool {
	first, second := &d.producers, &d.sources
	if d.sources.Len() > d.producers.Len() {
		first, second = second, first
	}
	return d.evictFrom(first, now) || d.evictFrom(second, now)
}

// evictFrom is evict for the senders of one heap.
func (d *dedupe) evictFrom(h *idleHeap, now int64) bool {
	before, removed := ago(now, dedupeGrace), 0
	for removed <= d.max/10 && d.removeIdle(h, before) {
		removed++
	}
	return removed > 0
}

// removeIdle removes the sender of a heap that was silent for longest, if it was last heard of before a time, and reports whether it did.
func (d *dedupe) removeIdle(h *idleHeap, before int64) bool {
	for h.Len() > 0 {
		first := h.At(0)
		if first.last >= before {
			return false
		}
		s := d.rows[first.id]
		if s.last == first.last {
			d.remove(h.Remove(0).id, s)
			return true
		}
		first.last = s.last // heard of since
		h.Fix(0)
	}
	return false
}

// ago returns the time that is d before t. It does not overflow.
func ago(t int64, d time.Duration) int64 { return max(t, math.MinInt64+int64(d)) - int64(d) }

func (d *dedupe) remove(id senderID, s *sender) {
	delete(d.rows, id)
	d.removed.Add(id.key(), s.stored)
}

func (id senderID) key() []byte { return append([]byte{id.prefix()}, id.id[:]...) }

func (id senderID) prefix() byte {
	if id.source {
		return byte(SourceRow)
	}
	return byte(ProducerRow)
}

func (s *sender) value() []byte {
	b := []byte{rowVersion}
	b = binary.AppendUvarint(b, s.highestSeq)
	b = binary.AppendUvarint(b, s.bitmap)
	return binary.AppendVarint(b, s.last)
}

// restore puts a stored row back.
func (d *dedupe) restore(key, value []byte, sum uint64) error {
	if len(key) != 17 || key[0] != byte(ProducerRow) && key[0] != byte(SourceRow) || len(value) < 1 || value[0] != rowVersion {
		return fmt.Errorf("%w: got a sender of %d + %d bytes", errRow, len(key), len(value))
	}
	s := &sender{stored: sum}
	b := value[1:]
	var n [3]int
	s.highestSeq, n[0] = binary.Uvarint(b)
	s.bitmap, n[1] = binary.Uvarint(b[max(0, n[0]):])
	s.last, n[2] = binary.Varint(b[max(0, n[0])+max(0, n[1]):])
	if n[0] <= 0 || n[1] <= 0 || n[2] <= 0 || n[0]+n[1]+n[2] != len(b) || s.highestSeq > math.MaxInt64 && key[0] == byte(SourceRow) {
		return fmt.Errorf("%w: got a sender cut short", errRow)
	}
	s.from = s.highestSeq
	d.put(senderID{id: schemas.ProducerID(key[1:]), source: key[0] == byte(SourceRow)}, s)
	return nil
}

// idleHeap holds all producers, or all sources, of a dedupe table. The one that was silent for longest comes first; of two that are equal,
// the one with the lower id. A sender that is heard of again keeps its place in the heap; it moves to its new place only when it comes
// first. By then log time has moved on by a grace period or more. So a sender moves at most once in a grace period, and senders that come
// and go do not make others cost a pass over the table.
type idleHeap = heap.Heap[idleSender]

// idleSender is a sender and the time when it was last heard of, in Unix nanoseconds. The time may be out of date: see idleHeap.
type idleSender struct {
	last int64
	id   senderID
}

func newIdleHeap() idleHeap { return heap.New((*idleSender).before, nil) }

func (s *idleSender) before(other *idleSender) bool {
	return s.last < other.last || s.last == other.last && s.id.compare(other.id) < 0
}

// compare orders senders by their keys in the store.
func (id senderID) compare(other senderID) int {
	if id.source != other.source {
		return cmp.Compare(id.prefix(), other.prefix())
	}
	return bytes.Compare(id.id[:], other.id[:])
}

// Sender is a row of the dedupe table as a snapshot holds it: what was seen of a producer of frames, or of a source of lines.
type Sender struct {
	ID     schemas.ProducerID
	Source bool
	Last   int64 // Unix nanoseconds: when it was last heard of

	// For a producer: the highest sequence number seen, and a bitmap of the 63 numbers before it; bit 0 is the nearest.
	Seq, Below uint64
	// For a source: the offset of its last line that was folded; −1 if there was none.
	Offset int64
}

// export returns a row of the dedupe table as a Sender.
func (s *sender) export(id senderID) Sender {
	x := Sender{ID: id.id, Source: id.source, Last: s.last}
	switch {
	case !id.source:
		x.Seq, x.Below = s.highestSeq, s.bitmap>>1
	case s.bitmap == 0:
		x.Offset = -1
	default:
		x.Offset = int64(s.highestSeq) // restore and offset refuse larger ones
	}
	return x
}

// RestoreSender puts a sender of a snapshot into a fold that has folded nothing yet.
func (f *Fold) RestoreSender(x *Sender) {
	id, s := senderID{id: x.ID, source: x.Source}, sender{last: x.Last, dirty: true}
	switch {
	case !x.Source:
		s.highestSeq, s.bitmap = x.Seq, x.Below<<1|1
	case x.Offset >= 0:
		s.highestSeq, s.bitmap = uint64(x.Offset), 1
	}
	s.from = s.highestSeq
	f.dedupe.put(id, &s)
	f.dedupe.change(id)
}

// SenderExpired reports whether the stored row of a sender may have been evicted from a dedupe table at log time now.
func SenderExpired(key, value []byte, now int64) (bool, error) {
	d := newDedupe(1)
	if err := d.restore(key, value, 1); err != nil {
		return false, err
	}
	return d.evict(now), nil
}
