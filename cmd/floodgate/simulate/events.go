package simulate

import "github.com/509da70d/floodgate/schemas/heap"

// event is something that happens at a time. Of equal times, what was planned first happens first.
type event struct {
	at    int64 // Unix nanoseconds
	order uint64
	do    func()
}

// before orders events.
func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && e.order < other.order
}

// timeline is virtual time: it goes from one event to the next. newTimeline makes one, at time 0 and without events.
type timeline struct {
	now     int64 // Unix nanoseconds
	planned uint64
	events  heap.Heap[event]
}

func newTimeline() timeline { return timeline{events: heap.New((*event).before, nil)} }

// at plans what is done at a time, which is now or later.
func (t *timeline) at(at int64, do func()) {
	t.planned++
	t.events.Add(event{max(at, t.now), t.planned, do})
}

// advance runs the events that are planned up to a time, and sets the time.
func (t *timeline) advance(to int64) {
	for t.events.Len() > 0 && t.events.At(0).at <= to {
		e := t.events.Remove(0)
		t.now = e.at
		e.do()
	}
	t.now = max(t.now, to)
}
