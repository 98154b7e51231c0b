package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// until returns the time that a verdict of a rule ends at, or the zero time.
func until(r *apiv1.RuleExplanation) time.Time {
	switch {
	case r.Verdict == apiv1.OpenedByHand && r.Limit.By != nil:
		return r.Limit.By.Until
	case r.Verdict == apiv1.ClosedEarly && r.Early != nil:
		return r.Early.Until
	case r.Verdict == apiv1.Closed || r.Verdict == apiv1.ShadowOnly:
		if r.Closure != nil && r.Closure.InForce {
			return r.Closure.Until
		}
		if r.Early != nil {
			return r.Early.Until
		}
	}
	return time.Time{}
}

// sentence says a verdict about a rule and a caller to people, and what all callers of a pool ask for.
func sentence(v apiv1.Verdict, r *fold.RuleLook, l *fold.Look, d *apiv1.DecisionView) string {
	if v == apiv1.NoRule {
		return fmt.Sprintf("Rule %s counts only %s, so it does not count %s.", r.Rule.Name, text(r.Rule.CallersText()), name(l.Caller))
	}
	return verdictText(v, r, l, d) + poolText(r)
}

// verdictText says a verdict about a rule that counts a caller.
func verdictText(v apiv1.Verdict, r *fold.RuleLook, l *fold.Look, d *apiv1.DecisionView) string {
	who, rule := name(l.Caller), r.Rule.Name
	switch v {
	case apiv1.Closed:
		return fmt.Sprintf("%s is closed %s, by rule %s: %s%s.", who, ending(r, l.Now), rule, reached(r, d), published(r, d))
	case apiv1.ClosedEarly:
		if r.Held {
			return fmt.Sprintf("%s is closed %s, or until there is room, by rule %s ahead of time: %s.", who, lasting(r.Span.Until, l.Now), rule, heldText(r))
		}
		return fmt.Sprintf("%s is closed %s, by rule %s ahead of time: it %s, and at its rate of %.0f a second it reaches the limit before gates could hear of that.",
			who, lasting(r.Span.Until, l.Now), rule, counted(r), r.Rate)
	case apiv1.OpenedByHand:
		return fmt.Sprintf("%s has no limit under rule %s %s: %s opened it by hand at %s, because %s. It %s.",
			who, rule, lasting(r.OpenedBy.Until, l.Now), text(r.OpenedBy.Author), clock(r.OpenedBy.Time),
			quoted(r.OpenedBy.Reason), counted(r))
	case apiv1.ShadowOnly:
		return fmt.Sprintf("%s is admitted: rule %s would refuse it %s, but is in mode shadow%s.",
			who, rule, lasting(refusedUntil(r, l.Now), l.Now), shadowReason(r.ShadowBy))
	case apiv1.Unlimited:
		return fmt.Sprintf("%s has no limit under rule %s: the override for %s says unlimited. It %s.", who, rule, text(r.Override), counted(r))
	case apiv1.NotCounted:
		return notCountedText(who, r)
	case apiv1.Near:
		if r.Pool != nil {
			return fmt.Sprintf("%s is open, and near its %s under rule %s, or over it: it %s%s.", who, limitWord(r), rule, counted(r), limitSource(r))
		}
		return fmt.Sprintf("%s is open, and near the limit of rule %s: it %s, and %d are left%s.",
			who, rule, counted(r)+inFlightText(r), max(0, r.Capacity-used(r)), limitSource(r))
	case apiv1.Ended:
		return fmt.Sprintf("%s is open again: rule %s had closed it until %s, %s ago. It %s%s.",
			who, rule, clock(r.Closure.Until), span(l.Now-r.Closure.Until), counted(r)+inFlightText(r)+leftText(r), limitSource(r))
	case apiv1.NotMatched:
		return fmt.Sprintf("Rule %s counts only %s, and none of that has come from %s in %s.", rule, matches(r.Rule), who, window("this", r.Rule, l.Now))
	case apiv1.Below, apiv1.NoRule, apiv1.Unknown, apiv1.ClosedByHand:
	}
	return fmt.Sprintf("%s is open: under rule %s it %s%s.", who, rule, counted(r)+inFlightText(r)+leftText(r), limitSource(r))
}

// refusedUntil returns until when a rule closes a caller now: by what was counted, or else by prediction.
func refusedUntil(r *fold.RuleLook, now int64) int64 {
	if r.Closure.ClosedAt(now) {
		return r.Closure.Until
	}
	return r.Span.Until
}

// reached says when and how a rule has closed a caller.
func reached(r *fold.RuleLook, d *apiv1.DecisionView) string {
	var b string
	if r.Pool != nil {
		b = overShare(r)
	} else {
		b = fmt.Sprintf("it reached %d %s%s at %s", r.Capacity, unit(r.Rule), inWindow("one", r.Rule, r.Closure.CloseAt), clock(r.Closure.CloseAt))
	}
	if r.ByDemand {
		b += ", together with what gates had refused ahead of time"
	}
	if d != nil && d.Offset > 0 && !d.Early {
		b += fmt.Sprintf(" (offset %d)", d.Offset)
	}
	if r.Closure.Nth > 1 {
		b += fmt.Sprintf("; this is close number %d in a row", r.Closure.Nth)
	}
	if r.Pool != nil {
		b += ", and " + counted(r)
	}
	return b + limitSource(r)
}

// published says that gates may not know of a closure.
func published(r *fold.RuleLook, d *apiv1.DecisionView) string {
	switch {
	case d != nil && d.InForce:
		return ""
	case r.Share != nil:
		return ". Gates are not told: they give it a share of permits instead"
	}
	return ". Gates have not been told yet"
}

// notCountedText says that a full table has kept a caller from being counted.
func notCountedText(who string, r *fold.RuleLook) string {
	if r.Absence == fold.Waiting {
		return fmt.Sprintf("Rule %s does not count %s exactly, because the table of callers is full: it waits, and %s.", r.Rule.Name, who, counted(r))
	}
	return fmt.Sprintf("Rule %s does not count %s: the table of callers is full, or was at %s, so that what it sent may be lost.", r.Rule.Name, who, clock(r.Since))
}

// closedByRecord says who has closed a caller.
func closedByRecord(l *fold.Look) string {
	h, c := &l.Record, &l.Record.By.Control
	by := fmt.Sprintf("%s closed it by hand at %s, because %s", text(c.Author), clock(c.Time), quoted(c.Reason))
	if h.Mode == schemas.ModeShadow {
		return fmt.Sprintf("%s is admitted: %s, but closures by hand are in mode shadow%s.", name(l.Caller), by, shadowReason(h.ShadowBy))
	}
	return fmt.Sprintf("%s is closed %s: %s.", name(l.Caller), lasting(h.Closure.Until, l.Now), by)
}

// noRule says that no rule counts a caller.
func noRule(l *fold.Look) string {
	if len(l.Rules) == 0 {
		return fmt.Sprintf("%s is open: no rule counts callers of kind %s.", name(l.Caller), text(l.Caller.Kind))
	}
	return fmt.Sprintf("%s is open: the rules that count callers of kind %s are for other ids.", name(l.Caller), text(l.Caller.Kind))
}

// unknown says why no owner could be asked, and what gates still hold.
func unknown(in *Input, held []apiv1.DecisionView) string {
	p := &in.Partition
	b := fmt.Sprintf("Nobody knows what %s has sent: ", name(in.Caller))
	switch {
	case p.Beat.IsZero():
		b += fmt.Sprintf("no owner of partition %d has been heard of", p.Partition)
	case p.Stale:
		b += fmt.Sprintf("the owner of partition %d was heard of last at %s, %s ago", p.Partition, clock(p.Beat.UnixNano()), span(in.Now-p.Beat.UnixNano()))
	default:
		b += fmt.Sprintf("the owner of partition %d does not answer, its state is %s", p.Partition, text(p.State))
	}
	var rule string
	var until time.Time
	for i := range held {
		if end := closedUntil(&held[i], in.Now); end.After(until) && held[i].Mode == schemas.ModeEnforce.String() {
			rule, until = held[i].Rule, end
		}
	}
	if rule != "" {
		return b + fmt.Sprintf("; gates hold it closed by rule %s until %s, as was decided before.", text(rule), clock(until.UnixNano()))
	}
	return b + "; gates were not told to close it."
}

// closedUntil returns the end of the span of a decision that closes its caller now; the zero time if none does.
func closedUntil(d *apiv1.DecisionView, now int64) time.Time {
	switch at := timeOf(now); {
	case !d.InForce:
		return time.Time{}
	case d.Until.After(at) && !d.CloseAt.After(at):
		if d.NextTo.After(d.Until) && !d.NextAt.After(d.Until) {
			return d.NextTo // without a gap
		}
		return d.Until
	}
	return d.NextTo
}

// staleNote says that gates may not hear of what is decided.
func staleNote(in *Input) string {
	if in.Partition.Beat.IsZero() {
		return " No heartbeat of its partition has come: gates may not know."
	}
	return fmt.Sprintf(" The last heartbeat of its partition came at %s: gates may not know.", clock(in.Partition.Beat.UnixNano()))
}

// counted says how much of the limit is used: "has sent at least 40 of 100 requests in 1m", "has 7 of 20 requests in flight", or, of a pool,
// "has asked for 9150 of 4800 requests in 1s".
func counted(r *fold.RuleLook) string {
	verb, least := "has sent", ""
	switch {
	case r.Rule.Measure == rules.InFlight:
		verb = "has"
	case r.Pool != nil:
		verb = "has asked for"
	}
	if r.LowerBound() && r.Absence == fold.Present || r.Absence == fold.Waiting {
		least = "at least "
	}
	of := ""
	if !r.Unlimited {
		of = fmt.Sprintf(" of %d", r.Capacity)
	}
	where := inWindow("this", r.Rule, r.Count.Start)
	if r.Pool == nil && r.Rule.Window.Traits().Endless {
		where = fmt.Sprintf(" that are still in its bucket, which drains %d in %s", r.Limit, window("", r.Rule, r.Count.Start))
	}
	return fmt.Sprintf("%s %s%d%s %s%s", verb, least, r.Count.Total, of, unit(r.Rule), where)
}

// limitSource says where the limit comes from, if not from the rule.
func limitSource(r *fold.RuleLook) string {
	switch {
	case r.LimitBy != nil:
		c := &r.LimitBy.Control
		return fmt.Sprintf("; %s set this limit by hand until %s, because %s", text(c.Author), clock(c.Until), quoted(c.Reason))
	case r.Override != "":
		return fmt.Sprintf("; the limit is that of the override for %s", text(r.Override))
	}
	return ""
}

// shadowReason returns the part of a sentence that says which person put a rule into mode shadow, and why; "" if nobody did.
func shadowReason(m *override.Record) string {
	if m == nil {
		return ""
	}
	return fmt.Sprintf(" until %s: %s did that by hand, because %s", clock(m.Until), text(m.Author), quoted(m.Reason))
}

// matches says what a rule with a match counts.
func matches(r *rules.Rule) string {
	var parts []string
	if r.ReadsResponses() && !r.FollowsRequests() {
		parts = append(parts, "responses")
	}
	if m := r.Match.Text(); m != "" {
		parts = append(parts, text(m))
	}
	return strings.Join(parts, " with ")
}

// unit is what a rule counts, for people.
func unit(r *rules.Rule) string {
	switch {
	case r.Measure == rules.Cost:
		return "units of cost"
	case r.Measure == rules.InFlight:
		return "requests in flight"
	case r.ReadsResponses():
		return "responses"
	}
	return "requests"
}

// inWindow says in which window something is counted: " in 1m". Requests in flight have none.
func inWindow(which string, r *rules.Rule, at int64) string {
	if r.Measure == rules.InFlight {
		return ""
	}
	return " in " + window(which, r, at)
}

// window is the length of a rule's window, for people: "1m", or, of a calendar, "month" behind a word that says which.
func window(which string, r *rules.Rule, at int64) string {
	if unit := r.Calendar(); unit != "" {
		return which + " " + unit
	}
	return document.FormatDuration(time.Duration(r.Window.Length(at)))
}

// lasting says until when something lasts: "until 2026-11-22T14:00:00Z, for 42s more". What a person has done ends by log time, which
// stands still while nothing comes.
func lasting(until, now int64) string {
	if until <= now {
		return fmt.Sprintf("until %s (which is over: the next request that is counted ends it)", clock(until))
	}
	return fmt.Sprintf("until %s, for %s more", clock(until), span(until-now))
}

// span writes a time that passes, rounded.
func span(d int64) string {
	t := time.Duration(d)
	switch {
	case t >= time.Hour:
		t = t.Round(time.Minute)
	case t >= 10*time.Second:
		t = t.Round(time.Second)
	default:
		t = t.Round(10 * time.Millisecond)
	}
	return document.FormatDuration(t)
}

// clock writes a time in UTC, to the second.
func clock(t int64) string { return timeOf(t).Format(time.RFC3339) }

func name(c schemas.Caller) string { return text(c.String()) }

func text(s string) string { return string(printable.Of(s)) }

// quoted writes what somebody has written, so that it cannot end its quotes: a backslash in it is doubled by text.
func quoted(s string) string { return `"` + strings.ReplaceAll(text(s), `"`, `\"`) + `"` }
