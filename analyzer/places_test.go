package analyzer

import (
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
)

// owned returns the takes and places of the control topic, in its order.
func (w *world) owned(a schemas.ControlAction) (list []schemas.Control) {
	w.t.Helper()
	for _, r := range w.log.Records("control", 0) {
		if c, err := pb.DecodeControl(r.Value); err == nil && c.Action == a {
			list = append(list, c)
		}
	}
	return list
}

// places returns the places that owners have appended.
func (w *world) places() []schemas.Control { return w.owned(schemas.ControlPlace) }

// controlEnd returns the offset behind the last record of the control topic.
func (w *world) controlEnd() int64 {
	w.t.Helper()
	_, end := w.log.Ends("control", 0)
	return end
}
