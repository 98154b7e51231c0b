package fold

import (
	"math"

	"github.com/509da70d/floodgate/analyzer/hold"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// Absence says why a caller has no row under a rule. The zero value says that it has one.
type Absence uint8

// Absences. If several fit, the first of them is used.
const (
	Present        Absence = iota
	PatternAbsence         // the rule's pattern of ids leaves the id out
	Waiting                // the table was full: the caller waits, and is counted coarsely
	TableFull              // the table was full, so that what the caller sent may be lost
	MatchAbsence           // the rule counts only certain resources or statuses, or responses, and none of them has come
	NothingCame            // no entry has come that still matters
)

// maxParts is how many parts of a window a Look shows.
const maxParts = 256

// Look is what a fold holds about one caller. It stays valid when the fold goes on.
type Look struct {
	Caller schemas.Caller
	Now    int64      // Unix nanoseconds: the time of the windows
	Rules  []RuleLook // of the caller's kind, in the order of the file
	Record RecordLook
}

// RuleLook is what a fold holds about one caller under one rule.
type RuleLook struct {
	Rule     *rules.Rule      // in the mode in which it counts: shadow while a control record says so
	ShadowBy *override.Record // the control record that puts the rule into mode shadow; nil if none does
	Absence  Absence

	Limit     int64            // that the caller is counted under: see LimitFor
	Capacity  int64            // the weight at which the window is full
	Unlimited bool             // nothing closes the caller
	Override  string           // the id or the network of the rule's override that applies to the caller; empty if there is none
	Exact     bool             // the override is for the id
	LimitBy   *override.Record // the control record that gives the limit, before any override; nil if none does
	OpenedBy  *override.Record // the control record that takes the limit away; nil if none does

	Count   window.Count  // at Now. For a caller that waits it is coarse, and never too high
	Since   int64         // log time up to which weight may be missing from Count; math.MinInt64 if it is exact
	Parts   []window.Part // the parts of the window that Count.Total adds up; only the newest maxParts
	More    int           // how many older parts there are
	Early   int64         // weight that gates blocked early in the last two seconds; it counts toward a close as if it had been admitted
	Closure policy.Closure

	Room     hold.Room // what the limit has left beside requests in flight; zero under a rule that holds nothing, and without a limit
	Closes   bool      // the caller is closed while nothing is left: its rule predicts
	Learned  int64     // from how many responses their cost was learned
	Duration int64     // how long requests run on average, in nanoseconds; 0 before the first response

	ByDemand bool           // weight that gates blocked early made the closure
	Held     bool           // Span is because of requests in flight
	Span     schemas.Span   // the predicted closure that was published, if it still holds; zero if there is none
	Share    *schemas.Share // the newest; nil if there is none
	Rate     float64        // demand, weight per second; 0 where it is not measured

	Pool *PoolLook // of a rule with a capacity: what is known of all its callers; else nil

	Lacks string // what the rule lacks of requests in flight, and what a person can do: see View.NoteLacks. Look leaves it empty
}

// NoRoom reports whether requests in flight hold the rest of the limit, so that the caller is closed or will be. A caller that has counted
// nothing, and has nothing in flight, has room.
func (l *RuleLook) NoRoom() bool {
	return l.Closes && l.Room.Left <= 0 && (l.Count.Total > 0 || l.Room.InFlight > 0)
}

// LowerBound reports whether weight may be missing from Count.
func (l *RuleLook) LowerBound() bool { return l.Since != never }

// Look returns what the fold holds about a caller. Its windows are as of now, in Unix nanoseconds, or of log time if that is later. It
// changes nothing. It takes about a microsecond for each rule of the caller's kind, and longer if a window of algorithm log has many
// entries.
func (v View) Look(c schemas.Caller, now int64) Look {
	l := Look{Caller: c, Now: max(now, v.table.now), Record: v.lookRecords(c)}
	hash := v.table.ids.hash(c.ID)
	for _, i := range v.rules.ofKind(c.Kind) {
		l.Rules = append(l.Rules, v.lookRule(i, rowHash(hash, i), c.ID, l.Now))
	}
	return l
}

// lookRule returns what the fold holds about a caller of the rule's kind.
func (v View) lookRule(rule int32, hash uint64, id string, now int64) RuleLook {
	r := v.rules.set.Rules[rule]
	l := RuleLook{Rule: r, Since: never}
	l.Limit, l.Unlimited = v.rules.limitUnder(r, id)
	l.Override, l.Exact, _ = r.Override(id)
	l.LimitBy, l.OpenedBy = v.rules.records.Of(schemas.Caller{Kind: r.Kind, ID: id}).LimitBy(r.Name)
	l.ShadowBy = v.rules.records.Modes().Shadow(r.Name)
	if r.Pool != nil {
		v.lookPool(&l, id, now)
	}
	l.Capacity = r.Window.Capacity(l.Limit)
	i, ok := v.table.find(hash, rule, id)
	if !ok {
		v.lookAbsent(&l, rule, hash, id, now)
		return l
	}
	row := v.table.row(i)
	l.Since, l.Closure, l.ByDemand = row.since, row.closure, row.flags&closedByDemand != 0
	l.Count = r.Window.View(row.state, l.Limit, now)
	l.Parts, l.More = r.Window.Parts(row.state, l.Limit, now, maxParts)
	l.Early = v.table.early(r, row, l.Limit, now, l.Count)
	ahead := v.predict.Ahead(i, r, l.Limit, now)
	if l.Rate, l.Share = ahead.Rate, ahead.Share; ahead.Span.Until > now {
		l.Span, l.Held = ahead.Span, ahead.Held
	}
	if r.Hold != nil && !l.Unlimited {
		l.Room, l.Closes = v.table.room(r, row, l.Limit, now), v.options.Holds(r)
		if s := v.table.sides.holdOf(row); s != nil {
			l.Learned, l.Duration = s.Learned.Responses, s.Learned.Duration()
		}
	}
	return l
}

// lookAbsent notes why there is no row, and what is known of the caller nevertheless.
func (v View) lookAbsent(l *RuleLook, rule int32, hash uint64, id string, now int64) {
	r := l.Rule
	l.Count = r.Window.View(nil, l.Limit, now)
	w, waits := v.table.waiting.find(hash, rule)
	switch {
	case !r.Pattern.Match(id):
		l.Absence = PatternAbsence
	case waits:
		l.Absence, l.Since = Waiting, v.table.losses.byRule[rule].lost
		l.Count.Total = v.table.losses.byRule[rule].coarse.View(v.table.waiting.callers[w].state(), l.Limit, now).Total
	case v.table.losses.since(rule, l.Limit, now) != never:
		l.Absence, l.Since = TableFull, v.table.losses.since(rule, l.Limit, now)
	case r.ReadsResponses() && !r.FollowsRequests() || len(r.Match.Resources) > 0:
		l.Absence = MatchAbsence
	default:
		l.Absence = NothingCame
	}
}

// EmptyAt returns when the window becomes empty if nothing more comes, in Unix nanoseconds; math.MinInt64 if it is empty already.
func (l *RuleLook) EmptyAt() int64 {
	if len(l.Parts) == 0 {
		return math.MinInt64
	}
	return l.Parts[len(l.Parts)-1].Leaves
}

// RecordLook is the closure that the control records in force give one caller. It does not depend on rules.
type RecordLook struct {
	Closure  policy.Closure   // it may not have begun yet, or may be over; Nth is 0 if there is none
	Mode     schemas.Mode     // of that closure
	By       *override.Record // the record that decides when the closure ends; nil if there is none
	ShadowBy *override.Record // the record that puts the closure into mode shadow; nil if none does
}

// lookRecords returns the closure that control records give a caller.
func (v View) lookRecords(c schemas.Caller) (l RecordLook) {
	records, modes := v.rules.records.Of(c), v.rules.records.Modes()
	closure, rule := v.rules.records.Closure(c.Kind, records, modes)
	if closure.Nth == 0 {
		return l
	}
	l.Closure, l.Mode, l.By = closure, rule.Mode, records.ClosedBy(closure)
	if rule.Mode == schemas.ModeShadow {
		l.ShadowBy = modes.Shadow(schemas.ControlRule)
	}
	return l
}
