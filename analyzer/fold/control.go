package fold

import (
	"errors"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// Bounds on control records, for each partition.
const (
	MaxManual   = 1 << 17 // records that are remembered
	MaxOfCaller = 64      // records in force about one caller
	MaxModes    = 256     // mode records in force

	// ResetMemory is for how long after its Time a reset is remembered, by log time. All other records are remembered until their
	// Until. A copy that comes later has no effect.
	ResetMemory = 24 * time.Hour
)

// Errors of Fold.Control. Test with errors.Is; ControlReason turns them into metric labels.
var (
	ErrManualFull   = errors.New("too many control records")
	ErrManualCaller = errors.New("too many control records about one caller")
	ErrManualModes  = errors.New("too many mode records")
	ErrManualOver   = errors.New("control record is over")
	ErrManualAction = errors.New("unknown action of a control record")
)

// ControlReason returns the reason under which Stats.ControlRefused counts an error of Fold.Control: a short word, from a fixed
// list. It is "" for nil.
func ControlReason(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrManualFull):
		return "full"
	case errors.Is(err, ErrManualCaller):
		return "caller"
	case errors.Is(err, ErrManualModes):
		return "modes"
	case errors.Is(err, ErrManualOver):
		return "over"
	}
	return "action"
}

// Control applies a record of the control topic, which pb.DecodeControl has checked, between two records of requests. from is the
// next offset of requests[p] to fold, and offset is the record's own in the control topic, by which it is newer or older than others.
// The owner gives the fold only the records about callers of its partition and those that are Global, and notes the place: it is
// part of what the fold depends on. What the record changes is added to what TakeChanges returns.
//
// A record whose id is known changes nothing, nor does one that undoes a record which is not, and the error is nil. A record that is
// refused changes nothing either, and is counted in Stats.
func (f *Fold) Control(c *schemas.Control, from, offset int64) error {
	f.offset = max(from-1, 0)
	err := f.control(c, from, offset)
	if err != nil {
		f.manual.refused[ControlReason(err)]++
	}
	return err
}

func (f *Fold) control(c *schemas.Control, from, offset int64) error {
	s := &f.manual
	if s.byID[c.ID] != nil || c.Action == schemas.ControlRules {
		return nil
	}
	if c.Action == schemas.ControlUndo {
		f.undo(c)
		return nil
	}
	m := &manual{Control: *c, offset: offset, from: from, at: f.now}
	m.Text = nil
	switch {
	case c.Action < schemas.ControlClose || c.Action > schemas.ControlMode:
		return fmt.Errorf("%w: got %d", ErrManualAction, c.Action)
	case m.end() <= f.now:
		return fmt.Errorf("%w: it ended at %d, and log time is %d", ErrManualOver, m.end(), f.now)
	case len(s.byID) >= MaxManual:
		return fmt.Errorf("%w: got one more than the %d that are remembered", ErrManualFull, MaxManual)
	case c.Action == schemas.ControlMode && len(s.modes) >= MaxModes:
		return fmt.Errorf("%w: got one more than the %d that are in force", ErrManualModes, MaxModes)
	case c.Action != schemas.ControlReset && s.hands[c.Caller] != nil && len(s.hands[c.Caller].records) >= MaxOfCaller:
		return fmt.Errorf("%w: got one more than the %d that are in force", ErrManualCaller, MaxOfCaller)
	}
	s.remember(m)
	f.manualChanged(m)
	s.applied++
	switch c.Action {
	case schemas.ControlReset:
		f.reset(c)
	case schemas.ControlMode:
		f.changeModes(func() { s.modes = insertManual(s.modes, m) })
	default:
		f.changeHand(c.Caller, true, func(h *hand) { h.records = insertManual(h.records, m) })
	}
	return nil
}

// undo ends the effect of a record, if it has one.
func (f *Fold) undo(c *schemas.Control) {
	m := f.manual.byID[c.Target]
	if m == nil || !m.inForce() {
		return
	}
	f.manual.applied++
	end := *c
	f.endEffect(m, true, func() { m.undo = &end })
	f.manualChanged(m)
}

// endEffect takes a record in force out of force. note is called when it still is.
func (f *Fold) endEffect(m *manual, byHand bool, note func()) {
	is := func(o *manual) bool { return o == m }
	s := &f.manual
	s.inForce[m.Action]--
	if m.Action == schemas.ControlMode {
		f.changeModes(func() { s.modes = deleteManual(s.modes, is) })
	} else {
		f.changeHand(m.Caller, byHand, func(h *hand) { h.records = deleteManual(h.records, is) })
	}
	note()
}

// expireManual ends the records whose time is over at log time t, in the order of their ends. Each is ended at its own time, so that
// what follows does not depend on when the next entry comes.
func (f *Fold) expireManual(t int64) {
	s := &f.manual
	for s.next <= t && s.ends.Len() > 0 {
		m := s.takeFirst()
		f.now = max(f.now, m.end())
		s.forget(m)
		f.removed.add(m.key(), m.stored)
		if m.inForce() {
			f.endEffect(m, false, func() {})
		}
	}
}

// reset drops a caller's rows, and opens what they had closed.
func (f *Fold) reset(c *schemas.Control) {
	id := f.ids.hash(c.Caller.ID)
	for _, rule := range f.rulesOf(c.Caller.Kind) {
		def := f.set.Rules[rule]
		if c.Rule != "" && c.Rule != def.Name {
			continue
		}
		hash := rowHash(id, rule)
		if w, waits := f.waiting.find(hash, rule); waits {
			f.waiting.remove(w)
		}
		i, ok := f.table.find(hash, rule, c.Caller.ID)
		if !ok {
			continue
		}
		row := f.table.row(i)
		if row.closure.Nth > 0 && f.now < row.closure.Until {
			row.closure.Until = f.now
			f.openedByHand(def, row)
		}
		f.endAhead(def, row)
		f.noteDropped(i, row)
		f.removed.add(AppendRowKey(nil, def.Name, def.Kind, row.id), row.stored)
		f.remove(i, row)
		f.leaveBuckets()
	}
}

// openedByHand reports that a row opened because a person said so. The closure ends when it began, so that gates open without delay.
func (f *Fold) openedByHand(rule *rules.Rule, r *row) {
	f.derived(rule, r, policy.Opened)
	c := &f.changes[len(f.changes)-1].Closure // an opening is the last change
	c.Until = min(c.Until, c.CloseAt)
}

// rulesOf returns the indexes of the rules about callers of a kind.
func (f *Fold) rulesOf(kind string) []int32 {
	for k := range f.kinds {
		if f.kinds[k].kind == kind {
			return f.kinds[k].rules
		}
	}
	return nil
}
