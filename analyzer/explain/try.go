package explain

import (
	"fmt"
	"strings"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// Try returns what would come of a trial. at says for each caller, in the order of o.Callers, as of which place of the log it was tried.
func Try(o *fold.Outcome, at []apiv1.At) apiv1.TryAnswer {
	a := apiv1.TryAnswer{Passes: o.Admitted == o.Requests, Admitted: int64(o.Admitted), Callers: make([]apiv1.TryCaller, len(o.Callers))}
	for i := range o.Callers {
		a.Callers[i] = tryCaller(&o.Callers[i], o)
		if i < len(at) {
			a.Callers[i].At = at[i]
		}
		a.Closes = a.Closes || o.Callers[i].Closes
	}
	a.Sentence = trySentence(o)
	return a
}

func tryCaller(c *fold.CallerOutcome, o *fold.Outcome) apiv1.TryCaller {
	t := apiv1.TryCaller{Caller: event.CallerOf(c.Caller), Admitted: int64(o.Requests), Rules: make([]apiv1.TryRule, len(c.Rules))}
	if handCloses(c, o.At) {
		t.Admitted = 0
	}
	for i := range c.Rules {
		r := &c.Rules[i]
		t.Rules[i] = tryRule(r, o)
		if r.Before.Rule.Mode == schemas.ModeEnforce {
			t.Admitted = min(t.Admitted, int64(r.Admitted))
		}
	}
	t.Passes = t.Admitted == int64(o.Requests)
	return t
}

func tryRule(r *fold.RuleOutcome, o *fold.Outcome) apiv1.TryRule {
	rule := r.Before.Rule
	closed := r.ClosedBefore(o.At)
	t := apiv1.TryRule{
		Rule: rule.Name, Version: version(rule.Fingerprint()), Mode: rule.Mode.String(), Counts: r.Counts, Weight: r.Weight,
		Before: r.Before.Count.Total, After: r.After.Count.Total, Limit: r.After.Limit, Capacity: r.After.Capacity, Unlimited: r.After.Unlimited,
		Admitted: int64(r.Admitted), Closed: closed, Closes: !closed && r.ClosedAt(o.At), RoomBefore: roomOf(&r.Before), RoomAfter: roomOf(&r.After),
	}
	if r.After.Closure.ClosedAt(o.At) {
		t.CloseAt, t.Until, t.Nth = timeOf(r.After.Closure.CloseAt), timeOf(r.After.Closure.Until), r.After.Closure.Nth
	} else if r.Early.Covers(o.At) {
		t.CloseAt, t.Until = timeOf(r.Early.CloseAt), timeOf(r.Early.Until)
	}
	return t
}

// handCloses reports whether a person has closed the caller.
func handCloses(c *fold.CallerOutcome, at int64) bool {
	return c.Record.Mode == schemas.ModeEnforce && c.Record.Closure.ClosedAt(at)
}

// trySentence says to people what would come of a trial.
func trySentence(o *fold.Outcome) string {
	var b strings.Builder
	switch {
	case o.Requests == 1 && o.Admitted == 1:
		b.WriteString("The request would pass")
	case o.Requests == 1:
		b.WriteString("The request would be refused")
	case o.Admitted == o.Requests:
		fmt.Fprintf(&b, "All %d requests would pass", o.Requests)
	default:
		fmt.Fprintf(&b, "%d of %d requests would pass", o.Admitted, o.Requests)
	}
	sep := ": "
	for i := range o.Callers {
		for _, s := range closers(&o.Callers[i], o.At) {
			b.WriteString(sep)
			b.WriteString(s)
			sep = "; "
		}
	}
	return b.String() + "."
}

// closers says which rules close a caller, or would.
func closers(c *fold.CallerOutcome, at int64) (list []string) {
	if handCloses(c, at) {
		list = append(list, fmt.Sprintf("%s is closed by hand until %s", name(c.Caller), clock(c.Record.Closure.Until)))
	}
	for i := range c.Rules {
		r := &c.Rules[i]
		rule := r.Before.Rule
		if !r.ClosedAt(at) {
			continue
		}
		verb, shadow := "would close", ""
		if r.ClosedBefore(at) {
			verb = "closes"
		}
		if rule.Mode == schemas.ModeShadow {
			shadow = ", in mode shadow"
		}
		list = append(list, fmt.Sprintf("rule %s %s %s until %s%s", rule.Name, verb, name(c.Caller), closedUntilText(r, at), shadow))
	}
	return list
}

// closedUntilText says until when a rule closes a caller after a trial.
func closedUntilText(r *fold.RuleOutcome, at int64) string {
	var parts []string
	if end := max(r.After.Closure.Until, r.Early.Until); end > at {
		parts = append(parts, clock(end))
	}
	if r.After.NoRoom() && !r.After.Closure.ClosedAt(at) {
		parts = append(parts, fmt.Sprintf("there is room again (%d counted + %d expected of %d in flight + %d margin, of %d)",
			r.After.Count.Total, r.After.Room.Held, r.After.Room.InFlight, r.After.Room.Margin, r.After.Capacity))
	}
	return strings.Join(parts, ", or ")
}
