package replay

import (
	"math"
	"strings"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// Lasting says what a rule would have done that charges costs at arrival, or that limits requests in flight.
type Lasting struct {
	Rule     string `json:"rule"`
	Closures int64  `json:"closures"` // because of requests in flight; one that is renewed is one
	Refused  int64  `json:"refused"`  // requests, by those closures alone

	// Of limits on costs: the windows in which as much as the limit was asked for, or more. A cost counts where its request arrived.
	Windows  int64   `json:"windows"`
	Over     float64 `json:"over_mean"`          // by how much the admitted cost exceeded the limit, as a share of it
	OverMost float64 `json:"over_max"`           // the largest
	Used     float64 `json:"used_mean"`          // the admitted cost, up to the limit, as a share of it
	Needless int64   `json:"refused_needlessly"` // requests in the other windows that those closures refused, and no other rule
}

// lasting makes the Lasting of a rule, or its Pool. Only admitted requests of an enforcing rule are refused. One goroutine uses a lasting.
type lasting struct {
	rule     *rules.Rule
	pool     *Pooled            // of a rule with a capacity, nil of the others
	closures closures           // by what is in flight, or by the pool
	held     bool               // they cover the request that is being decided
	callers  map[string]*asking // of limits on costs, by id
	sweepAt  int                // number of callers at which windows that are over are added up
	sum      Lasting
}

// asking is what a caller has asked for in one window.
type asking struct {
	start, end      int64 // of the window, in Unix nanoseconds
	limit           int64
	asked, admitted int64 // cost
	refused         int64 // requests, by the rule alone
}

// newLasting returns the rules about requests that last, and those with a capacity, by the index of their kind.
func newLasting(set *rules.Set, kinds []string) [][]*lasting {
	byKind := make([][]*lasting, len(kinds))
	for i, kind := range kinds {
		for _, r := range set.ForKind(kind) {
			switch {
			case r.Pool != nil:
				byKind[i] = append(byKind[i], &lasting{rule: r, pool: NewPooled(r), sum: Lasting{Rule: r.Name}})
			case r.AtArrival || r.Measure == rules.InFlight:
				byKind[i] = append(byKind[i], &lasting{rule: r, callers: make(map[string]*asking), sum: Lasting{Rule: r.Name}})
			}
		}
	}
	return byKind
}

// decided notes a decision about what is in flight: it holds a caller until a time, or not any more.
func (x *lasting) decided(caller schemas.Caller, at, until int64) {
	switch {
	case until <= at:
		x.closures.open(caller)
		return
	case x.rule.Hold != nil && !x.closures.closed(caller, at):
		x.sum.Closures++
	}
	x.closures.close(caller, at, until)
}

// change notes a change of a rule that limits requests in flight.
func (x *lasting) change(c *fold.Change) {
	until := c.Closure.Until
	if c.Kind == policy.Opened {
		until = c.At
	}
	x.decided(c.Caller, c.At, until)
}

// ask notes what a request asks of a limit on costs. The entry is its response. alone says that no other rule has blocked it.
func (x *lasting) ask(e *schemas.Entry, t int64, blocked, alone bool) {
	limit, unlimited := x.rule.LimitFor(e.ID)
	if !x.rule.AtArrival || unlimited || !x.rule.Matches(e) {
		return
	}
	a := x.callers[e.ID]
	if a == nil {
		if len(x.callers) >= x.sweepAt {
			x.sweep(t)
		}
		a = &asking{}
		x.callers[strings.Clone(e.ID)] = a
	}
	if t >= a.end {
		x.add(a)
		start, length := t, x.rule.Window.Length(t)
		if x.rule.Calendar() != "" {
			start = x.rule.Window.View(nil, limit, t).Start
		} else {
			start -= t % length
		}
		*a = asking{start: start, end: start + length, limit: limit}
	}
	a.asked = integer.Add(a.asked, e.Cost)
	switch {
	case !blocked:
		a.admitted = integer.Add(a.admitted, e.Cost)
	case alone:
		a.refused++
	}
}

// sweep adds up the windows that are over at t, and forgets their callers.
func (x *lasting) sweep(t int64) {
	for id, a := range x.callers {
		if t >= a.end {
			x.add(a)
			delete(x.callers, id)
		}
	}
	x.sweepAt = 2*len(x.callers) + 1024
}

// add adds a window to the sum.
func (x *lasting) add(a *asking) {
	if a.asked < a.limit || a.limit == 0 {
		x.sum.Needless += a.refused
		return
	}
	part := float64(a.admitted) / float64(a.limit)
	x.sum.Windows++
	x.sum.Over += max(0, part-1)
	x.sum.OverMost = max(x.sum.OverMost, part-1)
	x.sum.Used += min(1, part)
}

// result returns the sum at the end.
func (x *lasting) result() Lasting {
	x.sweep(math.MaxInt64)
	s := x.sum
	s.Over, s.Used = meanOf(s.Over, uint64(s.Windows)), meanOf(s.Used, uint64(s.Windows))
	return s
}
