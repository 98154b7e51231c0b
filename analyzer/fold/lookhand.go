package fold

import (
	"slices"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// HandLook is what control records in force do to one caller, whatever rules count it.
type HandLook struct {
	Closure policy.Closure // by hand: it may lie ahead, or be over; Nth is 0 if there is none
	Mode    schemas.Mode   // of that closure
	Record  *Manual        // that decides until when it lasts; nil if there is none
	Brake   *Manual        // that puts it into mode shadow; nil if none does
}

// lookHand returns what control records do to a caller.
func (f *Fold) lookHand(c schemas.Caller) (l HandLook) {
	h := f.manual.hands[c]
	if h == nil {
		return l
	}
	closure, rule := f.closedByHand(c.Kind, h)
	if closure.Nth == 0 {
		return l
	}
	l.Closure, l.Mode = closure, rule.Mode
	for _, m := range slices.Backward(h.records) {
		if m.Action == schemas.ControlClose && m.Until == closure.Until && m.Time == closure.CloseAt {
			l.Record = m.public()
			break
		}
	}
	if rule.Mode == schemas.ModeShadow {
		l.Brake = f.modeBy(schemas.ManualRule)
	}
	return l
}

// lookLimit returns the records that give a caller its limit under a rule, and that take it away; nil where none does.
func (f *Fold) lookLimit(c schemas.Caller, rule string) (limit, opened *Manual) {
	h := f.manual.hands[c]
	if h == nil {
		return nil, nil
	}
	for _, m := range slices.Backward(h.records) {
		switch {
		case m.opens(rule) && opened == nil:
			opened = m.public()
		case m.Action == schemas.ControlLimit && m.Rule == rule:
			return m.public(), opened
		}
	}
	return nil, opened
}

// modeBy returns the newest mode record in force about a rule, or nil.
func (f *Fold) modeBy(rule string) *Manual {
	at := f.manual.shadows(rule)
	for _, m := range f.manual.modes {
		if m.offset == at {
			return m.public()
		}
	}
	return nil
}

// public returns the record as others see it.
func (m *manual) public() *Manual {
	return &Manual{Control: m.Control, Offset: m.offset, From: m.from, At: m.at, Undone: m.undo != nil, UndoneBy: m.undo}
}
