package foldtest_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

func TestRules(t *testing.T) {
	set := foldtest.Rules(t, "{name: a, callers: ip, limit: 3, window: 1m}", "{name: b, callers: key, limit: 5, window: day}")
	if len(set.Rules) != 2 || set.Rules[0].Name != "a" || set.Rules[1].Limit != 5 {
		t.Errorf("got %v", set.Rules)
	}
}

// fatal notes that a test would have ended.
type fatal struct{ said string }

func (f *fatal) Helper()           {}
func (f *fatal) Fatal(args ...any) { f.said = fmt.Sprint(args...) }
func (f *fatal) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
}

// TestMistakesEndTheTest: rules and frames that mean nothing do not pass in silence.
func TestMistakesEndTheTest(t *testing.T) {
	var rules, frame fatal
	foldtest.Rules(&rules, "{name: a, callers: ip}")
	if rules.said == "" {
		t.Error("a rule without a limit: got no failure, want one")
	}
	foldtest.Encode(&frame, foldtest.Frame(1, foldtest.Now, schemas.Entry{Kind: "ip", ID: "", Count: 1}))
	if frame.said == "" {
		t.Error("an entry without a caller: got no failure, want one")
	}
}

// TestAFrameIsForTheOnlyPartition: it can be read again, and it is one that a fold of one partition takes.
func TestAFrameIsForTheOnlyPartition(t *testing.T) {
	entry := schemas.Entry{Time: foldtest.Now, Kind: "ip", ID: "203.0.113.9", Count: 2}
	var f schemas.Frame
	if err := f.Decode(foldtest.Encode(t, foldtest.Frame(7, foldtest.Now, entry))); err != nil {
		t.Fatal(err)
	}
	if f.Seq != 7 || f.Partitions != 1 || f.Fingerprint != schemas.DefaultPartitionKey().Fingerprint() || f.Producer != foldtest.Producer(1) {
		t.Errorf("got %+v", f)
	}
	if len(f.Entries) != 1 || f.Entries[0].ID != entry.ID || f.Entries[0].Count != 2 {
		t.Errorf("got entries %+v, want %+v", f.Entries, entry)
	}
}

func TestProducersDiffer(t *testing.T) {
	seen := make(map[schemas.ProducerID]int)
	for n := range 1000 {
		id := foldtest.Producer(n)
		if other, ok := seen[id]; ok {
			t.Fatalf("producers %d and %d are the same", n, other)
		}
		seen[id] = n
	}
}

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

// TestZipfEntries: they come in order of time, by many callers, and few of these send the larger part.
func TestZipfEntries(t *testing.T) {
	const n = 20_000
	entries := foldtest.ZipfEntries(n)
	byID := make(map[string]int)
	for i := range entries {
		if i > 0 && entries[i].Time < entries[i-1].Time {
			t.Fatalf("entry %d is older than the one before", i)
		}
		byID[entries[i].ID]++
	}
	counts := slices.Sorted(maps.Values(byID))
	busiest := 0
	for _, c := range counts[len(counts)*9/10:] {
		busiest += c
	}
	if len(entries) != n || len(byID) < n/20 || busiest < n/2 {
		t.Errorf("got %d entries by %d callers, %d of them by the busiest tenth", len(entries), len(byID), busiest)
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
