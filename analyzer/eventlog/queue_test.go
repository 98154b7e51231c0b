package eventlog

import (
	"fmt"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// closed is the event of a close at an offset.
func closed(offset int64) *event.Event {
	e := event.Event{
		Type: event.Closed, Time: time.Unix(offset, 0).UTC(), Offset: offset, Caller: event.CallerOf(schemas.Caller{Kind: "key", ID: fmt.Sprint("c", offset)}),
		Rule: "r", Mode: "enforce", CloseAt: time.Unix(offset, 0).UTC(), Until: time.Unix(offset+60, 0).UTC(), Nth: 1,
	}
	e.Identify()
	return &e
}

// begun returns a queue of a log that begins, with events at these offsets; all before next was folded.
func begun(next int64, offsets ...int64) *Queue {
	q := NewQueue()
	q.Begin(0)
	for _, at := range offsets {
		q.Add(closed(at))
	}
	q.Reach(next)
	return q
}

// ack acknowledges up to n events, and returns how many there were.
func ack(q *Queue, n int) int {
	list, last := q.Batch(n)
	q.Ack(last)
	return len(list)
}

// TestTheMarkIsTheOldestThatWaits: all events before the mark are in the topic.
func TestTheMarkIsTheOldestThatWaits(t *testing.T) {
	t.Parallel()
	q := begun(20, 5, 9, 9, 14)
	for _, want := range []int64{5, 9, 9, 14, 20} {
		if got := q.Mark(); got != want {
			t.Errorf("got mark %d, want %d", got, want)
		}
		ack(q, 1)
	}
	if q.Reach(25); q.Mark() != 25 || !q.Empty() {
		t.Errorf("got mark %d, want 25", q.Mark())
	}
	if s := q.Stats(); s.Written[event.Closed] != 4 || s.Pending != 0 || s.Written[event.Gap] != 0 {
		t.Errorf("got %+v, want 4 closes", s)
	}
}

// TestWhatIsInTheTopicIsNotAddedAgain: an owner that folds again says nothing twice of what is before the mark.
func TestWhatIsInTheTopicIsNotAddedAgain(t *testing.T) {
	t.Parallel()
	q := NewQueue()
	q.Begin(10)
	for _, at := range []int64{3, 9, 10, 11} {
		q.Add(closed(at))
	}
	if list, _ := q.Batch(9); len(list) != 2 || list[0].Offset != 10 {
		t.Errorf("got %+v, want the events of 10 and 11", list)
	}
	if q.Mark() != 10 {
		t.Errorf("got mark %d, want 10", q.Mark())
	}
}

// TestWhatDoesNotFitIsOneGap: a storm while the topic takes nothing.
func TestWhatDoesNotFitIsOneGap(t *testing.T) {
	t.Parallel()
	q := begun(0)
	const more = 1000
	for i := range int64(MaxPending + more) {
		q.Add(closed(i))
	}
	q.Reach(MaxPending + more)
	if s := q.Stats(); s.Pending != MaxPending+1 || s.Gaps != 1 || s.Lost != more {
		t.Fatalf("got %+v, want %d events and one gap of %d", s, MaxPending, more)
	}
	if n := ack(q, MaxPending); n != MaxPending || q.Mark() != MaxPending {
		t.Errorf("got %d events and mark %d, want the mark where the gap begins: %d", n, q.Mark(), MaxPending)
	}
	q.Add(closed(MaxPending + more)) // there is room again
	list, last := q.Batch(10)
	if len(list) != 2 || list[0].Type != event.Gap || list[0].From != MaxPending || list[0].To != MaxPending+more || list[0].Lost != more {
		t.Fatalf("got %+v, want the gap, and what came after it", list)
	}
	if got, err := event.Decode(list[0].Encode()); err != nil || got.ID == "" {
		t.Errorf("got %+v, %v, want a gap that can be read", got, err)
	}
	q.Ack(last)
	if !q.Empty() {
		t.Error("got events left, want none")
	}
}

// TestAGapThatIsOnItsWayDoesNotGrow: what is written must not change.
func TestAGapThatIsOnItsWayDoesNotGrow(t *testing.T) {
	t.Parallel()
	q := begun(0)
	for i := range int64(MaxPending + 1) {
		q.Add(closed(i))
	}
	list, last := q.Batch(MaxPending + 1)
	q.Add(closed(MaxPending + 1))
	if gap := list[MaxPending]; gap.Type != event.Gap || gap.To != MaxPending+1 {
		t.Fatalf("got %+v, want a gap up to %d", gap, MaxPending+1)
	}
	q.Ack(last)
	if list, _ := q.Batch(9); len(list) != 1 || list[0].From != MaxPending+1 || list[0].Lost != 1 {
		t.Errorf("got %+v, want another gap", list)
	}
}

// TestLongEventsAreBoundedByBytes: reasons and ids are long where somebody makes them so.
func TestLongEventsAreBoundedByBytes(t *testing.T) {
	t.Parallel()
	q := begun(0)
	e := closed(1)
	e.Reason = string(make([]byte, maxPendingBytes/4))
	for range 10 {
		q.Add(e)
	}
	if s := q.Stats(); s.Pending != 4 || s.Gaps != 1 {
		t.Errorf("got %+v, want 3 events and a gap", s)
	}
}

// TestARepeatedWarningIsOne: as long as it is remembered.
func TestARepeatedWarningIsOne(t *testing.T) {
	t.Parallel()
	q := begun(0)
	warned := func(n int64) *event.Event {
		e := closed(n)
		e.Type, e.Share = event.Warned, 0.8
		e.IdentifyWithin(time.Second)
		return e
	}
	for range 3 {
		q.Add(warned(1))
		q.Add(closed(2)) // others are never dropped
	}
	if s := q.Stats(); s.Pending != 4 {
		t.Errorf("got %d events, want 1 warning and 3 closes", s.Pending)
	}
	for n := range int64(2 * maxWarned) {
		q.Add(warned(n + 10))
	}
	if len(q.warned) > maxWarned {
		t.Errorf("got %d warnings remembered, want at most %d", len(q.warned), maxWarned)
	}
}

// TestAGapAtTheBegin: an owner that does not know what was written says so.
func TestAGapAtTheBegin(t *testing.T) {
	t.Parallel()
	q := NewQueue()
	q.Begin(50)
	q.AddGap(0, 10, 50, 0)
	q.Add(closed(60))
	q.Reach(70)
	if q.Mark() != 10 {
		t.Errorf("got mark %d, want 10: the gap is not written", q.Mark())
	}
	if ack(q, 1); q.Mark() != 60 {
		t.Errorf("got mark %d, want 60", q.Mark())
	}
}

// TestWhoIsAcked: a snapshot waits for the events before its end.
func TestWhoIsAcked(t *testing.T) {
	t.Parallel()
	q := begun(9, 1, 2)
	number := q.Newest()
	q.Add(closed(9))
	if q.Acked(number) {
		t.Error("got acknowledged, want not")
	}
	if ack(q, 1); q.Acked(number) {
		t.Error("got acknowledged after the first of two, want not")
	}
	if ack(q, 1); !q.Acked(number) || q.Acked(q.Newest()) {
		t.Error("got not acknowledged, want that all before are, and the third is not")
	}
	if empty := NewQueue(); !empty.Acked(empty.Newest()) {
		t.Error("got not acknowledged where there was nothing, want it")
	}
}
