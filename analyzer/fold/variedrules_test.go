package fold

import (
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/window"
)

// TestVariedRulesShareSomeShapes: of the rules with one name in both sets, some keep their counts when the sets are exchanged,
// and some do not. All algorithms are among them.
func TestVariedRulesShareSomeShapes(t *testing.T) {
	sets := foldtest.VariedRules(t)
	kept, lost := 0, 0
	var shapes string
	for _, a := range sets[0].Rules {
		shapes += a.Window.Shape() + " "
		for _, b := range sets[1].Rules {
			switch {
			case a.Name != b.Name:
			case a.Shape() == b.Shape():
				kept++
			default:
				lost++
			}
		}
	}
	if kept == 0 || lost == 0 {
		t.Errorf("got %d rules that keep their counts and %d that do not, want some of both", kept, lost)
	}
	for _, k := range window.Kinds() {
		if !strings.Contains(shapes, k.Name+"/") {
			t.Errorf("no rule has algorithm %s: %s", k.Name, shapes)
		}
	}
}

// TestBenchRulesCloseNobody: their limits are above what all entries of a benchmark weigh.
func TestBenchRulesCloseNobody(t *testing.T) {
	for name, line := range foldtest.BenchRules() {
		r := foldtest.Rules(t, line).Rules[0]
		if !strings.HasPrefix(r.Window.Shape(), name+"/") || r.Window.Capacity(r.Limit) < 1_000_000 {
			t.Errorf("%s: got %s with a capacity of %d", name, r.Window.Shape(), r.Window.Capacity(r.Limit))
		}
	}
}
