package gate

import (
	"slices"
	"sync/atomic"
)

// maxCountedRules bounds the rules that are counted each by itself. Rules have names that operators give; the bound is there
// in case that somebody else writes decisions.
const maxCountedRules = 1000

// otherRules is the name under which refusals of further rules are counted.
const otherRules = "(other rules)"

// refusals counts refused requests by rule. The zero value is ready to use. Readers of the table add to the counters, which
// takes one atomic addition for each refused request and nothing for the others.
type refusals struct {
	stale    ruleCount
	counters atomic.Pointer[[]*ruleCount] // by terms.counter; nil before the first rule
	byRule   map[string]uint32            // guarded by Set.mu
}

// ruleCount is the counters of one rule. Rules share no cache line.
type ruleCount struct {
	rule            string
	refused, shadow atomic.Uint64
	_               [32]byte
}

// counter returns the index of a rule's counters, and makes them if there are none. The caller holds Set.mu.
func (r *refusals) counter(rule string) uint32 {
	if i, ok := r.byRule[rule]; ok {
		return i
	}
	var counters []*ruleCount
	if p := r.counters.Load(); p != nil {
		counters = *p
	}
	switch {
	case len(counters) > maxCountedRules:
		return maxCountedRules
	case len(counters) == maxCountedRules:
		rule = otherRules
	default:
		rule = string([]byte(rule)) // it must not pin the decision's memory
		if r.byRule == nil {
			r.byRule = make(map[string]uint32)
		}
		r.byRule[rule] = uint32(len(counters))
	}
	grown := append(slices.Clip(counters), &ruleCount{rule: rule}) // readers keep the old slice
	r.counters.Store(&grown)
	return uint32(len(grown) - 1)
}

// add counts a request that was refused, or that would have been in mode enforce.
func (r *refusals) add(v *Verdict, counter uint32) {
	count := &r.stale
	if !v.Stale {
		count = (*r.counters.Load())[counter] // it was there before the closure was
	}
	if v.Closed {
		count.refused.Add(1)
	} else {
		count.shadow.Add(1)
	}
}

func (c *ruleCount) snapshot() Refusals {
	return Refusals{Rule: c.rule, Refused: c.refused.Load(), Shadow: c.shadow.Load()}
}

// snapshot returns the counts of all rules, in the order in which their first decisions came.
func (r *refusals) snapshot() (rules []Refusals) {
	if p := r.counters.Load(); p != nil {
		for _, c := range *p {
			rules = append(rules, c.snapshot())
		}
	}
	return rules
}
