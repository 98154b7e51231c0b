package policy

import (
	"slices"

	"github.com/509da70d/floodgate/analyzer/rules"
)

// MaxSteps is how many earlier closes in a row are remembered. If there are more, the oldest ones cannot be undone any more by a change of
// rules, and still count in the numbers of later closes.
const MaxSteps = 8

// Steps returns the closes in a row before next that must be remembered, oldest first: those before prev, and prev unless it was undone.
// next is a close that Step, StepDemand or Derive made from prev and steps. The result shares no memory with steps, unless it is equal to
// steps.
func Steps(steps []Closure, prev, next Closure) []Closure {
	switch {
	case next.Nth <= 1:
		return nil
	case prev.Peak == 0:
		return steps
	}
	return append(slices.Clone(steps[max(0, len(steps)-MaxSteps+1):]), prev)
}

// standing returns the latest close that was not undone: prev, or else the last of the closes in a row before it.
func standing(prev Closure, steps []Closure) Closure {
	switch {
	case prev.Peak > 0:
		return prev
	case len(steps) > 0:
		return steps[len(steps)-1]
	}
	return Closure{}
}

// Recount undoes the closes that have ended and that the new rules would not have made, because the new limit allows their peak. It numbers
// the closes after them again. prev is the latest close, and steps are the closes in a row before it. If prev has not ended at now, it
// keeps its peak: Derive decides about it. The result shares no memory with steps unless nothing changes.
func Recount(r *rules.Rule, limit int64, unlimited bool, prev Closure, steps []Closure, now int64) (Closure, []Closure) {
	if r.Escalate.Factor <= 0 {
		return prev, steps // no close has a number; a later change of rules may ask again
	}
	capacity := r.Window.Capacity(limit)
	allowed := func(c Closure) bool { return unlimited || c.Peak < capacity }
	if allowed(prev) && !prev.before(now) {
		prev.Peak = 0
	}
	if !slices.ContainsFunc(steps, allowed) {
		return prev, steps
	}
	last := Closure{Nth: steps[0].Nth - 1, Until: steps[0].CloseAt} // stands for closes that are not remembered any more, if any
	var kept []Closure
	for _, c := range steps {
		if allowed(c) {
			continue
		}
		if c.Nth = follows(r, last, c.CloseAt); c.Nth == 1 {
			kept = nil
		}
		kept, last = append(kept, c), c
	}
	if prev.Nth = follows(r, last, prev.CloseAt); prev.Nth == 1 {
		kept = nil
	}
	return prev, kept
}
