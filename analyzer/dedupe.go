package analyzer

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Bounds of the dedupe table, in log time.
const (
	dedupeExpiry = 24 * time.Hour   // a producer silent for longer is forgotten
	dedupeGrace  = 10 * time.Minute // and never sooner than this, however full the table is
)

// verdict is what dedupe says of a frame.
type verdict uint8

const (
	fresh     verdict = iota // not seen before: fold it
	duplicate                // seen before
	tooOld                   // further back than can be told: not folded, so that counts can only be under
	crowded                  // the table is full of producers that are all alive
)

// sender is one row of the dedupe table. For a producer, high is the highest sequence number seen and below a bitmap of
// high (bit 0) and the 63 before it. For a source, high is the last offset folded, and below is 1 once there is one. The
// key of both is 16 bytes.
type sender struct {
	high   uint64
	below  uint64
	last   int64  // when it was last heard of: the newest of its messages' times and log time then, in Unix nanoseconds
	from   uint64 // gaps above this sequence number are in dedupe.gaps; not stored
	stored uint64 // store.Sum of the row as last committed; 0 if it never was
	dirty  bool
}

// senderID tells producers and sources apart.
type senderID struct {
	id     schemas.ProducerID
	source bool
}

// dedupe remembers what has been folded from each producer and source. Use newDedupe. One goroutine may use it.
//
// What it holds is a function of the log: rows expire and are evicted by log time. A sender's own times may be ahead of
// that, so that no frame ever expires its own sender.
type dedupe struct {
	rows    map[senderID]*sender
	max     int
	oldest  int64  // no row's last is older: where none can be evicted, none is searched for
	gaps    uint64 // sequence numbers skipped and not filled since, as far as this process saw
	changed []senderID
	removed removals
}

// removals is the rows that were dropped while the store still holds them: by key, their store.Sum. A row that comes
// back before the next checkpoint takes its sum from here, so that each key is changed once in a transaction.
type removals map[string]uint64

func (r removals) add(key []byte, stored uint64) {
	if stored != 0 {
		r[string(key)] = stored
	}
}

// take returns the sum under which the store still holds key, or 0.
func (r removals) take(key []byte) uint64 {
	stored := r[string(key)]
	delete(r, string(key))
	return stored
}

func newDedupe(limit int) *dedupe {
	return &dedupe{rows: make(map[senderID]*sender), max: limit, oldest: math.MaxInt64, removed: make(removals)}
}

// row returns the row of id, which was heard of at the given time; new if need be; nil if there is no room at log time
// now.
func (d *dedupe) row(id senderID, now, at int64) *sender {
	s := d.rows[id]
	if s == nil {
		if len(d.rows) >= d.max && !d.evict(now) {
			return nil
		}
		s = &sender{last: at}
		if len(d.removed) > 0 {
			s.stored = d.removed.take(id.key())
		}
		d.rows[id] = s
		d.oldest = min(d.oldest, at)
	}
	s.last = max(s.last, at)
	if !s.dirty {
		s.dirty = true
		d.changed = append(d.changed, id)
	}
	return s
}

// frame says whether the frame seq of a producer is to be folded, at log time now and message time recorded, and
// remembers it.
func (d *dedupe) frame(id schemas.ProducerID, seq uint64, now, recorded int64) verdict {
	s := d.row(senderID{id: id}, now, max(now, recorded))
	if s == nil {
		return crowded
	}
	switch {
	case s.high == 0: // a new producer, or one that was here before this log begins
		s.high, s.below, s.from = seq, 1, seq
	case seq > s.high:
		ahead := seq - s.high
		d.gaps += ahead - 1
		s.below = shiftLeft(s.below, ahead) | 1
		s.high = seq
	case s.high-seq >= 64:
		return tooOld
	default:
		bit := uint64(1) << (s.high - seq)
		if s.below&bit != 0 {
			return duplicate
		}
		s.below |= bit
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

// offset says whether the line at offset of a source is to be folded, and remembers it.
func (s *sender) offset(offset int64) verdict {
	if offset < 0 || (s.below != 0 && uint64(offset) <= s.high) {
		return duplicate
	}
	s.high, s.below = uint64(offset), 1
	return fresh
}

// expire forgets senders that were silent for a day of log time.
func (d *dedupe) expire(now int64) {
	before := ago(now, dedupeExpiry)
	if d.oldest >= before {
		return
	}
	d.oldest = math.MaxInt64
	for id, s := range d.rows {
		if s.last < before {
			d.remove(id, s)
		} else {
			d.oldest = min(d.oldest, s.last)
		}
	}
}

// evict makes room: the longest idle tenth goes, but nobody who was heard of within the grace period. The order does
// not depend on the map's, so that it is a function of the log. It reports whether anybody went.
func (d *dedupe) evict(now int64) bool {
	before := ago(now, dedupeGrace)
	if d.oldest >= before {
		return false
	}
	d.oldest = math.MaxInt64
	var ids []senderID
	for id, s := range d.rows {
		if s.last < before {
			ids = append(ids, id)
		}
		d.oldest = min(d.oldest, s.last)
	}
	slices.SortFunc(ids, func(a, b senderID) int {
		return cmp.Or(cmp.Compare(d.rows[a].last, d.rows[b].last), bytes.Compare(a.key(), b.key()))
	})
	ids = ids[:min(len(ids), d.max/10+1)]
	for _, id := range ids {
		d.remove(id, d.rows[id])
	}
	return len(ids) > 0
}

// ago returns the time that lies d before t, or the first of all times.
func ago(t int64, d time.Duration) int64 { return max(t, math.MinInt64+int64(d)) - int64(d) }

func (d *dedupe) remove(id senderID, s *sender) {
	delete(d.rows, id)
	d.removed.add(id.key(), s.stored)
}

func (id senderID) key() []byte {
	prefix := byte(producerPrefix)
	if id.source {
		prefix = sourcePrefix
	}
	return append([]byte{prefix}, id.id[:]...)
}

func (s *sender) value() []byte {
	b := []byte{rowVersion}
	b = binary.AppendUvarint(b, s.high)
	b = binary.AppendUvarint(b, s.below)
	return binary.AppendVarint(b, s.last)
}

// restore puts a stored row back.
func (d *dedupe) restore(key, value []byte, sum uint64) error {
	if len(key) != 17 || key[0] != producerPrefix && key[0] != sourcePrefix || len(value) < 1 || value[0] != rowVersion {
		return fmt.Errorf("%w: got a sender of %d + %d bytes", errRow, len(key), len(value))
	}
	s := &sender{stored: sum}
	b := value[1:]
	var n [3]int
	s.high, n[0] = binary.Uvarint(b)
	s.below, n[1] = binary.Uvarint(b[max(0, n[0]):])
	s.last, n[2] = binary.Varint(b[max(0, n[0])+max(0, n[1]):])
	if n[0] <= 0 || n[1] <= 0 || n[2] <= 0 || n[0]+n[1]+n[2] != len(b) || s.high > math.MaxInt64 && key[0] == sourcePrefix {
		return fmt.Errorf("%w: got a sender cut short", errRow)
	}
	s.from = s.high
	d.rows[senderID{id: schemas.ProducerID(key[1:]), source: key[0] == sourcePrefix}] = s
	d.oldest = min(d.oldest, s.last)
	return nil
}
