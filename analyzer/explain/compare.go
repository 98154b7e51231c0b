package explain

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/gateview"
)

// jitter is how much later than decided a gate may reopen (see schemas/DECISIONS.md, Jitter), plus some time for clocks that differ.
const jitter = 12 * time.Second

// Compare compares what a gate believes about a caller with what its analyzer says. url is where the gate was asked, or empty. Answers
// agree if they differ by no more than the delay with which gates reopen.
func Compare(e *apiv1.Explanation, g *gateview.Caller, url string) *apiv1.GateComparison {
	c := &apiv1.GateComparison{URL: url}
	find := func(format string, args ...any) { c.Findings = append(c.Findings, fmt.Sprintf(format, args...)) }
	if g.Mode != "enforce" {
		find("The gate is in mode %s, so it refuses nobody.", text(g.Mode))
	}
	if g.Fresh == 0 {
		find("No decisions come to the gate: %d partitions are cold, %d are stale.", g.Cold, g.Stale)
	} else if g.Stale > 0 {
		find("Decisions of %d partitions have stopped coming to the gate, the oldest %s ago. Its policy is %s.", g.Stale, span(g.AgeNS), text(g.Policy))
	}
	if g.Dropped > 0 {
		find("The gate is full: it has dropped %d decisions.", g.Dropped)
	}
	here := make(map[string]*gateview.Decision)
	for i := range g.Decisions {
		d := &g.Decisions[i]
		if d.Ignored {
			find("The gate ignores rule %s, because the partition of the decision is stale.", text(d.Rule))
		}
		if d.InForce && !d.Share {
			here[d.Rule] = d
		}
	}
	differs := compareRules(e, here, find)
	closed := false
	for _, d := range e.Decisions {
		closed = closed || d.InForce && d.Mode == schemas.ModeEnforce.String()
	}
	who := text(g.Kind + ":" + g.ID)
	late := g.Refused && !closed && g.Mode == "enforce" // the gate reopens a little later
	c.Agrees = !differs && (closed == g.Refused || late)
	switch {
	case c.Agrees && late:
		c.Sentence = fmt.Sprintf("%s is open for the analyzer, and this gate reopens a little later, as gates do.", who)
	case c.Agrees && g.Refused:
		c.Sentence = fmt.Sprintf("The gate and the analyzer agree: %s is closed.", who)
	case c.Agrees:
		c.Sentence = fmt.Sprintf("The gate and the analyzer agree: %s is open.", who)
	case closed == g.Refused:
		c.Sentence = fmt.Sprintf("The gate and the analyzer agree about %s, but not about why.", who)
	case g.Refused:
		c.Sentence = fmt.Sprintf("%s is open for the analyzer, and closed at this gate.", who)
	default:
		c.Sentence = fmt.Sprintf("%s is closed for the analyzer, and open at this gate.", who)
	}
	return c
}

// compareRules compares what gates were told with what the gate holds, rule by rule, and reports whether they differ.
func compareRules(e *apiv1.Explanation, here map[string]*gateview.Decision, find func(string, ...any)) (differs bool) {
	for _, d := range e.Decisions {
		g := here[d.Rule]
		delete(here, d.Rule)
		switch {
		case d.InForce && g == nil:
			differs = true
			find("Rule %s was published at epoch %d, number %d, until %s, and the gate does not hold it.", text(d.Rule), d.Epoch, d.Seq, d.Until.Format(time.RFC3339))
		case d.InForce && g.Mode != d.Mode:
			differs = true
			find("Rule %s is in mode %s, and in mode %s at the gate.", text(d.Rule), text(d.Mode), text(g.Mode))
		case !d.InForce && g != nil:
			here[d.Rule] = g
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(here)) {
		g := here[rule]
		if reopensLater(e, g) {
			find("Rule %s has ended, and the gate reopens a little later, at %s.", text(rule), g.Until.Format(time.RFC3339))
			continue
		}
		differs = true
		find("The gate holds rule %s until %s, and no such decision is in force.", text(rule), g.Until.Format(time.RFC3339))
	}
	return differs
}

// reopensLater reports whether a gate still holds a closure that has ended by itself, and will reopen within the usual delay. A closure
// that was opened before its end is not one: the gate would hold it for longer.
func reopensLater(e *apiv1.Explanation, g *gateview.Decision) bool {
	if g.Until.Sub(e.Now) > jitter {
		return false
	}
	if g.Early || g.Rule == schemas.ControlRule {
		return true // the analyzer keeps nothing about its end
	}
	for i := range e.Rules {
		if r := &e.Rules[i]; r.Rule == g.Rule && r.Closure != nil && !r.Closure.InForce {
			return e.Now.Before(r.Closure.Until.Add(jitter)) && g.Until.Before(r.Closure.Until.Add(jitter))
		}
	}
	return false
}
