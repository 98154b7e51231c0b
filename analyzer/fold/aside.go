package fold

import (
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/predict"
)

// asides is what is kept beside rows that are being moved to another table.
type asides struct {
	demands  map[*row]*demand
	steps    map[*row][]policy.Closure
	trackers *predict.Moved
}

// asides takes away what is kept beside the rows.
func (f *Fold) asides() asides {
	a := asides{f.demands, f.steps, f.predict.Move()}
	f.demands, f.steps = nil, nil
	return a
}

// adopt gives the row at index i what is kept beside the one that it was at another index; its tracker only if it is tracked on.
func (f *Fold) adopt(i, before uint32, from *row, a *asides, tracksOn bool) {
	to := f.table.row(i)
	to.flag(closedByDemand, from.beside&closedByDemand != 0)
	if d := a.demands[from]; d != nil {
		f.putDemand(to, d)
	}
	f.putSteps(to, a.steps[from])
	to.flag(tracked, tracksOn && f.predict.Adopt(i, a.trackers, before))
}

// takeRow makes a row what a value says.
func (f *Fold) takeRow(r *row, v *StoredRow) {
	r.take(v)
	f.forgetDemand(r)
	r.flag(closedByDemand, v.byDemand)
	if v.demand != (demand{}) {
		d := v.demand
		f.putDemand(r, &d)
	}
	f.putSteps(r, v.steps)
}

// stepsOf returns the closes in a row before a row's closure, as policy.Steps made them.
func (f *Fold) stepsOf(r *row) []policy.Closure {
	if r.beside&hasSteps == 0 {
		return nil
	}
	return f.steps[r]
}

// putSteps replaces the closes in a row before a row's closure.
func (f *Fold) putSteps(r *row, steps []policy.Closure) {
	switch {
	case len(steps) > 0:
		if f.steps == nil {
			f.steps = make(map[*row][]policy.Closure)
		}
		r.beside |= hasSteps
		f.steps[r] = steps
	case r.beside&hasSteps != 0:
		r.beside &^= hasSteps
		delete(f.steps, r)
	}
}
