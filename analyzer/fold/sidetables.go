package fold

import "github.com/509da70d/floodgate/analyzer/policy"

// sideTables holds what few rows have: a row's flags say whether it has some. The zero value is empty.
type sideTables struct {
	earlyWeights map[*row]*earlyWeight     // of rows of which gates have blocked requests early in the last seconds
	steps        map[*row][]policy.Closure // of rows whose closure is not the first in a row: see policy.Steps
}

// earlyOf returns the early weight of a row, or nil.
func (s *sideTables) earlyOf(r *row) *earlyWeight {
	if r.flags&hasEarly == 0 {
		return nil
	}
	return s.earlyWeights[r]
}

func (s *sideTables) putEarly(r *row, d *earlyWeight) {
	if s.earlyWeights == nil {
		s.earlyWeights = make(map[*row]*earlyWeight)
	}
	r.flags |= hasEarly
	s.earlyWeights[r] = d
}

// forgetEarly ends the early weight of a row, if it has some.
func (s *sideTables) forgetEarly(r *row) {
	if r.flags&hasEarly != 0 {
		r.flags &^= hasEarly
		delete(s.earlyWeights, r)
	}
}

// stepsOf returns the closes in a row before a row's closure, as policy.Steps made them.
func (s *sideTables) stepsOf(r *row) []policy.Closure {
	if r.flags&hasSteps == 0 {
		return nil
	}
	return s.steps[r]
}

// putSteps replaces the closes in a row before a row's closure.
func (s *sideTables) putSteps(r *row, steps []policy.Closure) {
	switch {
	case len(steps) > 0:
		if s.steps == nil {
			s.steps = make(map[*row][]policy.Closure)
		}
		r.flags |= hasSteps
		s.steps[r] = steps
	case r.flags&hasSteps != 0:
		r.flags &^= hasSteps
		delete(s.steps, r)
	}
}
