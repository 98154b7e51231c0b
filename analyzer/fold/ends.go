package fold

import "github.com/509da70d/floodgate/schemas/heap"

// ends holds the times at which closures end, so that each end is reported as a Change. It is not stored, because it can be made again from
// the rows. Its items may be out of date. If a row's closure ends later than its item says, the row gets a new item when the old one comes
// first. A row that was removed, opened or reported has no flag hasEnd, and its item is ignored. So a closure that moves with each entry
// costs nothing here. newEnds makes one.
type ends struct {
	heap.Heap[end]

	on    bool // ends are to be reported: see Options.Ends
	rules *inForce
	old   int // items that forget has made out of date, at most, since removeOld was last called
}

// end is a row, and the time at which its closure may end, in Unix nanoseconds.
type end struct {
	at  int64
	row *row
}

func newEnds(on bool, rules *inForce) ends {
	return ends{Heap: heap.New(func(a, b *end) bool { return a.at < b.at }, nil), on: on, rules: rules}
}

// endOf returns when the closure of a row ends. One under a pool ends when no other one can be the same close. A close of requests in flight that
// goes on ends when the last of them is forgotten, unless responses end it before.
func (s *ends) endOf(r *row) int64 {
	rule := s.rules.set.Rules[r.rule]
	if rule.Pool != nil {
		return r.closure.Expiry(rule)
	}
	if r.flags&closeGoesOn != 0 {
		return max(r.closure.Until, rule.Window.Expiry(r.state))
	}
	return r.closure.Until
}

// due reports whether the first closure may have ended at a time.
func (s *ends) due(t int64) bool { return s.Len() > 0 && s.At(0).at <= t }

// await notes that a row's closure will end. before is the end that the closure had until now.
func (s *ends) await(r *row, before int64) {
	if s.on && (r.flags&hasEnd == 0 || before > r.closure.Until) {
		r.flags |= hasEnd
		s.Add(end{s.endOf(r), r})
	}
}

// forget notes that a row was opened before its closure ended. A caller with requests in flight may close and open many times
// before its first item comes, so items that are out of date are removed once they may be half of all.
func (s *ends) forget(r *row) {
	if r.flags&hasEnd == 0 {
		return
	}
	r.flags &^= hasEnd
	if s.old++; s.old > 64+s.Len()/2 {
		s.removeOld()
	}
}

// removeOld removes the items that are out of date, and leaves one of each row whose end is awaited.
func (s *ends) removeOld() {
	var awaited []*row
	for i := range s.Len() {
		if r := s.At(i).row; r.rule >= 0 && r.flags&hasEnd != 0 {
			r.flags &^= hasEnd
			awaited = append(awaited, r)
		}
	}
	s.Clear()
	for _, r := range awaited {
		r.flags |= hasEnd
		s.Add(end{s.endOf(r), r})
	}
	s.old = 0
}

// take returns a row whose closure has ended at log time t, or nil.
func (s *ends) take(t int64) *row {
	for s.due(t) {
		r := s.Remove(0).row
		switch {
		case r.rule < 0 || r.flags&hasEnd == 0:
		case s.endOf(r) > t:
			s.Add(end{s.endOf(r), r})
		default:
			return r
		}
	}
	return nil
}
