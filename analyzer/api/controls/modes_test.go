package controls

import (
	"slices"
	"testing"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/schemas"
)

// TestModesThatNobodyHasUndoneAreKnown, however many other records have come since. A copy of a record that was undone does not bring it back.
func TestModesThatNobodyHasUndoneAreKnown(t *testing.T) {
	f := New(Config{Max: 16})
	offset := int64(0)
	add := func(c *schemas.Control) {
		f.add(api.Record{Control: *c, Offset: offset})
		offset++
	}
	mode := func(n int) *schemas.Control { return &schemas.Control{ID: id(n), Action: schemas.ControlMode} }
	add(mode(1))
	add(mode(2))
	add(mode(3))
	add(undo(4, 2))
	add(mode(2))
	for n := range 100 {
		add(reset(1000 + n))
	}
	add(mode(3))
	got := func() (ids []int) {
		for _, r := range f.Modes() {
			ids = append(ids, int(r.ID[15]))
		}
		return ids
	}
	if ids := got(); !slices.Equal(ids, []int{3, 1}) {
		t.Errorf("got %v, want 3 and 1", ids)
	}
	for n := range 2 * maxModes {
		add(&schemas.Control{ID: schemas.ControlID{2, byte(n >> 8), byte(n)}, Action: schemas.ControlMode})
	}
	if list := f.Modes(); len(list) != maxModes || list[0].Offset != offset-1 {
		t.Errorf("got %d records, the newest at %d, want %d and %d", len(list), list[0].Offset, maxModes, offset-1)
	}
}
