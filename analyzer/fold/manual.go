package fold

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/heap"
)

// Manual is a control record that a fold remembers: one in force, one that was undone, or a reset.
type Manual struct {
	Control  schemas.Control
	Offset   int64            // of the control topic
	From     int64            // the first offset of requests[p] that was folded after it
	At       int64            // Unix nanoseconds: log time when it was applied; math.MinInt64 if nothing was folded before
	Undone   bool             // it is not in force any more
	UndoneBy *schemas.Control // the record that undid it, or nil; not to be changed
}

// manual is Manual as the fold keeps it.
type manual struct {
	schemas.Control

	offset, from, at int64
	undo             *schemas.Control // nil while it was not undone; never changed
	stored           uint64           // rows.Sum of the row as last committed; 0 if it never was
	dirty            bool
	gone             bool // forgotten, and perhaps on the list of the next checkpoint still
}

// end returns the log time from which on the record is forgotten.
func (m *manual) end() int64 {
	if m.Action == schemas.ControlReset {
		return integer.Add(m.Time, int64(ResetMemory))
	}
	return m.Until
}

// inForce reports whether a record that is remembered has an effect.
func (m *manual) inForce() bool { return m.undo == nil && m.Action != schemas.ControlReset }

// ManualCounts is how many control records are in force, by their action.
type ManualCounts [schemas.ControlMode + 1]int

// Sum returns how many there are of all actions.
func (c *ManualCounts) Sum() int {
	sum := 0
	for _, n := range c {
		sum += n
	}
	return sum
}

// manuals is the control records of a partition. Callers are found through a Go map, which is seeded: nobody can choose ids that
// collide in it. newManuals makes one.
type manuals struct {
	byID    map[schemas.ControlID]*manual // all that are remembered
	hands   map[schemas.Caller]*hand      // in force, about a caller
	modes   []*manual                     // in force, by offset
	list    []*manual                     // all by offset, unless unsorted, and some that are gone
	ends    heap.Heap[*manual]            // all, the first to end first; of two, the older one
	next    int64                         // log time at which the first one ends; math.MaxInt64 if there is none
	dirty   []*manual
	rules   map[manualRule]*rules.Rule
	inForce ManualCounts
	applied uint64
	refused map[string]uint64

	unsorted bool // records came into list out of order, as from a store
	gone     int  // in list
}

// hand is the records in force about one caller, by offset.
type hand struct{ records []*manual }

// maxManualRules bounds how many rules for closing by hand are kept at a time: two for each kind of caller.
const maxManualRules = 1024

// manualRule is what sets rules by the name of schemas.ManualRule apart.
type manualRule struct {
	kind string
	mode schemas.Mode
}

func newManuals() manuals {
	return manuals{
		byID: make(map[schemas.ControlID]*manual), hands: make(map[schemas.Caller]*hand), next: math.MaxInt64,
		rules: make(map[manualRule]*rules.Rule), refused: make(map[string]uint64),
		ends: heap.New(func(a, b **manual) bool {
			return cmp.Or(cmp.Compare((*a).end(), (*b).end()), cmp.Compare((*a).offset, (*b).offset)) < 0
		}, nil),
	}
}

// remember adds a record. Whether it is in force, its caller's hand must say as well.
func (s *manuals) remember(m *manual) {
	s.byID[m.ID] = m
	s.unsorted = s.unsorted || len(s.list) > 0 && s.list[len(s.list)-1].offset > m.offset
	s.list = append(s.list, m)
	s.ends.Add(m)
	s.next = (*s.ends.At(0)).end()
	if m.inForce() {
		s.inForce[m.Action]++
	}
}

// takeFirst takes the record that ends first out of the heap. There must be one.
func (s *manuals) takeFirst() *manual {
	m := *s.ends.At(0)
	s.takeEnd(0)
	return m
}

// takeEnd takes the record at an index out of the heap.
func (s *manuals) takeEnd(i int) {
	s.ends.Remove(i)
	s.next = math.MaxInt64
	if s.ends.Len() > 0 {
		s.next = (*s.ends.At(0)).end()
	}
}

// forget forgets a record that is not among ends any more. It may stay in list, and on the list of the next checkpoint.
func (s *manuals) forget(m *manual) {
	delete(s.byID, m.ID)
	m.gone = true
	if s.gone++; 2*s.gone > len(s.list) {
		s.list = slices.DeleteFunc(s.list, func(m *manual) bool { return m.gone })
		s.gone = 0
	}
}

// sort puts list in order.
func (s *manuals) sort() {
	if s.unsorted {
		slices.SortFunc(s.list, func(a, b *manual) int { return cmp.Compare(a.offset, b.offset) })
		s.unsorted = false
	}
}

// insertManual inserts a record by its offset.
func insertManual(list []*manual, m *manual) []*manual {
	at, _ := slices.BinarySearchFunc(list, m, func(a, b *manual) int { return cmp.Compare(a.offset, b.offset) })
	return slices.Insert(list, at, m)
}

// closure returns the closure by hand of a caller, and the offset of the record that decided; 0 and −1 if it has none. The
// newest of all records that close and open counts. Of those that close since, the one that ends last says from when until when.
func (h *hand) closure() (c policy.Closure, newest int64) {
	newest = -1
	for _, m := range slices.Backward(h.records) {
		if m.opens(schemas.ManualRule) {
			break
		}
		if m.Action != schemas.ControlClose {
			continue
		}
		newest = max(newest, m.offset)
		if m.Until > c.Until || c.Nth == 0 {
			c = policy.Closure{CloseAt: m.Time, Until: m.Until, Nth: 1}
		}
	}
	return c, newest
}

// deleteManual deletes the records that is says.
func deleteManual(list []*manual, is func(*manual) bool) []*manual {
	return slices.DeleteFunc(list, is)
}

// opens reports whether the record takes the limit of a rule away.
func (m *manual) opens(rule string) bool {
	return m.Action == schemas.ControlOpen && (m.Rule == "" || m.Rule == rule)
}

// limitUnder returns the limit that the records give a caller under a rule, or 0, and whether they take its limit away. The newest
// record counts. A caller that they open is counted under the limit that it would have otherwise.
func (h *hand) limitUnder(rule string) (limit int64, unlimited bool) {
	for _, m := range slices.Backward(h.records) {
		switch {
		case m.opens(rule):
			unlimited = true
		case m.Action == schemas.ControlLimit && m.Rule == rule:
			return m.Limit, unlimited
		}
	}
	return 0, unlimited
}

// shadows returns the offset of the newest mode record in force about a rule; −1 if there is none.
func (s *manuals) shadows(rule string) int64 {
	for _, m := range slices.Backward(s.modes) {
		if m.Rule == "" || m.Rule == rule {
			return m.offset
		}
	}
	return -1
}

// rule returns the rule under which callers of a kind are closed by hand. Its window is that of no count.
func (s *manuals) rule(kind string, mode schemas.Mode) *rules.Rule {
	key := manualRule{kind, mode}
	r := s.rules[key]
	if r == nil {
		if len(s.rules) >= maxManualRules {
			clear(s.rules)
		}
		r = &rules.Rule{Name: schemas.ManualRule, Kind: kind, Limit: 1, Mode: mode, Window: window.NewFixed(time.Hour)}
		s.rules[key] = r
	}
	return r
}

// mode returns the mode of a closure that a record at an offset decided, where shadows is what shadows says: the newest counts.
func modeOf(newest, shadows int64) schemas.Mode {
	if shadows > newest {
		return schemas.ModeShadow
	}
	return schemas.ModeEnforce
}

// Manual calls yield with every control record that is remembered, in the order of the control topic, until it returns false.
func (f *Fold) Manual(yield func(Manual) bool) { f.ManualFrom(0, yield) }

// ManualFrom is Manual from an offset of the control topic on. It costs as much as the records that it yields: who asks for some at a
// time goes on behind the offset of the last one.
func (f *Fold) ManualFrom(offset int64, yield func(Manual) bool) {
	s := &f.manual
	s.sort()
	at, _ := slices.BinarySearchFunc(s.list, offset, func(m *manual, offset int64) int { return cmp.Compare(m.offset, offset) })
	for _, m := range s.list[at:] {
		if m.gone {
			continue
		}
		if !yield(m.shown()) {
			return
		}
	}
}

// shown returns the record as others see it.
func (m *manual) shown() Manual {
	return Manual{Control: m.Control, Offset: m.offset, From: m.from, At: m.at, Undone: m.undo != nil, UndoneBy: m.undo}
}
