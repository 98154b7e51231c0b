package schemas_test

import (
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

func TestControlIDReadsBackAndRefusesTheRest(t *testing.T) {
	id := schemas.ControlID{0: 0xab, 15: 0x01}
	back, err := schemas.ParseControlID(id.String())
	if err != nil || back != id {
		t.Errorf("got %v, %v, want %v", back, err, id)
	}
	for _, s := range []string{"", "ab", id.String() + "00", id.String()[1:] + "g", "kind:id"} {
		if got, err := schemas.ParseControlID(s); err == nil || got != (schemas.ControlID{}) {
			t.Errorf("%q: got %v, %v, want an error", s, got, err)
		}
	}
}

func TestControlActionsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for a := schemas.ControlClose; a <= schemas.ControlPlace; a++ {
		if s := a.String(); s == "unknown" || seen[s] {
			t.Errorf("action %d: got %q, want a name of its own", a, s)
		}
		seen[a.String()] = true
	}
	if got := schemas.ControlAction(0).String(); got != "unknown" {
		t.Errorf("got %q, want unknown", got)
	}
}

func TestControlRecordsThatAllOwnersRead(t *testing.T) {
	for a, want := range map[schemas.ControlAction]bool{
		schemas.ControlClose: false, schemas.ControlOpen: false, schemas.ControlLimit: false, schemas.ControlReset: false,
		schemas.ControlMode: true, schemas.ControlUndo: true, schemas.ControlRules: true,
	} {
		if got := (&schemas.Control{Action: a}).Global(); got != want {
			t.Errorf("%v: got %v, want %v", a, got, want)
		}
	}
}
