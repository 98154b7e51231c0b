package window

import (
	"slices"
	"testing"
	"time"
)

// step is one entry of a story. Times are since the Unix epoch; open means that the window is not full after it.
type step struct {
	at     time.Duration
	weight int64
	total  int64
	until  time.Duration
	late   bool
	past   bool
}

func (s step) place() Place {
	switch {
	case s.late:
		return Late
	case s.past:
		return Past
	}
	return Newest
}

const open = time.Duration(-1)

// story feeds a new window step by step, and asks at each step that View agrees with Add and that nothing but Add
// changes the state.
func story(t *testing.T, a Algorithm, limit int64, steps ...step) State {
	t.Helper()
	var s State
	for i, step := range steps {
		at := int64(step.at)
		before := slices.Clone(s)
		var got Count
		s, got = a.Add(s, limit, at, step.weight)
		want := Count{Total: step.total, Start: got.Start, Until: int64(step.until), Place: step.place()}
		if step.until == open {
			want.Until = at
		}
		if got != want {
			t.Errorf("step %d, weight %d at %v: got total %d, until %v, place %v, want %d, %v, %v", i, step.weight, step.at,
				got.Total, time.Duration(got.Until), got.Place, want.Total, time.Duration(want.Until), want.Place)
		}
		if (step.late || step.weight <= 0) && !slices.Equal(s, before) {
			t.Errorf("step %d: an entry that does not count changed the state from %v to %v", i, before, s)
		}
		after := slices.Clone(s)
		if view := a.View(s, limit, at); view != got {
			t.Errorf("step %d: got view %+v, want %+v as Add said", i, view, got)
		}
		if !slices.Equal(s, after) {
			t.Errorf("step %d: View changed the state from %v to %v", i, after, s)
		}
		if !a.Valid(s) {
			t.Errorf("step %d: state %v is not valid", i, s)
		}
	}
	return s
}

const (
	sec = time.Second
	ms  = time.Millisecond
	hr  = time.Hour
	day = 24 * time.Hour
)
