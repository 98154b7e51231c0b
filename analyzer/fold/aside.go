package fold

import "github.com/509da70d/floodgate/analyzer/policy"

// asides is what is kept beside rows that are being moved to another table.
type asides struct {
	demands  map[*row]*demand
	steps    map[*row][]policy.Closure
	trackers trackers
}

// asides takes away what is kept beside the rows.
func (f *Fold) asides() asides {
	a := asides{f.demands, f.steps, f.trackers}
	f.demands, f.steps, f.trackers = nil, nil, f.trackers.emptied()
	return a
}

// adopt gives a row what is kept beside the one that it was; its tracker only if it is tracked on.
func (f *Fold) adopt(to, from *row, a *asides, tracked bool) {
	to.setClosedByDemand(from.beside&closedByDemand != 0)
	if d := a.demands[from]; d != nil {
		f.putDemand(to, d)
	}
	f.putSteps(to, a.steps[from])
	if tr := a.trackers.find(from); tr != nil && tracked {
		now := f.trackers.add(to)
		now.pace, now.announced, now.warm = tr.pace, tr.announced, tr.warm
		f.trackers.putShare(now, tr.share)
	}
}

// takeRow makes a row what a value says.
func (f *Fold) takeRow(r *row, v *StoredRow) {
	r.take(v)
	f.forgetDemand(r)
	r.setClosedByDemand(v.byDemand)
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
