package simulate

import "container/heap"

// event is something that happens at a time. Of equal times, what was planned first happens first.
type event struct {
	at    int64 // Unix nanoseconds
	order uint64
	do    func()
}

// events is a heap.Interface.
type events []event

// Len implements heap.Interface.
func (e events) Len() int { return len(e) }

// Less implements heap.Interface.
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}

// Swap implements heap.Interface.
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { *e = append(*e, x.(event)) } //nolint:errcheck,forcetypeassert // heap.Push is given an event

// Pop implements heap.Interface.
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

// timeline is virtual time: it goes from one event to the next. The zero value is at time 0, without events.
type timeline struct {
	now     int64 // Unix nanoseconds
	planned uint64
	events  events
}

// at plans what is done at a time, which is now or later.
func (t *timeline) at(at int64, do func()) {
	t.planned++
	heap.Push(&t.events, event{max(at, t.now), t.planned, do})
}

// advance runs the events that are planned up to a time, and sets the time.
func (t *timeline) advance(to int64) {
	for len(t.events) > 0 && t.events[0].at <= to {
		e := heap.Pop(&t.events).(event) //nolint:errcheck,forcetypeassert // it holds nothing else
		t.now = e.at
		e.do()
	}
	t.now = max(t.now, to)
}
