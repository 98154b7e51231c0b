package fold

import (
	"github.com/509da70d/floodgate/analyzer/hold"
	"github.com/509da70d/floodgate/analyzer/policy"
)

// sideTables holds data that only few rows have. The flags of a row say whether it has any. The zero value is empty.
type sideTables struct {
	earlyWeights map[*row]*earlyWeight     // of rows whose requests gates blocked early in the last seconds
	holds        map[*row]*hold.State      // of rows whose rule holds a part of the limit for requests in flight
	steps        map[*row][]policy.Closure // earlier closes in a row, of rows that have any: see policy.Steps
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

// stepsOf returns the earlier closes in a row of a row, as policy.Steps made them. The last closure is not among them.
func (s *sideTables) stepsOf(r *row) []policy.Closure {
	if r.flags&hasSteps == 0 {
		return nil
	}
	return s.steps[r]
}

// putSteps replaces the earlier closes in a row of a row.
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

// holdOf returns the requests in flight of a row, or nil.
func (s *sideTables) holdOf(r *row) *hold.State {
	if r.flags&hasHold == 0 {
		return nil
	}
	return s.holds[r]
}

// putHold replaces the requests in flight of a row.
func (s *sideTables) putHold(r *row, h *hold.State) {
	switch {
	case h != nil:
		if s.holds == nil {
			s.holds = make(map[*row]*hold.State)
		}
		r.flags |= hasHold
		s.holds[r] = h
	case r.flags&hasHold != 0:
		r.flags &^= hasHold
		delete(s.holds, r)
	}
}
