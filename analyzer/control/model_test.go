package control

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

// drawn is a topic that may have lost records anywhere, and what is known of its places.
type drawn struct {
	records []Record
	known   Known
}

func draw(t *rapid.T) (d drawn) {
	offset := rapid.Int64Range(0, 3).Draw(t, "truncated to")
	for range rapid.IntRange(0, 12).Draw(t, "records") {
		d.records = append(d.records, Record{offset, schemas.Control{Time: rapid.Int64Range(95, 115).Draw(t, "time")}})
		offset += rapid.SampledFrom([]int64{1, 1, 1, 2, 4}).Draw(t, "to the next")
	}
	from, next := int64(95), int64(0)
	for range rapid.IntRange(0, 4).Draw(t, "places") {
		from += rapid.Int64Range(0, 6).Draw(t, "from")
		next += rapid.SampledFrom([]int64{0, 0, 1, 3}).Draw(t, "hole")
		p := schemas.ControlPlace{From: from, First: next, Next: next + rapid.Int64Range(0, 4).Draw(t, "length")}
		d.known.Places, next = append(d.known.Places, p), p.Next
	}
	d.known.Control = rapid.Int64Range(0, 6).Draw(t, "control")
	d.known.Limit = rapid.Int64Range(0, 20).Draw(t, "limit")
	d.known.Last = rapid.SampledFrom([]int64{-1, -1, 97, 104, 112}).Draw(t, "last")
	return d
}

// ends of the log that is folded again: its records are at offsets, and of times, from begin to end.
const begin, end = 100, 110

// model says of each record, one by one, before which record of requests it is applied, and whether by its time; -1 is never.
func (d *drawn) model() (at []int64, guessed uint64) {
	stop := d.known.Limit
	for _, p := range d.known.Places {
		stop = max(stop, p.Next)
	}
	before := int64(begin)
	for _, r := range d.records {
		if r.Offset < d.known.Control || r.Offset >= stop {
			at = append(at, -1)
			continue
		}
		from, noted := d.place(r.Offset)
		if !noted {
			from = min(from, max(r.Control.Time, begin)) // by its time, but not behind the next place that is known
		}
		before = min(end, max(before, from, d.behind(r.Offset)))
		if at = append(at, before); !noted && before > begin {
			guessed++
		}
	}
	return at, guessed
}

// behind returns where the places before a record are: it is not applied before them, also where they have no records.
func (d *drawn) behind(offset int64) (from int64) {
	at := d.known.Control
	for _, p := range d.known.Places {
		if p.Next > at && p.Next <= offset {
			from, at = max(from, p.From), p.Next
		}
	}
	return from
}

// place returns the place of a record, or else of the next one that has one.
func (d *drawn) place(offset int64) (from int64, noted bool) {
	for _, p := range d.known.Places {
		if p.Next > max(offset, d.known.Control) { // a place without records is a mark
			return p.From, offset >= p.First
		}
	}
	if d.known.Last >= 0 && d.known.Limit > offset {
		return d.known.Last, true
	}
	return end, false
}

// TestAScheduleDoesWhatAPlainModelSays, whatever places are known, and whatever the topic has lost: each record is applied once, in
// order, where it was, or else by its time. And who guesses says so.
func TestAScheduleDoesWhatAPlainModelSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		s := NewSchedule(d.records, d.known)
		limit := s.Limit()
		applied := make(map[int64]int64)
		next := d.known.Control
		take := func(due Due, at int64) {
			if due.Place.First != next || due.Place.Next < next {
				t.Fatalf("got %+v behind %d", due, next)
			}
			next = due.Place.Next
			for _, r := range due.Records {
				if _, twice := applied[r.Offset]; twice || r.Offset < due.Place.First || r.Offset >= due.Place.Next {
					t.Fatalf("got record %d in %+v, twice: %v", r.Offset, due.Place, twice)
				}
				applied[r.Offset] = at
			}
			if due.Place.From > at {
				t.Fatalf("got %+v at %d: it is applied later than there", due.Place, at)
			}
		}
		for at := int64(begin); at < end; at++ {
			for due, ok := s.Before(at, at); ok; due, ok = s.Before(at, at) {
				take(due, at)
			}
		}
		for due, ok := s.Rest(end); ok; due, ok = s.Rest(end) {
			take(due, end)
		}
		want, guessed := d.model()
		for i, r := range d.records {
			at, ok := applied[r.Offset]
			if !ok {
				at = -1
			}
			if at != want[i] {
				t.Fatalf("record %d: got %d, want %d of %v; %+v", r.Offset, at, want[i], want, d)
			}
		}
		if s.Guessed != guessed || next != max(limit, d.known.Control) {
			t.Fatalf("got %d guessed, up to %d; want %d, up to %d", s.Guessed, next, guessed, limit)
		}
	})
}

// TestARowOfASnapshotIsNeverAhead: before a row is put in that is as of a control offset, all records before it are handed out, and none
// behind it, wherever in the log that is.
func TestARowOfASnapshotIsNeverAhead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		s := NewSchedule(d.records, d.known)
		limit, next, offset := s.Limit(), d.known.Control, int64(begin)
		for range rapid.IntRange(1, 6).Draw(t, "rows") {
			row := next + rapid.Int64Range(0, 5).Draw(t, "as of")
			for due, ok := s.UpTo(row, offset); ok; due, ok = s.UpTo(row, offset) {
				if due.Place.First != next || due.Place.Next > max(row, next) || due.Place.From > offset {
					t.Fatalf("got %+v behind %d, want up to %d at %d", due, next, row, offset)
				}
				next = due.Place.Next
			}
			if next < min(row, limit) {
				t.Fatalf("got records up to %d, want up to %d", next, min(row, limit))
			}
			for due, ok := s.Before(offset, offset); ok; due, ok = s.Before(offset, offset) {
				next = due.Place.Next
			}
			offset += rapid.Int64Range(0, 3).Draw(t, "folded")
		}
	})
}
