package outbox

import (
	"maps"

	"github.com/509da70d/floodgate/schemas"
)

// RuleMode is a rule by its name, and the mode in which it decided.
type RuleMode struct {
	Rule string
	Mode schemas.Mode
}

func ruleModeOf(d *schemas.Decision) RuleMode { return RuleMode{d.Rule, d.Mode} }

// tally counts the decisions that an InForce holds. There are as many numbers as rules and modes among them; none is 0.
type tally map[RuleMode]int

func (t tally) add(r RuleMode, n int) {
	if t[r] += n; t[r] == 0 {
		delete(t, r)
	}
}

// ByRule returns how many decisions are held, by rule and mode: none of the numbers is 0, and their sum is Len. The map is the caller's.
func (f *InForce) ByRule() map[RuleMode]int { return maps.Clone(f.tally) }

// put holds a decision.
func (f *InForce) put(key Key, d schemas.Decision) {
	old, ok := f.decisions[key]
	f.decisions[key] = d
	was, is := ruleModeOf(&old), ruleModeOf(&d)
	if ok && was == is {
		return
	}
	if ok {
		f.tally.add(was, -1)
	}
	f.tally.add(is, 1)
}

// drop forgets a decision, if it is held.
func (f *InForce) drop(key Key) {
	if d, ok := f.decisions[key]; ok {
		delete(f.decisions, key)
		f.tally.add(ruleModeOf(&d), -1)
	}
}
