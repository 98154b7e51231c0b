package controls

import (
	"slices"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/schemas"
)

// maxVersions is how many versions of the rules a Follower keeps, beside its records. It forgets the oldest.
const maxVersions = 4096

// versions are the first notes of versions of the rules, in the order of the topic. Two analyzers that take over a file at
// once may both note it: the first note counts.
type versions struct {
	notes []api.Record
	byID  map[uint64]bool
}

func (v *versions) add(r *api.Record) {
	if r.Action != schemas.ControlRules || v.byID[r.RulesID] {
		return
	}
	if len(v.notes) >= maxVersions {
		n := maxVersions/8 + 1
		for i := range v.notes[:n] {
			delete(v.byID, v.notes[i].RulesID)
		}
		v.notes = slices.Clone(v.notes[n:])
	}
	if v.byID == nil {
		v.byID = make(map[uint64]bool)
	}
	v.byID[r.RulesID] = true
	v.notes = append(v.notes, *r)
}

// Versions returns the first note of each version of the rules, without Text, the newest first.
func (f *Follower) Versions() []api.Record {
	f.mu.RLock()
	defer f.mu.RUnlock()
	list := slices.Clone(f.versions.notes)
	slices.Reverse(list)
	return list
}

// Version returns the first note of the rules with an id, without Text.
func (f *Follower) Version(id uint64) (api.Record, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if !f.versions.byID[id] {
		return api.Record{}, false
	}
	at := slices.IndexFunc(f.versions.notes, func(r api.Record) bool { return r.RulesID == id })
	return f.versions.notes[at], true
}
