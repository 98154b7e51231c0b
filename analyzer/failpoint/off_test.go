//go:build !failpoint

package failpoint

import "testing"

// In the program that people run there is nothing.
func TestHereDoesNothingWithoutTheTag(t *testing.T) {
	t.Setenv(Variable, "opened")
	for _, p := range All() {
		Here(p)
	}
	if n := testing.AllocsPerRun(100, func() { Here(Opened) }); n != 0 {
		t.Errorf("allocations: got %v, want none", n)
	}
}
