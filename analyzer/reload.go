package analyzer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// SetRules changes the rules between two records. Rules of one name and one shape keep their counts, and what they
// decide is derived anew at once; the counts of other rules start at nothing, and what they had closed opens. The
// changes are added to what TakeChanges returns, by rule and caller.
//
// The offset at which rules change is part of what the fold depends on: the owner commits it before it folds on.
func (f *Fold) SetRules(set *rules.Set) {
	old, rows := f.set, f.table
	f.endScan()
	f.setRules(set)
	f.table, f.wheel, f.dirty = table{}, wheel{minute: f.wheel.minute, started: f.wheel.started}, nil
	first := len(f.changes)
	moved := make([]int32, len(old.Rules))
	for i, r := range old.Rules {
		moved[i] = f.ruleIndex(r.Name)
		if to := moved[i]; to >= 0 && (set.Rules[to].Shape() != r.Shape() || set.Rules[to].Kind != r.Kind) {
			moved[i] = -1
		}
	}
	rows.each(func(_ uint32, r *row) bool {
		if to := moved[r.rule]; to >= 0 && set.Rules[to].Pattern.Match(r.id) {
			f.rederive(old.Rules[r.rule], r, to)
		} else {
			f.abandon(old.Rules[r.rule], r)
		}
		return true
	})
	slices.SortFunc(f.changes[first:], func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Rule.Name, b.Rule.Name), strings.Compare(a.Caller.Kind, b.Caller.Kind),
			strings.Compare(a.Caller.ID, b.Caller.ID))
	})
}

// abandon drops a row whose rule is gone or not about its caller any more, and opens what it had closed.
func (f *Fold) abandon(rule *rules.Rule, r *row) {
	f.removed.add(appendRowKey(nil, rule.Name, rule.Kind, r.id), r.stored)
	if r.closure.ClosedAt(f.now) {
		r.closure.Until = f.now
		f.derived(rule, r, policy.Opened)
	}
}

// rederive moves a row to the rule at index to, and lets that rule decide.
func (f *Fold) rederive(was *rules.Rule, r *row, to int32) {
	rule := f.set.Rules[to]
	i := f.table.insert(rowHash(f.opts.Key.Hash(rule.Kind, r.id), to), to, r.id)
	row := f.table.row(i)
	row.set(r.state)
	row.stored, row.closure = r.stored, r.closure
	limit, unlimited := limitFor(rule, r.id)
	closure, change := policy.Derive(rule, limit, unlimited, r.closure, f.now, rule.Window.View(r.state, limit, f.now))
	row.closure = closure
	if r.dirty || change != policy.Same {
		f.markDirty(i, row)
	}
	f.wheel.schedule(i, f.expiry(row))
	if change == policy.Same && was.Mode != rule.Mode && closure.ClosedAt(f.now) {
		change = policy.Moved // the same closure, but gates must learn its mode
	}
	if change != policy.Same {
		f.derived(rule, row, change)
	}
}

// derived reports a change that no entry made.
func (f *Fold) derived(rule *rules.Rule, r *row, kind policy.Change) {
	limit, _ := limitFor(rule, r.id)
	if kind == policy.Closed {
		f.stats.Closes++
	}
	f.changes = append(f.changes, Change{
		Rule: rule, Caller: schemas.Caller{Kind: rule.Kind, ID: r.id}, Kind: kind, Closure: r.closure,
		Count: rule.Window.View(r.state, limit, f.now), Limit: limit, At: f.now, Offset: f.offset,
	})
}
