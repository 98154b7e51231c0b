package control

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// at returns records at offsets 0, 1, 2, … with these times.
func at(times ...int64) (records []Record) {
	for i, time := range times {
		records = append(records, Record{int64(i), schemas.Control{Time: time}})
	}
	return records
}

// refold folds requests at offsets 100 to 109, whose times are their offsets, and returns what was applied where.
func refold(s *Schedule) string {
	var list []string
	note := func(d Due) {
		if len(d.Records) > 0 {
			list = append(list, fmt.Sprintf("%d-%d@%d", d.Records[0].Offset, d.Records[len(d.Records)-1].Offset, d.Place.From))
		}
	}
	for offset := int64(100); offset < 110; offset++ {
		for d, ok := s.Before(offset, offset); ok; d, ok = s.Before(offset, offset) {
			note(d)
		}
	}
	for d, ok := s.Rest(110); ok; d, ok = s.Rest(110) {
		note(d)
	}
	return strings.Join(list, " ")
}

func TestRecordsAreAppliedWhereTheyWere(t *testing.T) {
	place := func(from, first, next int64) schemas.ControlPlace {
		return schemas.ControlPlace{From: from, First: first, Next: next}
	}
	for _, c := range []struct {
		name    string
		records []Record
		known   Known
		want    string
		guessed uint64
	}{
		{"all places known", at(1, 1, 1), Known{Places: []schemas.ControlPlace{place(103, 0, 2), place(107, 2, 3)}, Limit: 3, Last: -1}, "0-1@103 2-2@107", 0},
		{"some are applied already", at(1, 1, 1), Known{Control: 2, Places: []schemas.ControlPlace{place(90, 0, 2), place(107, 2, 3)}, Limit: 3, Last: -1}, "2-2@107", 0},
		{"before the log begins", at(1, 1), Known{Places: []schemas.ControlPlace{place(50, 0, 2)}, Limit: 2, Last: -1}, "0-1@50", 0},
		{"at the log's end", at(1), Known{Places: []schemas.ControlPlace{place(110, 0, 1)}, Limit: 1, Last: -1}, "0-0@110", 0},
		{"two at one offset, in their order", at(1, 1), Known{Places: []schemas.ControlPlace{place(104, 0, 1), place(104, 1, 2)}, Limit: 2, Last: -1}, "0-0@104 1-1@104", 0},
		{"no place known: by time", at(102, 105, 120), Known{Limit: 3, Last: -1}, "0-0@102 1-1@105 2-2@110", 3},
		{"older than the log: nothing is guessed", at(1, 2), Known{Limit: 2, Last: -1}, "0-1@100", 0},
		{"a hole before a place", at(102, 200, 1), Known{Places: []schemas.ControlPlace{place(106, 2, 3)}, Limit: 3, Last: -1}, "0-0@102 1-1@106 2-2@106", 2},
		{"the last ones, where their owner stood", at(1, 1), Known{Places: []schemas.ControlPlace{place(103, 0, 1)}, Limit: 2, Last: 105}, "0-0@103 1-1@105", 0},
		{"nobody has applied the rest", at(1, 1, 1), Known{Places: []schemas.ControlPlace{place(103, 0, 1)}, Limit: 1, Last: -1}, "0-0@103", 0},
		{"times that go back", at(105, 102), Known{Limit: 2, Last: -1}, "0-1@105", 2},
		{"none", nil, Known{Limit: 7, Last: -1}, "", 0},
	} {
		s := NewSchedule(c.records, c.known)
		if got := refold(s); got != c.want || s.Guessed != c.guessed {
			t.Errorf("%s: got %q, %d guessed, want %q, %d", c.name, got, s.Guessed, c.want, c.guessed)
		}
	}
}

// Two owners whose chains are equal have applied the same records at the same places, however they were cut.
func TestAChainSaysWhatWasAppliedAndWhere(t *testing.T) {
	records := at(1, 2, 3)
	whole := Chain(7, 100, records)
	if got := Chain(Chain(7, 100, records[:1]), 100, records[1:]); got != whole {
		t.Errorf("cut in two: got %x, want %x", got, whole)
	}
	if got := Chain(7, 100, nil); got != 7 {
		t.Errorf("no records: got %x, want what was before", got)
	}
	other := at(1, 2, 3)
	other[1].Control.ID[0]++
	for name, got := range map[string]uint64{
		"elsewhere": Chain(7, 101, records), "behind others": Chain(8, 100, records), "fewer": Chain(7, 100, records[:2]),
		"in parts elsewhere": Chain(Chain(7, 100, records[:1]), 101, records[1:]), "another record": Chain(7, 100, other),
	} {
		if got == whole {
			t.Errorf("%s: got the same chain", name)
		}
	}
}

// A row of a snapshot is as of a control record: all before it must be applied before the row is put in.
func TestARowIsAsOfAControlRecord(t *testing.T) {
	s := NewSchedule(at(1, 1, 1), Known{Places: []schemas.ControlPlace{{From: 103, First: 0, Next: 1}, {From: 103, First: 1, Next: 3}}, Limit: 3, Last: -1})
	var got []int64
	for d, ok := s.UpTo(1, 103); ok; d, ok = s.UpTo(1, 103) {
		got = append(got, d.Place.Next)
	}
	if !slices.Equal(got, []int64{1}) {
		t.Errorf("up to 1: got %v, want the first place alone", got)
	}
	if d, ok := s.Before(103, 0); !ok || d.Place.First != 1 || len(d.Records) != 2 || !d.Noted {
		t.Errorf("before 103: got %+v, %v, want the second place", d, ok)
	}
}

// Whatever is known, each record is applied once, in order, and no earlier than its place or its time allow.
func FuzzSchedule(f *testing.F) {
	f.Add([]byte{3, 101, 105, 99, 103, 1, 2, 4}, int64(1), int64(3), int64(-1))
	f.Add([]byte{8, 0, 0, 0, 255, 100, 101, 102, 103, 100, 0, 9, 104, 2, 3}, int64(0), int64(9), int64(104))
	f.Fuzz(func(t *testing.T, b []byte, control, limit, last int64) {
		if len(b) == 0 || control < 0 || control > 300 || limit < 0 || limit > 300 || last > 200 {
			return
		}
		n := min(int(b[0])%32, len(b)-1)
		var records []Record
		for i, time := range b[1 : 1+n] {
			records = append(records, Record{int64(i), schemas.Control{Time: int64(time)}})
		}
		var places []schemas.ControlPlace
		var from, next int64
		for p := b[1+n:]; len(p) >= 3; p = p[3:] {
			from, next = from+int64(p[0])%16, next+int64(p[1])%4
			place := schemas.ControlPlace{From: 95 + from, First: next, Next: next + 1 + int64(p[2])%4}
			places, next = append(places, place), place.Next
		}
		s := NewSchedule(records, Known{Control: control, Places: places, Limit: limit, Last: last})
		end, applied, at := s.Limit(), control, control
		take := func(d Due) {
			if d.Place.First != at || d.Place.Next < at {
				t.Fatalf("got %+v behind %d", d.Place, at)
			}
			at = d.Place.Next
			for _, r := range d.Records {
				if r.Offset != applied || r.Offset >= d.Place.Next {
					t.Fatalf("got record %d at %+v, want %d", r.Offset, d.Place, applied)
				}
				applied++
			}
		}
		for offset := int64(100); offset < 110; offset++ {
			for d, ok := s.Before(offset, offset); ok; d, ok = s.Before(offset, offset) {
				take(d)
			}
		}
		for d, ok := s.Rest(110); ok; d, ok = s.Rest(110) {
			take(d)
		}
		if want := min(int64(len(records)), max(end, control)); control < int64(len(records)) && applied != want {
			t.Fatalf("got %d applied, want %d", applied, want)
		}
	})
}
