package report

import "slices"

// Row is one case. The zero value has no bar, and meets it.
type Row struct {
	Case    string
	Unit    string // of the figures: "ns", "B", "%"
	Bar     Bar
	Figures []Figure
	Note    string // facts that a reader needs to judge the figures
}

// Bar is what a case must reach. A bound of 0 is no bound.
type Bar struct {
	AtMost  float64 `json:"at_most,omitempty"`
	AtLeast float64 `json:"at_least,omitempty"`
	Allocs  float64 `json:"allocs"`          // at most, per operation
	Times   float64 `json:"times,omitempty"` // the fastest rival must take at least this many times as much
}

// Figure is one result.
type Figure struct {
	CPUs   int     `json:"cpus,omitempty"` // number of processors; 0 if it does not matter
	Value  float64 `json:"value"`
	Allocs float64 `json:"allocs"`
	Rival  Rival   `json:"rival,omitzero"`
}

// Rival is the result of a rival for the same case: the fastest one, unless the row's note names another. The zero value is
// no rival.
type Rival struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Times returns the rival's figure divided by this one, or 0 without a rival. A figure that is too small to be measured
// counts as a tenth of a unit.
func (f Figure) Times() float64 { return f.Rival.Value / max(f.Value, smallest) }

// smallest is the smallest figure that can be measured.
const smallest = 0.1

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

// Barred reports whether the row has a bar.
func (r Row) Barred() bool { return r.Bar.AtMost != 0 || r.Bar.AtLeast != 0 || r.Bar.Times != 0 }

// Grid is a table of subjects and cases.
type Grid struct {
	Title string
	Unit  string
	Cases []string
	Lines []Line
}

// Line is one subject of a Grid: its figures by case, in the order of the processors. A case that does not apply to the
// subject has none.
type Line struct {
	Subject string
	Values  [][]float64
}

// Report is the result of a whole run.
type Report struct {
	Machine string // description of the machine
	Rows    []Row
	Grids   []Grid
	Skipped []string // parts that were not measured, and why
}

// Missed returns how many bars are missed.
func (r *Report) Missed() int {
	met, all := r.bars()
	return all - met
}

// bars returns how many rows have a bar, and how many of these meet it. A row that allocates too much has missed its bar
// too.
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
