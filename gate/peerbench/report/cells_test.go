package report

import (
	"reflect"
	"strings"
	"testing"
)

// sample is a report with one of everything.
func sample() *Report {
	return &Report{
		Machine: "2 × some processor.",
		Rows: []Row{
			{
				Case: "a miss", Unit: "ns", Bar: Bar{AtMost: 10, Times: 5},
				Figures: []Figure{{CPUs: 1, Value: 4.04, Rival: Rival{"slow", 80}}, {CPUs: 2, Value: 5, Rival: Rival{"slower", 1234}}},
				Note:    "measured twice",
			},
			{
				Case: "a hit", Unit: "ns", Bar: Bar{AtMost: 10, Times: 3},
				Figures: []Figure{{CPUs: 1, Value: 9, Rival: Rival{"slow", 20}}},
			},
			{Case: "memory", Unit: "B", Bar: Bar{AtMost: 64}, Figures: []Figure{{Value: 63.7}}},
			{Case: "reported", Unit: "%", Bar: Bar{AtLeast: 100}, Figures: []Figure{{Value: 99.5}}},
			{Case: "garbage", Unit: "ns", Bar: Bar{AtMost: 10}, Figures: []Figure{{CPUs: 1, Value: 1, Allocs: 2}}},
			{Case: "no bar", Unit: "ns", Figures: []Figure{{CPUs: 1, Value: 1}}},
		},
		Grids: []Grid{{
			Title: "lookups", Unit: "ns", Cases: []string{"miss", "hit"},
			Lines: []Line{{"floodgate", [][]float64{{1, 2}, {3, 4}}}, {"slow | steady", [][]float64{{80, 90.4}, nil}}},
		}},
		Skipped: []string{"Redis: there is none"},
	}
}

func TestTable(t *testing.T) {
	want := [][]string{
		{"case", "bar", "floodgate", "rival", "times as fast", ""},
		{"a miss", "≤ 10 ns, ≥ 5 ×", "4 / 5 ns", "slow / slower 80 / 1,234 ns", "20 / 247", "met"},
		{"a hit", "≤ 10 ns, ≥ 3 ×", "9 ns", "slow 20 ns", "2.2", "missed"},
		{"memory", "≤ 64 B", "64 B", "", "", "met"},
		{"reported", "≥ 100 %", "99.50 %", "", "", "missed"},
		{"garbage", "≤ 10 ns", "1 ns", "", "", "missed: 2 allocs"},
		{"no bar", "", "1 ns", "", "", ""},
	}
	got := sample().table()
	for i := range want {
		if i >= len(got) || !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("line %d: got %q, want %q", i, got[i], want[i])
		}
	}
}

func TestGridTable(t *testing.T) {
	want := table{
		{"lookups, ns", "miss", "hit"},
		{"floodgate", "1 / 2", "3 / 4"},
		{"slow | steady", "80 / 90", ""},
	}
	if got := sample().Grids[0].table(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestVerdictNamesAllocationsFirst(t *testing.T) {
	r := Row{Bar: Bar{AtMost: 1, Allocs: 1}, Figures: []Figure{{Value: 5, Allocs: 1}, {Value: 5, Allocs: 1.5}}}
	if got := r.verdict(); got != "missed: 1.5 allocs" {
		t.Errorf("got %q", got)
	}
	r.Figures = r.Figures[:1]
	if got := r.verdict(); got != "missed" {
		t.Errorf("got %q, want the time to be what is missed", got)
	}
	if got := (Row{Case: "nothing measured"}).verdict(); !strings.HasPrefix(got, "missed") {
		t.Errorf("got %q of a row without figures, want it missed", got)
	}
}
