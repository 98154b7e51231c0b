package policy

import (
	"slices"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// MaxSteps is how many earlier closes in a row are remembered. Of more than that the oldest ones keep their number for good: no
// change of rules undoes them.
const MaxSteps = 8

// Steps returns what to remember of the closes in a row before next, oldest first: those before prev, and prev, unless it was undone.
// next is a close that Step, StepDemand or Derive made of prev and steps. The list is a new one where it differs from steps.
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

// follows returns the number of a close at t if last is the latest close before it that stands. It is another close in a row unless
// the caller has stayed open long enough to be forgiven.
func follows(r *rules.Rule, last Closure, t int64) int64 {
	if r.Escalate.Factor > 0 && last.Nth > 0 && t < integer.Add(last.Until, int64(r.Escalate.Forget)) {
		return integer.Add(last.Nth, 1)
	}
	return 1
}

// Recount undoes the closes that have ended and that changed rules would not have made, because the limit now allows their peak. It
// numbers the closes after them anew. prev is the latest close, and steps are those in a row before it. A close that has not ended at
// now keeps its peak: Derive decides about it. What Recount returns shares no memory with steps unless nothing changes.
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
	last := Closure{Nth: steps[0].Nth - 1, Until: steps[0].CloseAt} // what is not remembered any more, if there was some
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
