package analyzer

import (
	"github.com/509da70d/floodgate/schemas"
)

// Reasons for which the fold refuses a frame or an entry, beside those of schemas.Reason.
const (
	reasonFingerprint = "partition_key" // the producer was given another partition key
	reasonPartitions  = "partitions"    // the producer sees another number of partitions
	reasonMisplaced   = "misplaced"     // the entry's caller belongs to another partition
	reasonSeq         = "sequence"      // a sequence number or source offset that no producer sends
	reasonSenders     = "producers"     // too many producers at once
)

// Record is one message of requests[p].
type Record struct {
	Offset int64
	Time   int64 // Unix nanoseconds: the message's, which bounds its entries'
	Value  []byte
}

// Frame folds one record. A record that cannot be read, or that is not for this partition, is refused whole and counted
// by reason; the error says why, and the fold is as good as before. A duplicate is no error.
func (f *Fold) Frame(rec Record) error {
	f.offset = rec.Offset
	if err := f.frame.Decode(rec.Value); err != nil {
		f.stats.Rejected[schemas.Reason(err)]++
		return err
	}
	fr := &f.frame
	switch {
	case fr.Fingerprint != f.fingerprint:
		return f.reject(reasonFingerprint, "frame has another partition key")
	case int(fr.Partitions) != f.opts.Partitions:
		return f.reject(reasonPartitions, "frame was made for another number of partitions")
	case !fr.Source && fr.Seq == 0:
		return f.reject(reasonSeq, "frame has no sequence number")
	}
	if fr.Source {
		return f.foldSource(rec)
	}
	switch f.dedupe.frame(fr.Producer, fr.Seq, f.now, rec.Time) {
	case duplicate:
		f.stats.Duplicate++
		return nil
	case tooOld:
		f.stats.TooOld++
		return nil
	case crowded:
		return f.reject(reasonSenders, "too many producers")
	}
	f.stats.Frames++
	for i := range fr.Entries {
		f.place(&fr.Entries[i], rec.Time)
	}
	return nil
}

// foldSource folds the lines of a source that were not folded before. All entries of one line share its offset and its
// frame.
func (f *Fold) foldSource(rec Record) error {
	s := f.dedupe.row(senderID{id: f.frame.Producer, source: true}, f.now, max(f.now, rec.Time))
	if s == nil {
		return f.reject(reasonSenders, "too many sources")
	}
	f.stats.Frames++
	line := int64(-1)
	for i := range f.frame.Entries {
		e := &f.frame.Entries[i]
		if e.Offset != line {
			if s.offset(e.Offset) != fresh {
				f.stats.Duplicate++
				continue
			}
			line = e.Offset
		}
		f.place(e, rec.Time)
	}
	return nil
}

// place folds an entry if its caller belongs to this partition. Its time is bounded by its message's.
func (f *Fold) place(e *schemas.Entry, recorded int64) {
	hash := f.opts.Key.Hash(e.Kind, e.ID)
	if schemas.Partition(hash, f.opts.Partitions) != f.opts.Partition {
		f.stats.Rejected[reasonMisplaced]++
		return
	}
	e.Time = min(e.Time, recorded)
	if e.Kind == schemas.KindCanary {
		f.canaries = append(f.canaries, *e)
		return
	}
	if f.opts.Each != nil {
		f.opts.Each(e)
	}
	f.entry(e, hash)
}

func (f *Fold) reject(reason, text string) error {
	f.stats.Rejected[reason]++
	return refusal{reason, text}
}

// TakeCanaries returns the canary entries folded since it was last called. They count nowhere; the owner answers them,
// so that their senders learn the lag. The slice is good until the next frame.
func (f *Fold) TakeCanaries() []schemas.Entry {
	canaries := f.canaries
	f.canaries = f.canaries[:0]
	return canaries
}
