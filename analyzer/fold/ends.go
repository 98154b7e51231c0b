package fold

import "github.com/509da70d/floodgate/schemas/heap"

// ends says which closures end next by log time, so that each end is a Change. It is not stored: rows say the same. Entries may be out
// of date. A row whose closure ends later than its entry says gets another entry when its time comes, and one that was removed, opened
// or reported before has no flag. So a closure that moves with each entry costs nothing here. newEnds makes one.
type ends struct {
	heap.Heap[end]

	on bool // ends are to be reported: see Options.Ends
}

// end is a row whose closure may end at a time, in Unix nanoseconds.
type end struct {
	at  int64
	row *row
}

func newEnds(on bool) ends {
	return ends{heap.New(func(a, b *end) bool { return a.at < b.at }, nil), on}
}

// due reports whether the first closure may have ended at a time.
func (s *ends) due(t int64) bool { return s.Len() > 0 && s.At(0).at <= t }

// await notes that a row's closure will end. before is when it was to end until now.
func (s *ends) await(r *row, before int64) {
	if s.on && (r.flags&hasEnd == 0 || before > r.closure.Until) {
		r.flags |= hasEnd
		s.Add(end{r.closure.Until, r})
	}
}

// take returns a row whose closure has ended at log time t, or nil.
func (s *ends) take(t int64) *row {
	for s.due(t) {
		r := s.Remove(0).row
		switch {
		case r.rule < 0 || r.flags&hasEnd == 0:
		case r.closure.Until > t:
			s.Add(end{r.closure.Until, r})
		default:
			return r
		}
	}
	return nil
}
