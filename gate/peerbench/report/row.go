package report

import "slices"

// Row is one case. The zero value has no bar, and meets it.
type Row struct {
	Case    string
	Unit    string // of the figures: "ns", "B", "%"
	Bar     Bar
	Figures []Figure
	Note    string // what a reader should know to judge the figures
}

// Bar is what a case must reach. Bounds that are 0 are none.
type Bar struct {
	AtMost  float64 `json:"at_most,omitempty"`
	AtLeast float64 `json:"at_least,omitempty"`
	Allocs  float64 `json:"allocs"`          // at most, per operation
	Times   float64 `json:"times,omitempty"` // how much more the fastest rival must take, at least
}

// Figure is what was measured.
type Figure struct {
	CPUs   int     `json:"cpus,omitempty"` // that it was measured on; 0 where that does not matter
	Value  float64 `json:"value"`
	Allocs float64 `json:"allocs"`
	Rival  Rival   `json:"rival,omitzero"`
}

// Rival is what a rival took for the same: the fastest, unless the row's note says which. The zero value is none.
type Rival struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Times returns how many times the figure the rival took; 0 without a rival. A figure that cannot be told from nothing
// counts as a tenth of a unit.
func (f Figure) Times() float64 { return f.Rival.Value / max(f.Value, least) }

// least is the smallest figure that means anything.
const least = 0.1

// Met reports whether the figure reaches the bar.
func (b Bar) Met(f Figure) bool {
	return (b.AtMost == 0 || f.Value <= b.AtMost) &&
		(b.AtLeast == 0 || f.Value >= b.AtLeast) &&
		(b.Times == 0 || f.Times() >= b.Times) &&
		f.Allocs <= b.Allocs
}

// Met reports whether all figures reach the bar; without figures it does not.
func (r Row) Met() bool {
	return len(r.Figures) > 0 && !slices.ContainsFunc(r.Figures, func(f Figure) bool { return !r.Bar.Met(f) })
}

// Barred reports whether there is a bar at all.
func (r Row) Barred() bool { return r.Bar.AtMost != 0 || r.Bar.AtLeast != 0 || r.Bar.Times != 0 }

// Grid is subjects in cases.
type Grid struct {
	Title string
	Unit  string
	Cases []string
	Lines []Line
}

// Line is one subject of a Grid: its figures by case, in the order of the processors. A case that the subject cannot be
// measured in has none.
type Line struct {
	Subject string
	Values  [][]float64
}

// Report is all of a run.
type Report struct {
	Machine string // what it was measured on
	Rows    []Row
	Grids   []Grid
	Skipped []string // what was not measured, and why
}

// Missed returns how many bars are missed.
func (r *Report) Missed() int {
	met, all := r.bars()
	return all - met
}

// bars returns how many rows have a bar, and how many of these meet it. One that allocates too much has missed a bar too.
func (r *Report) bars() (met, all int) {
	for _, row := range r.Rows {
		switch {
		case row.Met() && row.Barred():
			met++
			all++
		case !row.Met():
			all++
		}
	}
	return met, all
}
