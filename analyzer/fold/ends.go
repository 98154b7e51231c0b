package fold

import (
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/heap"
)

// ends says which closures end next by log time, so that each end is a Change. It is not stored: rows say the same. Entries may be out
// of date. A row whose closure ends later than its entry says gets another entry when its time comes, and one that was removed, opened
// or reported before has no flag. So a closure that moves with each entry costs nothing here. newEnds makes one.
type ends struct{ heap.Heap[end] }

// end is a row whose closure may end at a time, in Unix nanoseconds.
type end struct {
	at  int64
	row *row
}

func newEnds() ends { return ends{heap.New(func(a, b *end) bool { return a.at < b.at }, nil)} }

// due reports whether the first closure may have ended at a time.
func (s *ends) due(t int64) bool { return s.Len() > 0 && s.At(0).at <= t }

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
	f.ends.Add(end{r.closure.Until, r})
}

// reportEnds reports the closures that have ended at log time t, at the time of their ends.
func (f *Fold) reportEnds(t int64) {
	for f.ends.due(t) {
		r := f.ends.Remove(0).row
		switch {
		case r.rule < 0 || r.beside&hasEnd == 0:
			continue
		case r.closure.Until > t:
			f.ends.Add(end{r.closure.Until, r})
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
	f.ends.Clear()
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
