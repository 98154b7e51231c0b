package failpoint

import (
	"errors"
	"testing"
)

func TestAPlanIsReadAsItIsWritten(t *testing.T) {
	for _, p := range All() {
		for _, want := range []Plan{{p, 1}, {p, 2}, {p, 1_000_000}} {
			if got, err := parsePlan(want.String()); err != nil || got != want {
				t.Errorf("%v: got %v, %v, want the same", want, got, err)
			}
		}
		if got, err := parsePlan(p.String()); err != nil || got != (Plan{p, 1}) {
			t.Errorf("%v without a number: got %v, %v, want the first time", p, got, err)
		}
	}
	if got, err := parsePlan(Plan{}.String()); err != nil || got != (Plan{}) {
		t.Errorf("nothing: got %v, %v, want nowhere", got, err)
	}
}

// A plan that is misread would be a crash that never comes.
func TestAPlanThatCannotBeIsRefused(t *testing.T) {
	for _, text := range []string{
		"none", "none:1", "none:0", "opened:0", "opened:-1", "opened:", "opened:x", "opened:1:1", "opened:1.5", ":", ":1", " opened", "Opened", "opene",
		"point-200", "opened:99999999999999999999",
	} {
		if got, err := parsePlan(text); !errors.Is(err, errPlan) || got != (Plan{}) {
			t.Errorf("%q: got %v, %v, want it refused", text, got, err)
		}
	}
}

func FuzzParsePlan(f *testing.F) {
	for _, text := range []string{"", "opened", "commit-ends:3", "opened:-1", ":"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePlan(text)
		if err != nil {
			if p != (Plan{}) {
				t.Errorf("%q: refused, and got %v", text, p)
			}
			return
		}
		if again, err := parsePlan(p.String()); err != nil || again != p {
			t.Errorf("%q: got %v, and from its text %v, %v", text, p, again, err)
		}
	})
}
