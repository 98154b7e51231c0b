package override

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/heap"
	"github.com/509da70d/floodgate/store/rows"
)

// Bounds on control records, for each partition.
const (
	MaxRecords  = 1 << 17 // records that are remembered
	MaxOfCaller = 64      // records in force about one caller
	MaxModes    = 256     // mode records in force

	// maxRules bounds how many rules are kept for closures of control records: two for each kind of caller.
	maxRules = 1024
)

// Errors of Records.Apply. Test with errors.Is; Reason turns them into metric labels.
var (
	ErrFull   = errors.New("too many control records")
	ErrCaller = errors.New("too many control records about one caller")
	ErrModes  = errors.New("too many mode records")
	ErrOver   = errors.New("control record is over")
	ErrAction = errors.New("unknown action of a control record")
)

// Reason returns the reason under which Stats.Refused counts an error of Apply: a short word, from a fixed list. It is "" for nil.
func Reason(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrFull):
		return "full"
	case errors.Is(err, ErrCaller):
		return "caller"
	case errors.Is(err, ErrModes):
		return "modes"
	case errors.Is(err, ErrOver):
		return "over"
	}
	return "action"
}

// Counts is how many control records are in force, by their action.
type Counts [schemas.ControlMode + 1]int

// Sum returns how many there are of all actions.
func (c *Counts) Sum() int {
	sum := 0
	for _, n := range c {
		sum += n
	}
	return sum
}

// Effect is what changes when a record is applied, is undone or ends. The zero value is no change.
type Effect struct {
	Record        *Record // nil if nothing changes; only for reading
	Before, After List    // in force: mode records if Record.Action is ControlMode, else those about Record.Caller; empty for a reset
	ByPerson      bool    // a person has applied or undone the record; else its time is over
}

// Records holds the control records of a partition. Callers are found through a Go map, which is seeded: nobody can choose ids that collide
// in it. New makes one. One goroutine may use it.
type Records struct {
	byID    map[schemas.ControlID]*storedRecord // all that are remembered
	callers map[schemas.Caller]List             // records in force, by caller
	modes   List                                // mode records in force
	list    []*storedRecord                     // all records, by offset unless unsorted is set; some of them may be forgotten
	ends    heap.Heap[*storedRecord]            // all records; the one that ends first comes first, of two equal ones the older
	dirty   []*storedRecord
	removed rows.Removed
	rules   map[ruleKey]*rules.Rule
	inForce Counts
	applied uint64
	refused map[string]uint64
	noStore bool

	unsorted  bool // records came into list out of order, as from a store
	forgotten int  // how many records of list are forgotten
}

// ruleKey tells apart the rules that are named schemas.ControlRule.
type ruleKey struct {
	kind string
	mode schemas.Mode
}

// New returns an empty Records. With noStore it keeps no list of what a store must commit.
func New(noStore bool) *Records {
	return &Records{
		byID: make(map[schemas.ControlID]*storedRecord), callers: make(map[schemas.Caller]List), noStore: noStore,
		rules: make(map[ruleKey]*rules.Rule), refused: make(map[string]uint64), removed: make(rows.Removed),
		ends: heap.New(func(a, b **storedRecord) bool {
			return cmp.Or(cmp.Compare((*a).End(), (*b).End()), cmp.Compare((*a).Offset, (*b).Offset)) < 0
		}, nil),
	}
}

// Apply applies a record of the control topic at log time now. See fold.Fold.Control for from and offset. A record that is refused
// changes nothing, and is counted.
func (s *Records) Apply(c *schemas.Control, from, offset, now int64) (Effect, error) {
	e, err := s.apply(c, from, offset, now)
	if err != nil {
		s.refused[Reason(err)]++
	}
	return e, err
}

func (s *Records) apply(c *schemas.Control, from, offset, now int64) (Effect, error) {
	if s.byID[c.ID] != nil || c.Action == schemas.ControlRules {
		return Effect{}, nil
	}
	if c.Action == schemas.ControlUndo {
		return s.undo(c), nil
	}
	r := &storedRecord{Record: Record{Control: *c, Offset: offset, From: from, At: now}}
	r.Text = nil
	switch {
	case c.Action < schemas.ControlClose || c.Action > schemas.ControlMode:
		return Effect{}, fmt.Errorf("%w: got %d", ErrAction, c.Action)
	case r.End() <= now:
		return Effect{}, fmt.Errorf("%w: it ended at %d, and log time is %d", ErrOver, r.End(), now)
	case len(s.byID) >= MaxRecords:
		return Effect{}, fmt.Errorf("%w: got one more than the %d that are remembered", ErrFull, MaxRecords)
	case c.Action == schemas.ControlMode && s.modes.Len() >= MaxModes:
		return Effect{}, fmt.Errorf("%w: got one more than the %d that are in force", ErrModes, MaxModes)
	case c.Action != schemas.ControlReset && s.callers[c.Caller].Len() >= MaxOfCaller:
		return Effect{}, fmt.Errorf("%w: got one more than the %d that are in force", ErrCaller, MaxOfCaller)
	}
	s.remember(r)
	s.changed(r)
	s.applied++
	e := Effect{Record: &r.Record, ByPerson: true}
	if r.inForce() {
		e.Before, e.After = s.replace(r, List.with)
	}
	return e, nil
}

// Knows reports whether the record was applied before and is remembered, so that Apply changes nothing.
func (s *Records) Knows(c *schemas.Control) bool {
	if c.Action != schemas.ControlUndo {
		return s.byID[c.ID] != nil
	}
	r := s.byID[c.Target]
	return r != nil && r.UndoneBy != nil && r.UndoneBy.ID == c.ID
}

// undo ends the effect of a record, if it has one.
func (s *Records) undo(c *schemas.Control) Effect {
	r := s.byID[c.Target]
	if r == nil || !r.inForce() {
		return Effect{}
	}
	s.applied++
	e := s.end(r)
	e.ByPerson = true
	undo := *c
	r.UndoneBy = &undo
	s.changed(r)
	return e
}

// end takes a record out of the list in which it is in force.
func (s *Records) end(r *storedRecord) Effect {
	s.inForce[r.Action]--
	e := Effect{Record: &r.Record}
	e.Before, e.After = s.replace(r, List.without)
	return e
}

// replace applies a change to the list that a record belongs to.
func (s *Records) replace(r *storedRecord, change func(List, *storedRecord) List) (before, after List) {
	if r.Action == schemas.ControlMode {
		before, s.modes = s.modes, change(s.modes, r)
		return before, s.modes
	}
	before = s.callers[r.Caller]
	if after = change(before, r); after.Len() == 0 {
		delete(s.callers, r.Caller)
	} else {
		s.callers[r.Caller] = after
	}
	return before, after
}

// NextEnd returns the log time at which the first record ends; math.MaxInt64 if there is none.
func (s *Records) NextEnd() int64 {
	if s.ends.Len() == 0 {
		return math.MaxInt64
	}
	return (*s.ends.At(0)).End()
}

// Expire forgets the record that ends first, if its time is over at log time t, and returns when it ended.
func (s *Records) Expire(t int64) (e Effect, end int64, ok bool) {
	if s.ends.Len() == 0 || s.NextEnd() > t {
		return Effect{}, 0, false
	}
	r := s.ends.Remove(0)
	s.forget(r)
	if r.inForce() {
		e = s.end(r)
	}
	return e, r.End(), true
}

// remember adds a record, but does not put it into force.
func (s *Records) remember(r *storedRecord) {
	s.byID[r.ID] = r
	s.unsorted = s.unsorted || len(s.list) > 0 && s.list[len(s.list)-1].Offset > r.Offset
	s.list = append(s.list, r)
	s.ends.Add(r)
	if r.inForce() {
		s.inForce[r.Action]++
	}
}

// forget removes a record that is no longer in ends.
func (s *Records) forget(r *storedRecord) {
	delete(s.byID, r.ID)
	s.removed.Add(r.key(), r.stored)
	r.forgotten = true
	if s.forgotten++; 2*s.forgotten > len(s.list) {
		s.list = slices.DeleteFunc(s.list, func(r *storedRecord) bool { return r.forgotten })
		s.forgotten = 0
	}
}

// Of returns the records in force about a caller.
func (s *Records) Of(c schemas.Caller) List { return s.callers[c] }

// AboutCallers reports whether there are records in force about any caller.
func (s *Records) AboutCallers() bool { return len(s.callers) > 0 }

// Modes returns the mode records in force.
func (s *Records) Modes() List { return s.modes }

// Shadows returns the rules, in shadow mode where the mode records in force say so.
func (s *Records) Shadows(set *rules.Set) *rules.Set {
	if s.modes.Len() == 0 {
		return set
	}
	return set.WithShadow(func(rule string) bool { return s.modes.shadow(rule) != nil })
}

// Closure returns the closure that the records of l give a caller, and the rule of that closure. modes are the mode records in force. If
// there is no closure, it is zero. The rule has the name schemas.ControlRule, and a window that counts nothing.
func (s *Records) Closure(kind string, l, modes List) (policy.Closure, *rules.Rule) {
	c, newest := l.closure()
	key := ruleKey{kind, modes.modeAfter(newest)}
	r := s.rules[key]
	if r == nil {
		if len(s.rules) >= maxRules {
			clear(s.rules)
		}
		r = &rules.Rule{Name: schemas.ControlRule, Kind: kind, Limit: 1, Mode: key.mode, Window: window.NewFixed(time.Hour)}
		s.rules[key] = r
	}
	return c, r
}

// Callers returns the callers that records in force are about, in no particular order.
func (s *Records) Callers() iter.Seq2[schemas.Caller, List] {
	return func(yield func(schemas.Caller, List) bool) {
		for c, l := range s.callers {
			if !yield(c, l) {
				return
			}
		}
	}
}

// All returns copies of the remembered records from an offset on, in the order of the control topic. Its cost grows with the number of
// records that are read. To continue later, begin after the offset of the last one.
func (s *Records) All(offset int64) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		s.sort()
		at, _ := slices.BinarySearchFunc(s.list, offset, compareOffset)
		for _, r := range s.list[at:] {
			if !r.forgotten && !yield(r.Record) {
				return
			}
		}
	}
}

// sort puts list in order.
func (s *Records) sort() {
	if s.unsorted {
		slices.SortFunc(s.list, func(a, b *storedRecord) int { return cmp.Compare(a.Offset, b.Offset) })
		s.unsorted = false
	}
}

// Stats is what is in force, and what was done since New.
type Stats struct {
	InForce Counts
	Applied uint64            // each record once
	Refused map[string]uint64 // by Reason
}

// Stats returns the counters. Its map changes with the next record.
func (s *Records) Stats() Stats { return Stats{s.inForce, s.applied, s.refused} }
