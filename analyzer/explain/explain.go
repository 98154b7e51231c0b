package explain

import (
	"slices"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// Input is what is known of a caller.
type Input struct {
	Caller    schemas.Caller
	Now       int64              // Unix nanoseconds
	Look      *fold.Look         // what its owner has counted; nil: nobody could be asked
	At        apiv1.At           // … as of
	Decisions []schemas.Decision // about the caller, in force or to come, as gates were told; any others are ignored
	Partition apiv1.PartitionView
}

// near is the share of a limit from which on a caller is near it.
const near = 0.8

// recently is for how long, in nanoseconds, a closure that is over is worth a word; or for as long as the window, if it began before.
const recently = int64(60e9)

// verdicts returns all verdicts, the ones that matter most first: that of a caller is the first of those of its rules.
func verdicts() []apiv1.Verdict {
	return []apiv1.Verdict{
		apiv1.Unknown, apiv1.ClosedByHand, apiv1.Closed, apiv1.ClosedEarly, apiv1.OpenedByHand, apiv1.ShadowOnly, apiv1.Unlimited,
		apiv1.NotCounted, apiv1.Near, apiv1.Ended, apiv1.Below, apiv1.NotMatched, apiv1.NoRule,
	}
}

func order(v apiv1.Verdict) int { return slices.Index(verdicts(), v) }

// Explain returns the verdict about a caller, and the numbers behind it.
func Explain(in *Input) apiv1.Explanation {
	e := apiv1.Explanation{
		Now: timeOf(in.Now), Caller: event.CallerOf(in.Caller), Partition: in.Partition,
		Rules: []apiv1.RuleExplanation{}, Decisions: []apiv1.DecisionView{},
	}
	now := in.Now
	if in.Look != nil {
		now = in.Look.Now
	}
	for i := range in.Decisions {
		if d := &in.Decisions[i]; d.Caller == in.Caller && (d.Until > now || d.Next.Until > now || d.Share != nil && d.Share.Until > now) {
			e.Decisions = append(e.Decisions, Decision(d, now))
		}
	}
	if in.Look == nil {
		e.Verdict, e.Sentence = apiv1.Unknown, unknown(in, e.Decisions)
		return e
	}
	e.At, e.Now = &in.At, timeOf(now)
	e.Verdict, e.Sentence = apiv1.NoRule, noRule(in.Look)
	best := apiv1.RuleExplanation{Verdict: apiv1.NoRule}
	for i := range in.Look.Rules {
		r := explainRule(&in.Look.Rules[i], in.Look, e.Decisions)
		e.Rules = append(e.Rules, r)
		if order(r.Verdict) < order(best.Verdict) || r.Verdict == best.Verdict && lasts(&r, &best) {
			best, e.Verdict, e.Sentence, e.Rule = r, r.Verdict, r.Sentence, r.Rule
			e.Until = until(&r)
		}
	}
	if h := &in.Look.Record; h.By != nil && h.Closure.ClosedAt(now) {
		v := apiv1.ClosedByHand
		if h.Mode == schemas.ModeShadow {
			v = apiv1.ShadowOnly
		}
		if order(v) < order(e.Verdict) {
			e.Verdict, e.Sentence, e.Rule, e.Until = v, closedByRecord(in.Look), schemas.ControlRule, timeOf(h.Closure.Until)
		}
	}
	if in.Partition.Stale {
		e.Sentence += staleNote(in)
	}
	return e
}

// lasts reports whether of two rules with one verdict the first says more: it closes for longer, or is nearer to its limit.
func lasts(a, b *apiv1.RuleExplanation) bool {
	if b.Rule == "" {
		return false
	}
	if au, bu := until(a), until(b); !au.Equal(bu) {
		return au.After(bu)
	}
	return a.Share > b.Share
}

// explainRule returns what one rule says of a caller.
func explainRule(r *fold.RuleLook, l *fold.Look, decisions []apiv1.DecisionView) apiv1.RuleExplanation {
	e := apiv1.RuleExplanation{RuleState: ruleState(r, l.Now)}
	for i := range decisions {
		if decisions[i].Rule == r.Rule.Name {
			e.Decision = &decisions[i]
		}
	}
	e.Verdict = verdictOf(r, l.Now)
	e.Sentence = sentence(e.Verdict, r, l, e.Decision)
	return e
}

// verdictOf returns the verdict of one rule.
func verdictOf(r *fold.RuleLook, now int64) apiv1.Verdict {
	closed, early := r.Closure.ClosedAt(now), r.Span.Covers(now)
	enforced := r.Rule.Mode == schemas.ModeEnforce
	switch {
	case closed && enforced:
		return apiv1.Closed
	case early && enforced:
		return apiv1.ClosedEarly
	case r.OpenedBy != nil:
		return apiv1.OpenedByHand
	case closed || early:
		return apiv1.ShadowOnly
	case r.Absence == fold.PatternAbsence:
		return apiv1.NoRule
	case r.Unlimited && r.Pool == nil:
		return apiv1.Unlimited
	case r.Absence == fold.Waiting, r.Absence == fold.TableFull:
		return apiv1.NotCounted
	case share(used(r), r.Capacity) >= near && !r.Unlimited:
		return apiv1.Near
	case r.Closure.Nth > 0 && (r.Closure.Until > now-recently || r.Closure.Until > r.Count.Start):
		return apiv1.Ended
	case r.Absence == fold.MatchAbsence:
		return apiv1.NotMatched
	}
	return apiv1.Below
}
