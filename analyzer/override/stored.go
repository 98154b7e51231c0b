package override

import (
	"errors"
	"slices"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/rows"
)

// KeyPrefix is the first byte of the key of each row of a control record.
const KeyPrefix = 'm'

// ErrRow is a stored row that cannot be read.
var ErrRow = errors.New("bad row of a control record")

// changed puts a record on the list of the next checkpoint.
func (s *Records) changed(r *storedRecord) {
	if !r.dirty && !s.noStore {
		r.dirty = true
		s.dirty = append(s.dirty, r)
	}
}

// Dirty returns how many rows the next Take and Removed return at most.
func (s *Records) Dirty() int { return len(s.dirty) + len(s.removed) }

// Take appends the records that have changed since it was last called, for the store. Forgotten records are in Removed.
func (s *Records) Take(changes []rows.Change) []rows.Change {
	for i, r := range s.dirty {
		s.dirty[i] = nil
		if r.dirty = false; r.forgotten {
			continue
		}
		key, value := r.key(), r.value(r.UndoneBy)
		if r.stored == 0 {
			r.stored = s.removed.Take(key)
		}
		changes = append(changes, rows.Change{Key: key, Value: value, Old: r.stored})
		r.stored = rows.Sum(key, value)
	}
	s.dirty = s.dirty[:0]
	return changes
}

// Removed returns the rows that the store holds and must delete.
func (s *Records) Removed() rows.Removed { return s.removed }

// Restore puts a record back. stored is its sum in the store, or 0 if it comes from a snapshot. A row of a snapshot without a value says
// that the record was forgotten. The effects say which lists have changed. Counts and closures of rows need no change: the restored rows
// contain what the records did.
func (s *Records) Restore(key, value []byte, stored uint64, now int64) ([]Effect, error) {
	if len(value) == 0 && stored == 0 {
		if len(key) != 1+len(schemas.ControlID{}) {
			return nil, nil
		}
		return s.withdraw(schemas.ControlID(key[1:])), nil
	}
	read, err := ReadRecord(key, value)
	if err != nil {
		return nil, err
	}
	effects := s.withdraw(read.ID)
	if read.End() <= now {
		s.removed.Add(key, stored)
		return effects, nil
	}
	r := &storedRecord{Record: read, stored: stored}
	s.remember(r)
	if stored == 0 {
		s.changed(r)
	}
	if r.inForce() {
		e := Effect{Record: &r.Record}
		e.Before, e.After = s.replace(r, List.with)
		effects = append(effects, e)
	}
	return effects, nil
}

// withdraw removes a record that a row of a snapshot replaces or deletes, and returns the effect.
func (s *Records) withdraw(id schemas.ControlID) []Effect {
	r := s.byID[id]
	if r == nil {
		return nil
	}
	for at := range s.ends.Len() {
		if *s.ends.At(at) == r {
			s.ends.Remove(at)
			break
		}
	}
	s.forget(r)
	if !r.inForce() {
		return nil
	}
	return []Effect{s.end(r)}
}

// Digest sums up the records that anything can still depend on at a log time. Records about all partitions are left out unless global is
// set. The place in requests[p] where a record was applied is left out, because it differs from partition to partition.
func (s *Records) Digest(at int64, global bool) (sum uint64) {
	for _, r := range s.byID {
		if r.End() <= at || r.Global() && !global {
			continue
		}
		live := *r
		live.From, live.At = 0, 0
		sum += rows.Sum(live.key(), live.value(live.UndoneBy))
	}
	return sum
}

// Row is a record as it was when a snapshot began. Only undo is a copy, because nothing else of a record changes.
type Row struct {
	record *storedRecord
	undo   *schemas.Control
}

// Rows returns all records, in no particular order.
func (s *Records) Rows() []Row {
	list := make([]Row, 0, len(s.byID))
	for _, r := range s.byID {
		list = append(list, Row{r, r.UndoneBy})
	}
	return list
}

// RowsOf returns the mode records in force, and those about a caller.
func (s *Records) RowsOf(c schemas.Caller) []Row {
	var list []Row
	for _, r := range slices.Concat(s.modes.records, s.callers[c].records) {
		list = append(list, Row{r, r.UndoneBy})
	}
	return list
}

// Encode returns the key and the value of the record's row; ReadRecord undoes it.
func (r *Record) Encode() (key, value []byte) { return r.key(), r.value(r.UndoneBy) }

// Encode returns the row's key and value.
func (r Row) Encode() (key, value []byte) { return r.record.key(), r.record.value(r.undo) }
