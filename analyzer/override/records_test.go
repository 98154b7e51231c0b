package override

import (
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// TestARecordIsKnownWhileItIsRemembered: an undo is known as long as what it has undone.
func TestARecordIsKnownWhileItIsRemembered(t *testing.T) {
	undo := schemas.Control{ID: schemas.ControlID{2}, Action: schemas.ControlUndo, Target: closing.ID}
	other := undo
	other.ID = schemas.ControlID{3}
	s := New(false)
	know := func(when string, want ...bool) {
		t.Helper()
		for i, c := range []*schemas.Control{&closing, &undo, &other} {
			if got := s.Knows(c); got != want[i] {
				t.Errorf("%s: record %s: got %v, want %v", when, c.ID, got, want[i])
			}
		}
	}
	know("at first", false, false, false)
	if _, err := s.Apply(&closing, 1, 1, 5); err != nil {
		t.Fatal(err)
	}
	know("applied", true, false, false)
	if _, err := s.Apply(&undo, 1, 2, 5); err != nil {
		t.Fatal(err)
	}
	know("undone", true, true, false)
	s.Expire(closing.Until)
	know("over", false, false, false)
}
