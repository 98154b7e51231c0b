package fold

import (
	"container/heap"
	"math"

	"github.com/509da70d/floodgate/schemas"
)

// ends says which closures end next by log time, so that each end is a Change. It is not stored: rows say the same. Entries may be out
// of date. A row whose closure ends later than its entry says gets another entry when its time comes, and one that was removed, opened
// or reported before has no flag. So a closure that moves with each entry costs nothing here. The zero value is empty.
type ends struct {
	heap endHeap
	next int64 // log time at which the first one may end; of no use while heap is empty
}

// end is a row whose closure may end at a time, in Unix nanoseconds.
type end struct {
	at  int64
	row *row
}

// add adds a row. It must have the flag hasEnd.
func (s *ends) add(at int64, r *row) {
	s.heap = append(s.heap, end{at, r})
	heap.Fix(&s.heap, len(s.heap)-1)
	s.next = s.heap[0].at
}

// take takes the first one. There must be one.
func (s *ends) take() end {
	first, last := s.heap[0], len(s.heap)-1
	s.heap.Swap(0, last)
	s.heap[last] = end{}
	if s.heap = s.heap[:last]; last > 0 {
		heap.Fix(&s.heap, 0)
	}
	if s.next = math.MaxInt64; last > 0 {
		s.next = s.heap[0].at
	}
	return first
}

// awaitEnd notes that a row's closure will end. before is when it was to end until now. One that is over already, as it was closed by an
// entry that came late, is reported at once: what is awaited is in no store.
func (f *Fold) awaitEnd(r *row, before int64) {
	switch {
	case !f.opts.Ends:
		return
	case r.closure.Until <= f.now:
		f.reportEnd(r)
		return
	case r.beside&hasEnd != 0 && before <= r.closure.Until:
		return
	}
	r.beside |= hasEnd
	f.ends.add(r.closure.Until, r)
}

// reportEnds reports the closures that have ended at log time t, at the time of their ends.
func (f *Fold) reportEnds(t int64) {
	for len(f.ends.heap) > 0 && f.ends.next <= t {
		r := f.ends.take().row
		switch {
		case r.rule < 0 || r.beside&hasEnd == 0:
			continue
		case r.closure.Until > t:
			f.ends.add(r.closure.Until, r)
			continue
		}
		f.reportEnd(r)
	}
}

// reportEnd reports that a row's closure has ended.
func (f *Fold) reportEnd(r *row) {
	r.beside &^= hasEnd
	rule := f.set.Rules[r.rule]
	limit, _ := f.limitOf(rule, r)
	f.changes = append(f.changes, Change{
		Rule: rule, Caller: schemas.Caller{Kind: rule.Kind, ID: r.id}, Ended: true, Closure: r.closure,
		Count: rule.Window.View(r.state, limit, r.closure.Until), Limit: limit, At: r.closure.Until, Offset: f.offset,
	})
}

// awaitEnds notes all rows that are closed at log time.
func (f *Fold) awaitEnds() {
	f.ends = ends{next: math.MaxInt64}
	if !f.opts.Ends {
		return
	}
	f.table.each(func(_ uint32, r *row) bool {
		r.beside &^= hasEnd
		if r.closure.Nth > 0 && f.now < r.closure.Until {
			f.awaitEnd(r, 0)
		}
		return true
	})
}

// endHeap is a heap (container/heap), the first to end before the others.
type endHeap []end

func (h endHeap) Len() int { return len(h) }

func (h endHeap) Less(i, j int) bool { return h[i].at < h[j].at }

func (h endHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push panics: add puts rows in place without it.
func (h *endHeap) Push(any) { panic("BUG: push into the heap of ends") }

// Pop panics: take takes rows without it.
func (h *endHeap) Pop() any { panic("BUG: pop from the heap of ends") }
