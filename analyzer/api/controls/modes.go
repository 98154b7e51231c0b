package controls

import (
	"slices"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/schemas"
)

// maxModes is how many mode records a Follower keeps, beside its records. It forgets the oldest. Owners refuse more than 256 in force.
const maxModes = 1024

// modes are the mode records that nobody has undone, in the order of the topic. They are known however many other records come.
type modes []api.Record

func (m *modes) add(r *api.Record) {
	switch {
	case r.Action == schemas.ControlUndo:
		*m = slices.DeleteFunc(*m, func(mode api.Record) bool { return mode.ID == r.Target })
	case r.Action == schemas.ControlMode && !slices.ContainsFunc(*m, func(mode api.Record) bool { return mode.ID == r.ID }):
		*m = append(*m, *r)
		if len(*m) > maxModes {
			*m = slices.Delete(*m, 0, 1)
		}
	}
}

// Modes returns the newest 1024 mode records that nobody has undone, without Text, the newest first. The time of some may be over.
func (f *Follower) Modes() []api.Record {
	f.mu.RLock()
	defer f.mu.RUnlock()
	list := slices.Clone(f.modes)
	slices.Reverse(list)
	return list
}
