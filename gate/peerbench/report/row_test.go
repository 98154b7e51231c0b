package report

import "testing"

func TestBarMet(t *testing.T) {
	rival := func(ns float64) Rival { return Rival{Name: "rival", Value: ns} }
	for _, p := range []struct {
		name   string
		bar    Bar
		figure Figure
		want   bool
	}{
		{"no bar", Bar{}, Figure{Value: 1e9}, true},
		{"no bar allows no allocations", Bar{}, Figure{Allocs: 0.1}, false},
		{"at most, met", Bar{AtMost: 10}, Figure{Value: 10}, true},
		{"at most, missed", Bar{AtMost: 10}, Figure{Value: 10.01}, false},
		{"at least, met", Bar{AtLeast: 100}, Figure{Value: 100}, true},
		{"at least, missed", Bar{AtLeast: 100}, Figure{Value: 99.999}, false},
		{"times, met", Bar{Times: 5}, Figure{Value: 10, Rival: rival(50)}, true},
		{"times, missed", Bar{Times: 5}, Figure{Value: 10, Rival: rival(49)}, false},
		{"times without a rival", Bar{Times: 5}, Figure{Value: 1}, false},
		{"times of nothing measurable", Bar{Times: 5}, Figure{Value: 0, Rival: rival(0.5)}, true},
		{"times of nothing by next to nothing", Bar{Times: 5}, Figure{Value: 0, Rival: rival(0.4)}, false},
		{"an allocation too many", Bar{AtMost: 10, Allocs: 1}, Figure{Value: 1, Allocs: 1.001}, false},
		{"an allocation", Bar{AtMost: 10, Allocs: 1}, Figure{Value: 1, Allocs: 1}, true},
		{"one of two missed", Bar{AtMost: 10, Times: 5}, Figure{Value: 1, Rival: rival(4)}, false},
	} {
		if got := p.bar.Met(p.figure); got != p.want {
			t.Errorf("%s: got %v, want %v", p.name, got, p.want)
		}
	}
}

func TestRowIsMetByAllItsFigures(t *testing.T) {
	r := Row{Bar: Bar{AtMost: 10}, Figures: []Figure{{CPUs: 1, Value: 1}, {CPUs: 2, Value: 11}}}
	if r.Met() {
		t.Error("got a row met that misses its bar at 2 CPUs")
	}
	r.Figures[1].Value = 10
	if !r.Met() {
		t.Error("got a row missed that meets its bar")
	}
	if (Row{Bar: Bar{AtMost: 10}}).Met() {
		t.Error("got a row met without figures")
	}
}
