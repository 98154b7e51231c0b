package fold

import (
	"github.com/509da70d/floodgate/analyzer/busiest"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// View reads what a fold holds, and changes nothing. Only the goroutine that uses the fold may use it.
type View struct {
	table   *table
	rules   *inForce
	predict *predict.Predictor
	busiest *busiest.Callers
	options predict.Options
	use     []ruleCounters // by rule
	pools   *pools
}

// View returns a View of the fold.
func (f *Fold) View() View {
	return View{&f.table, f.rules, f.predict, &f.busiest, f.opts.predict(), f.counters, &f.pools}
}

// NoteLacks notes in a Look what each rule lacks of requests in flight, of all callers, as far as this process has seen.
func (v View) NoteLacks(l *Look) {
	for i := range l.Rules {
		r := l.Rules[i].Rule
		l.Rules[i].Lacks = v.use[v.rules.index(r.Name)].use.followed.lacks(r)
	}
}

// Row is one rule and caller as the fold holds it.
type Row struct {
	Rule      *rules.Rule
	ID        string
	Closure   policy.Closure
	Total     int64 // weight in the window at the time that was given to Rows or WalkRows
	Limit     int64 // that the caller is counted under: by control records, else as LimitFor says
	Unlimited bool  // by an override or a control record: nothing closes the caller
	Since     int64 // log time up to which weight may be missing from Total: a lower bound; math.MinInt64 if it is exact
}

// LowerBound reports whether weight may be missing from Total.
func (r *Row) LowerBound() bool { return r.Since != never }

// Rows calls yield with every row, as of at in Unix nanoseconds, in no particular order, until it returns false.
func (v View) Rows(at int64, yield func(Row) bool) {
	var shown Row
	v.table.each(func(_ uint32, r *row) bool {
		v.show(r, at, &shown)
		return yield(shown)
	})
}

// Closures returns all closures that end after now, also those of control records. Each is a change of kind Moved, without an offset.
func (v View) Closures(now int64) []Change {
	var list []Change
	v.table.each(func(_ uint32, r *row) bool {
		if now >= r.closure.Until {
			return true
		}
		rule := v.rules.set.Rules[r.rule]
		limit, _ := v.rules.limitOf(rule, r)
		list = append(list, Change{
			Rule: rule, Caller: schemas.Caller{Kind: rule.Kind, ID: r.id}, Kind: policy.Moved, Closure: r.closure,
			Count: rule.Window.View(r.state, limit, v.table.now), Limit: limit, At: r.closure.CloseAt,
		})
		return true
	})
	return v.recordClosures(list, now)
}

// recordClosures appends the closures of control records that end after now, as Closures returns them.
func (v View) recordClosures(list []Change, now int64) []Change {
	first := len(list)
	for caller, l := range v.rules.records.Callers() {
		if c, rule := v.rules.records.Closure(caller.Kind, l, v.rules.records.Modes()); now < c.Until {
			list = append(list, Change{Rule: rule, Caller: caller, Kind: policy.Moved, Closure: c, At: c.CloseAt})
		}
	}
	sortChanges(list[first:])
	return list
}

// MayBeClosed reports whether a caller without a row may be closed rightly under a rule of the given name and fingerprint: the rule has not
// changed, and has lost weight that may still matter.
func (v View) MayBeClosed(rule string, fingerprint uint64, id string) bool {
	i := v.rules.index(rule)
	if i < 0 || v.table.losses.byRule[i].lost == never || v.rules.set.Rules[i].Fingerprint() != fingerprint {
		return false
	}
	r := v.rules.set.Rules[i]
	limit, _ := v.rules.limitUnder(r, id)
	return v.table.now < forgottenAt(r, nil, limit, v.table.losses.byRule[i].lost)
}

// Lag returns the lag and its deviation, in nanoseconds: see predict.Predictor.Lag.
func (v View) Lag() (mean, deviation int64, ok bool) { return v.predict.Lag(v.table.now) }

// Records returns the control records that are remembered. They are only for reading.
func (v View) Records() *override.Records { return v.rules.records }

// Busiest returns the busiest callers: see busiest.Callers. Without Options.Busiest there are none.
func (v View) Busiest() *busiest.Callers { return v.busiest }
