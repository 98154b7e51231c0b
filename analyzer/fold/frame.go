package fold

import (
	"errors"
	"math"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Record is one message of requests[p].
type Record struct {
	Offset int64
	Time   int64 // Unix nanoseconds: the message's time. No entry of it counts as later
	Value  []byte
}

// Frame folds one record. If a record cannot be read, or is not for this log, Frame refuses all of it, counts it by reason, and returns the
// reason as an error. The fold stays usable, and nothing of the record is counted. A duplicate is no error, nor is an entry of another
// partition: each of them is counted as rejected.
func (f *Fold) Frame(rec Record) error {
	f.offset = rec.Offset
	if err := f.frame.Decode(rec.Value); err != nil {
		f.stats.Rejected[schemas.Reason(err)]++
		return err
	}
	fr := &f.frame
	switch {
	case fr.Fingerprint != f.fingerprint:
		return f.reject(ReasonKey, "frame has another partition key")
	case int(fr.Partitions) != f.opts.Partitions:
		return f.reject(ReasonPartitions, "frame was made for another number of partitions")
	case f.misplaced():
		f.stats.Rejected[ReasonMisplaced] += uint64(len(fr.Entries))
		return nil
	}
	if fr.Source {
		return f.foldSource(rec)
	}
	switch f.dedupe.frame(fr.Producer, fr.Seq, f.table.now, rec.Time) {
	case duplicate:
		f.stats.Duplicate++
		return nil
	case tooOld:
		f.stats.TooOld++
		return nil
	case crowded:
		return f.reject(ReasonSenders, "too many producers")
	}
	f.noteFrame(rec.Time)
	newest := int64(math.MinInt64)
	for i := range fr.Entries {
		e := &fr.Entries[i]
		hash, here := f.belongs(e)
		if !here {
			f.stats.Rejected[ReasonMisplaced]++
			continue
		}
		f.place(e, hash, rec.Time)
		newest = max(newest, e.Time)
	}
	if len(fr.Entries) > 0 {
		f.predict.Heard(fr.Producer, newest, f.table.now)
	}
	return nil
}

// noteFrame counts a frame that is folded.
func (f *Fold) noteFrame(recorded int64) {
	f.stats.Frames++
	if made := f.frame.Flushed; f.opts.OnClockAhead != nil && made > recorded {
		by := made - recorded
		if by < 0 {
			by = math.MaxInt64
		}
		f.opts.OnClockAhead(f.frame.Producer, time.Duration(by))
	}
}

// foldSource folds those lines of a source that were not folded before. All entries of one line have the same offset and are in the same
// frame.
func (f *Fold) foldSource(rec Record) error {
	s := f.dedupe.row(senderID{id: f.frame.Producer, source: true}, f.table.now, max(f.table.now, rec.Time))
	if s == nil {
		return f.reject(ReasonSenders, "too many sources")
	}
	f.noteFrame(rec.Time)
	f.sourced = true
	defer func() { f.sourced = false }()
	line := int64(-1)
	for i := range f.frame.Entries {
		e := &f.frame.Entries[i]
		hash, here := f.belongs(e)
		if !here {
			f.stats.Rejected[ReasonMisplaced]++
			continue
		}
		if e.Offset != line {
			if s.offset(e.Offset) != fresh {
				f.stats.Duplicate++
				continue
			}
			line = e.Offset
		}
		f.place(e, hash, rec.Time)
	}
	return nil
}

// misplaced reports whether the frame is another partition's: whether it has entries, and none of them belongs to this one. Its sequence
// number is then one of that partition, and its offsets are of lines that this one need not have had yet. Mostly the first entry answers.
func (f *Fold) misplaced() bool {
	if f.opts.Partitions == 1 {
		return false
	}
	for i := range f.frame.Entries {
		if _, here := f.belongs(&f.frame.Entries[i]); here {
			return false
		}
	}
	return len(f.frame.Entries) > 0
}

// belongs reports whether an entry's caller belongs to this partition, and returns the hash of its id.
func (f *Fold) belongs(e *schemas.Entry) (hash uint64, here bool) {
	hash = f.table.ids.hash(e.ID)
	return hash, f.opts.Partitions == 1 || f.table.knows(e, hash) ||
		schemas.Partition(f.opts.Key.Hash(e.Kind, e.ID), f.opts.Partitions) == f.opts.Partition
}

// place folds an entry of this partition. hash is the hash of its caller's id. An entry that is later than its message gets the message's
// time.
func (f *Fold) place(e *schemas.Entry, hash uint64, recorded int64) {
	if e.Time > recorded {
		if e.Arrived > 0 { // its requests arrived by the same clock
			e.Arrived = max(e.Arrived-int64(e.Count)*(schemas.Tick(e.Time)-schemas.Tick(recorded)), 1)
		}
		e.Time = recorded
	}
	if e.Kind == schemas.KindCanary {
		f.canaries = append(f.canaries, *e)
		if e.Cost > 0 {
			f.Measure(e.Time, e.Cost)
		}
		return
	}
	if e.Kind == schemas.KindTally || e.Kind == schemas.KindLevel {
		f.poolEntry(e)
		return
	}
	if f.opts.OnEntry != nil {
		f.opts.OnEntry(e)
	}
	f.fold(e, hash)
}

// TakeCanaries returns the canary entries folded since it was last called. No rule counts them. The owner answers them, so that their
// senders learn the lag. The slice is good until the next frame.
func (f *Fold) TakeCanaries() []schemas.Entry {
	canaries := f.canaries
	f.canaries = f.canaries[:0]
	return canaries
}

// Reasons for which the fold refuses a frame or an entry, in addition to those of schemas.Reason. Each is a label of a metric and a
// word in the topic of rejects.
const (
	ReasonKey        = "partition_key" // the producer was given another partition key
	ReasonPartitions = "partitions"    // the producer sees another number of partitions
	ReasonMisplaced  = "misplaced"     // the entry's caller belongs to another partition
	ReasonSenders    = "producers"     // too many producers at once
)

// rejection is why the fold refused a frame that could be read.
type rejection struct{ reason, text string }

func (r rejection) Error() string { return r.text }

// Reason returns the reason under which an error of Fold.Frame was counted.
func Reason(err error) string {
	if r, ok := errors.AsType[rejection](err); ok {
		return r.reason
	}
	return schemas.Reason(err)
}

// reject counts a refused frame, and returns the error for it.
func (f *Fold) reject(reason, text string) error {
	f.stats.Rejected[reason]++
	return rejection{reason, text}
}
