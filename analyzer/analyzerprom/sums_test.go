package analyzerprom

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/509da70d/floodgate/analyzer/histogram"
)

// TestSumsNeverFall while partitions come and go, owners fail and begin again, and rules are added: Prometheus takes a sum that falls
// for a counter that began again, and would count all that is left once more.
func TestSumsNeverFall(t *testing.T) {
	at := func(partition int, name string) counted { return counted{partition, name} }
	s := newSums()
	for i, step := range []struct {
		now  counters
		want map[string]row
	}{
		{counters{at(0, "a"): {5, 1}, at(1, "a"): {7, 0}, at(1, "b"): {2, 2}}, map[string]row{"a": {12, 1}, "b": {2, 2}}},
		{counters{at(0, "a"): {6, 1}, at(1, "a"): {7, 3}, at(1, "b"): {2, 2}}, map[string]row{"a": {13, 4}, "b": {2, 2}}},
		{counters{at(0, "a"): {8, 1}}, map[string]row{"a": {15, 4}}},                                   // partition 1 is given away, and rule b with it
		{counters{at(0, "a"): {1, 0}}, map[string]row{"a": {16, 4}}},                                   // its owner has failed, and counts anew
		{counters{at(0, "a"): {1, 2}, at(1, "a"): {4, 4}}, map[string]row{"a": {20, 10}}},              // partition 1 comes back, from nothing
		{counters{at(0, "a"): {1, 2}, at(1, "b"): {1, 1}}, map[string]row{"a": {20, 10}, "b": {1, 1}}}, // b begins again: its series had ended
		{counters{}, map[string]row{}},                              // nothing is owned
		{counters{at(7, "a"): {1, 1}}, map[string]row{"a": {1, 1}}}, // likewise
	} {
		got := s.add(step.now)
		if len(got) != len(step.want) {
			t.Errorf("step %d: got %v, want %v", i, got, step.want)
		}
		for name, want := range step.want {
			if !slices.Equal(got[name], want) {
				t.Errorf("step %d: %s: got %v, want %v", i, name, got[name], want)
			}
		}
	}
}

// TestSumsOverAnyHistory: whatever comes and goes, as long as some partition has the rule, no sum falls, and it grows by what the
// partitions at hand have grown by.
func TestSumsOverAnyHistory(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 13))
	s, now, last := newSums(), counters{counted{0, "r"}: {0}}, 0.0
	for step := range 2_000 {
		grown, next := 0.0, counters{counted{0, "r"}: {now[counted{0, "r"}][0]}}
		for p := 1; p < 5; p++ {
			key := counted{p, "r"}
			was, owned := now[key]
			switch {
			case random.IntN(10) == 0: // given away, or not here yet
			case owned && random.IntN(20) == 0: // another owner: what it has counted is new, if that is less
				next[key] = row{float64(random.IntN(1 + int(was[0])))}
				if grown += next[key][0]; next[key][0] == was[0] {
					grown -= was[0]
				}
			default:
				n := float64(random.IntN(100))
				if next[key], grown = (row{n}), grown+n; owned {
					next[key][0] += was[0]
				}
			}
		}
		now = next
		got := s.add(next)["r"][0]
		if got != last+grown {
			t.Fatalf("step %d: got %v after %v, want %v more", step, got, last, grown)
		}
		last = got
	}
	if len(s.past) > 1 || len(s.last) > 5 {
		t.Errorf("got %d names and %d rows kept, want those of one rule", len(s.past), len(s.last))
	}
}

// TestNamesOfRulesThatWentAreForgotten: an operator who renames rules for years fills no memory.
func TestNamesOfRulesThatWentAreForgotten(t *testing.T) {
	s := newSums()
	for i := range 10_000 {
		s.add(counters{counted{0, fmt.Sprint("r", i)}: {1}})
	}
	if len(s.past) != 0 || len(s.last) != 1 {
		t.Errorf("got %d and %d names, want the last one only", len(s.past), len(s.last))
	}
}

// TestAHistogramIsARow, and back again.
func TestAHistogramIsARow(t *testing.T) {
	h := histogram.New(histogram.Ratios())
	for _, v := range []float64{0, 0.03, 7, 1000} {
		h.Observe(v)
	}
	want := h.Snapshot()
	got := rowOf(&want, histogram.Ratios()).snapshot(histogram.Ratios())
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	none := histogram.Snapshot{}
	if got := rowOf(&none, histogram.Ratios()).snapshot(histogram.Ratios()); got.Count != 0 || got.Within[10] != 0 {
		t.Errorf("got %v of the zero snapshot, want nothing counted", got)
	}
}
