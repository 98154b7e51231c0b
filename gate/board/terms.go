package board

import (
	"strings"

	"github.com/509da70d/floodgate/schemas"
)

// terms are what many decisions have in common. Owners and operators choose all of it: strangers cannot make them many.
type terms struct {
	rule      string
	version   uint64
	kind      string
	mode      schemas.Mode
	partition int32
	epoch     uint64
	window    int64
	held      bool
}

func termsOf(d *schemas.Decision) terms {
	return terms{d.Rule, d.RuleVersion, d.Caller.Kind, d.Mode, d.Partition, d.Epoch, d.Evidence.Window, d.Held}
}

// set sets a decision's terms.
func (t *terms) set(d *schemas.Decision) {
	d.Rule, d.RuleVersion, d.Caller.Kind, d.Mode = t.rule, t.version, t.kind, t.mode
	d.Partition, d.Epoch, d.Evidence.Window, d.Held = t.partition, t.epoch, t.window, t.held
}

// termsList numbers terms, and counts the closures that have each. Terms that none has any more are forgotten.
type termsList struct {
	list   []countedTerms
	number map[terms]uint32
	free   []uint32
	newest uint32
}

type countedTerms struct {
	terms
	closures int
}

func (l *termsList) at(number uint32) *terms { return &l.list[number].terms }

// take returns the number of terms for one more closure.
func (l *termsList) take(t terms) uint32 {
	if int(l.newest) < len(l.list) && l.list[l.newest].closures > 0 && l.list[l.newest].terms == t { // nearly always
		l.list[l.newest].closures++
		return l.newest
	}
	number, ok := l.number[t]
	if !ok {
		t.rule, t.kind = strings.Clone(t.rule), strings.Clone(t.kind) // they pin no memory of a batch
		number = uint32(len(l.list))
		if n := len(l.free); n > 0 {
			number, l.free = l.free[n-1], l.free[:n-1]
		} else {
			l.list = append(l.list, countedTerms{})
		}
		if l.number == nil {
			l.number = map[terms]uint32{}
		}
		l.list[number].terms, l.number[t] = t, number
	}
	l.list[number].closures++
	l.newest = number
	return number
}

// giveBack says that a closure has the terms no more.
func (l *termsList) giveBack(number uint32) {
	c := &l.list[number]
	if c.closures--; c.closures > 0 {
		return
	}
	delete(l.number, c.terms)
	c.terms = terms{}
	l.free = append(l.free, number)
}
