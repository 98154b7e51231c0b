package fold

import "github.com/509da70d/floodgate/schemas"

// Sender is what was seen of a producer of frames, or of a source of lines, as a snapshot holds it.
type Sender struct {
	ID     schemas.ProducerID
	Source bool
	Last   int64 // Unix nanoseconds: when it was last heard of

	// Of a producer: the highest sequence number seen, and a bitmap of the 63 before it, the nearest in bit 0.
	Seq, Below uint64
	// Of a source: the offset of its last line that was folded; −1 if there was none.
	Offset int64
}

// export returns a row of the dedupe table as a Sender.
func (s *sender) export(id senderID) Sender {
	x := Sender{ID: id.id, Source: id.source, Last: s.last}
	switch {
	case !id.source:
		x.Seq, x.Below = s.high, s.below>>1
	case s.below == 0:
		x.Offset = -1
	default:
		x.Offset = int64(s.high) // restore and offset refuse larger ones
	}
	return x
}

// RestoreSender puts a sender of a snapshot into a fold that has folded nothing yet.
func (f *Fold) RestoreSender(x *Sender) {
	id, s := senderID{id: x.ID, source: x.Source}, sender{last: x.Last, dirty: true}
	switch {
	case !x.Source:
		s.high, s.below = x.Seq, x.Below<<1|1
	case x.Offset >= 0:
		s.high, s.below = uint64(x.Offset), 1
	}
	s.from = s.high
	f.dedupe.put(id, &s)
	f.dedupe.change(id)
}

// SenderExpired reports whether the stored row of a sender may have been evicted from a dedupe table at log time now.
func SenderExpired(key, value []byte, now int64) (bool, error) {
	d := newDedupe(1)
	if err := d.restore(key, value, 1); err != nil {
		return false, err
	}
	return d.idle.At(0).last < ago(now, dedupeGrace), nil
}
