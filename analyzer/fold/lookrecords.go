package fold

import (
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// RecordLook is the closure that control records in force give one caller, whatever rules count it.
type RecordLook struct {
	Closure  policy.Closure   // it may lie ahead, or be over; Nth is 0 if there is none
	Mode     schemas.Mode     // of that closure
	By       *override.Record // that decides until when it lasts; nil if there is none
	ShadowBy *override.Record // that puts it into mode shadow; nil if none does
}

// lookRecords returns what control records do to a caller.
func (f *Fold) lookRecords(c schemas.Caller) (l RecordLook) {
	records, modes := f.records.Of(c), f.records.Modes()
	closure, rule := f.records.Closure(c.Kind, records, modes)
	if closure.Nth == 0 {
		return l
	}
	l.Closure, l.Mode, l.By = closure, rule.Mode, records.ClosedBy(closure)
	if rule.Mode == schemas.ModeShadow {
		l.ShadowBy = modes.Shadow(schemas.ManualRule)
	}
	return l
}
