package explain

import (
	"fmt"
	"math"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/hold"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// Caller returns what a fold holds about a caller, at a place of the log.
func Caller(l *fold.Look, at apiv1.At) apiv1.CallerState {
	s := apiv1.CallerState{At: at, Now: timeOf(l.Now), Caller: event.CallerOf(l.Caller), Rules: make([]apiv1.RuleState, len(l.Rules))}
	for i := range l.Rules {
		s.Rules[i] = ruleState(&l.Rules[i], l.Now)
	}
	if l.Record.Closure.ClosedAt(l.Now) {
		s.ClosedBy = controlRecord(l.Record.By)
	}
	return s
}

// ruleState returns what a fold holds about a caller under one rule.
func ruleState(r *fold.RuleLook, now int64) apiv1.RuleState {
	s := apiv1.RuleState{
		Rule: r.Rule.Name, Version: version(r.Rule.Fingerprint()), Mode: r.Rule.Mode.String(), ModeBy: controlRecord(r.ShadowBy),
		Window: r.Rule.WindowText(), WindowNS: r.Rule.Window.Length(now), Measure: r.Rule.Measure.String(), Match: r.Rule.Match.Text(),
		Counted: r.Absence == fold.Present, NotCounted: notCounted(r.Absence), Limit: limitOf(r), Count: r.Count.Total,
		Share: share(r.Count.Total, r.Capacity), LowerBound: r.LowerBound(), WindowFrom: timeOf(r.Count.Start), EmptyAt: timeOf(r.EmptyAt()),
		MoreParts: r.More, Shared: r.Share != nil && r.Share.Covers(now), Rate: r.Rate,
	}
	if !r.Unlimited {
		s.Remaining = max(0, r.Capacity-r.Count.Total)
	}
	if r.LowerBound() {
		s.MissingTo = timeOf(r.Since)
	}
	if r.Count.Full(now) {
		s.FreeAt = timeOf(r.Count.Until)
	}
	for _, p := range r.Parts {
		s.Parts = append(s.Parts, apiv1.Part{From: timeOf(p.From), Until: timeOf(p.To), Leaves: timeOf(p.Leaves), Weight: p.Weight})
	}
	if c := r.Closure; c.Nth > 0 {
		s.Closure = &apiv1.Closure{
			CloseAt: timeOf(c.CloseAt), Until: timeOf(c.Until), Nth: c.Nth, Peak: c.Peak, Demand: r.ByDemand, InForce: c.ClosedAt(now),
		}
	}
	if r.Span.Until > 0 {
		s.Early = &apiv1.EarlyClosure{CloseAt: timeOf(r.Span.CloseAt), Until: timeOf(r.Span.Until), Held: r.Held}
	}
	s.Room, s.Pool = roomOf(r), poolOf(r)
	return s
}

// roomOf returns what a limit has left beside requests in flight; nil under a rule that holds nothing.
func roomOf(r *fold.RuleLook) *apiv1.Room {
	if r.Room == (hold.Room{}) {
		return nil
	}
	return &apiv1.Room{
		InFlight: r.Room.InFlight, Held: r.Room.Held, Margin: r.Room.Margin, Left: r.Room.Left, Mean: r.Room.Mean,
		Learned: r.Learned, DurationNS: r.Duration,
	}
}

// limitOf returns a caller's limit, and where it comes from.
func limitOf(r *fold.RuleLook) apiv1.Limit {
	l := apiv1.Limit{Limit: r.Limit, Capacity: r.Capacity, Unlimited: r.Unlimited, Source: apiv1.LimitOfRule, Override: r.Override}
	switch {
	case r.OpenedBy != nil:
		l.Source, l.By = apiv1.LimitByHand, controlRecord(r.OpenedBy)
	case r.LimitBy != nil:
		l.Source, l.By = apiv1.LimitByHand, controlRecord(r.LimitBy)
	case r.Override != "" && r.Exact:
		l.Source = apiv1.LimitOfID
	case r.Override != "":
		l.Source = apiv1.LimitOfPrefix
	case r.Pool != nil && !r.Unlimited:
		l.Source = apiv1.LimitOfLevel
	}
	return l
}

func notCounted(a fold.Absence) apiv1.Uncounted {
	switch a {
	case fold.Present:
		return ""
	case fold.PatternAbsence:
		return apiv1.UncountedPattern
	case fold.Waiting:
		return apiv1.UncountedWaiting
	case fold.TableFull:
		return apiv1.UncountedFull
	case fold.MatchAbsence:
		return apiv1.UncountedMatch
	case fold.NothingCame:
	}
	return apiv1.UncountedNothing
}

// controlRecord returns a control record in force, or nil.
func controlRecord(m *override.Record) *apiv1.ControlRecord {
	if m == nil {
		return nil
	}
	c := &m.Control
	return &apiv1.ControlRecord{
		ID: c.ID.String(), Action: c.Action.String(), Author: c.Author, Reason: c.Reason, Time: timeOf(c.Time), Until: timeOf(c.Until),
		Rule: c.Rule, Limit: c.Limit, Offset: m.From,
	}
}

// Decision returns a decision as it is now, in Unix nanoseconds.
func Decision(d *schemas.Decision, now int64) apiv1.DecisionView {
	v := apiv1.DecisionView{
		Rule: d.Rule, Version: version(d.RuleVersion), Caller: event.CallerOf(d.Caller), Mode: d.Mode.String(),
		CloseAt: timeOf(d.CloseAt), Until: timeOf(d.Until), Early: d.Early, Shared: d.Share != nil, InForce: d.ClosedAt(now) || d.Next.Covers(now),
		Partition: int(d.Partition), Epoch: d.Epoch, Seq: d.Seq,
		Count: d.Evidence.Count, Limit: d.Evidence.Limit, WindowNS: d.Evidence.Window, WindowFrom: timeOf(d.Evidence.WindowStart),
		Rate: d.Evidence.Rate, Offset: d.Evidence.AsOfOffset, EntryTime: timeOf(d.Evidence.AsOfTime), LagNS: d.Evidence.Lag,
		Expected: d.Evidence.Expected, Bound: d.Evidence.Bound,
	}
	if e := &d.Evidence; d.Held {
		v.Hold = &apiv1.Hold{InFlight: e.InFlight, Held: e.Held, Margin: e.Margin, Learned: e.Learned}
	}
	if d.Next != (schemas.Span{}) {
		v.NextAt, v.NextTo = timeOf(d.Next.CloseAt), timeOf(d.Next.Until)
	}
	return v
}

// version returns a fingerprint as the API writes it.
func version(fingerprint uint64) string { return fmt.Sprintf("%016x", fingerprint) }

// share returns how much of a capacity a count is.
func share(count, capacity int64) float64 { return float64(count) / float64(max(capacity, 1)) }

// timeOf returns a time in UTC; the zero time for the lowest and the highest number, which are no times.
func timeOf(t int64) time.Time {
	if t == math.MinInt64 || t == math.MaxInt64 {
		return time.Time{}
	}
	return time.Unix(0, t).UTC()
}
