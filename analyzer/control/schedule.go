package control

import (
	"math"

	"github.com/509da70d/floodgate/schemas"
)

// Schedule says which control records are to be applied before which record of requests[p], while that log is folded again. The
// zero value has none. One goroutine at a time may use it.
type Schedule struct {
	// Guessed counts the records that were applied by their time, because their place is not known, in a part of the log that was
	// folded again: what is counted need not be what was counted at first.
	Guessed uint64

	records []Record
	steps   []step
	at      int64 // records before this offset were handed out
	folded  bool  // a record of requests was folded
}

// step is a stretch of the topic: what comes before next.
type step struct {
	next  int64
	from  int64 // the offset of requests[p] before which all of it is applied; unknown: each record by its time
	noted bool
}

const unknown = math.MinInt64

// Known is what is known of the places of control records.
type Known struct {
	Control int64                  // records before this offset of the topic are applied already
	Places  []schemas.ControlPlace // by From and First; those that are applied already do no harm
	Limit   int64                  // an owner has applied the records before this offset
	Last    int64                  // where the last ones before Limit were applied, if no place says it; −1: not known
}

// NewSchedule returns a schedule for records, which are in order. Those from Known.Limit on are not in it, unless a place has them.
func NewSchedule(records []Record, k Known) *Schedule {
	s := &Schedule{at: k.Control}
	at := k.Control
	for _, p := range k.Places {
		if p.Next <= at {
			continue
		}
		if p.First > at {
			s.steps = append(s.steps, step{p.First, unknown, false})
		}
		s.steps = append(s.steps, step{p.Next, p.From, true})
		at = p.Next
	}
	if k.Limit > at {
		last := step{k.Limit, unknown, false}
		if k.Last >= 0 {
			last.from = k.Last
		}
		s.steps = append(s.steps, last)
		at = k.Limit
	}
	for len(records) > 0 && records[0].Offset < k.Control {
		records = records[1:]
	}
	n := 0
	for n < len(records) && records[n].Offset < at {
		n++
	}
	s.records = records[:n:n]
	return s
}

// Due is records to apply at a place. There may be none: then the stretch holds none about the partition.
type Due struct {
	Place   schemas.ControlPlace
	Records []Record
	Noted   bool // the place is one of Known.Places
}

// Limit returns the offset of the topic behind all that the schedule has, or had.
func (s *Schedule) Limit() int64 {
	if n := len(s.steps); n > 0 {
		return s.steps[n-1].next
	}
	return s.at
}

// Before returns records to be applied before the record of requests[p] at an offset, whose time is in Unix nanoseconds; ok is false
// if there are none. It must be called until then.
func (s *Schedule) Before(offset, time int64) (due Due, ok bool) {
	if len(s.steps) > 0 {
		st := s.steps[0]
		switch n := s.count(st.next, time); {
		case st.from != unknown && st.from <= offset:
			return s.take(st.next, st.from), true
		case st.from != unknown:
		case s.firstKnown() <= offset, n == s.count(st.next, math.MaxInt64):
			return s.guess(st.next, offset), true
		case n > 0:
			return s.guess(s.records[n-1].Offset+1, offset), true
		}
	}
	s.folded = true
	return Due{}, false
}

// UpTo returns records before an offset of the topic, because a row of a snapshot is as of there and of the next record of
// requests[p] at offset. It must be called until ok is false.
func (s *Schedule) UpTo(control, offset int64) (due Due, ok bool) {
	switch {
	case s.at >= control || len(s.steps) == 0:
		return Due{}, false
	case s.steps[0].next <= control:
		return s.first(offset), true
	}
	return s.guess(control, offset), true
}

// Rest returns what is left when the next record of requests[p], at offset, is not there yet. It must be called until ok is false.
func (s *Schedule) Rest(offset int64) (due Due, ok bool) {
	if len(s.steps) == 0 {
		return Due{}, false
	}
	return s.first(offset), true
}

// first takes the first step at an offset of requests[p] that is not before its place.
func (s *Schedule) first(offset int64) Due {
	st := s.steps[0]
	if st.from == unknown {
		return s.guess(st.next, offset)
	}
	return s.take(st.next, min(st.from, offset))
}

// firstKnown returns the first place that is known.
func (s *Schedule) firstKnown() int64 {
	for _, st := range s.steps {
		if st.from != unknown {
			return st.from
		}
	}
	return math.MaxInt64
}

// count returns how many records are before an offset of the topic, up to the first that is newer than a time.
func (s *Schedule) count(next, time int64) (n int) {
	for n < len(s.records) && s.records[n].Offset < next && s.records[n].Control.Time <= time {
		n++
	}
	return n
}

func (s *Schedule) guess(next, from int64) Due {
	due := s.take(next, from)
	if s.folded {
		s.Guessed += uint64(len(due.Records))
	}
	return due
}

func (s *Schedule) take(next, from int64) Due {
	n := s.count(next, math.MaxInt64)
	due := Due{schemas.ControlPlace{From: from, First: s.at, Next: next}, s.records[:n:n], s.steps[0].noted}
	s.records, s.at = s.records[n:], next
	if s.steps[0].next <= next {
		s.steps = s.steps[1:]
	}
	return due
}
