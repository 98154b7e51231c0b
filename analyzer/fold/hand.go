package fold

import (
	"cmp"
	"slices"
	"strings"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// This file is how control records in force change what is counted and decided: limits of callers, closures by hand, modes of rules.

// limitOf returns the limit of the caller of a row, as LimitFor does, but by the control records in force first.
func (f *Fold) limitOf(r *rules.Rule, row *row) (limit int64, unlimited bool) {
	if row.beside&hasHand != 0 {
		return f.limitByHand(r, row.id)
	}
	return LimitFor(r, row.id)
}

// limitByHand is limitOf for a caller that may have no row.
func (f *Fold) limitByHand(r *rules.Rule, id string) (limit int64, unlimited bool) {
	limit, unlimited = LimitFor(r, id)
	if h := f.manual.hands[schemas.Caller{Kind: r.Kind, ID: id}]; h != nil {
		given, opened := h.limitUnder(r.Name)
		if given > 0 {
			limit, unlimited = given, false
		}
		unlimited = unlimited || opened
	}
	return limit, unlimited
}

// flag notes in a new row whether there are control records about its caller.
func (f *Fold) flag(r *row, kind string) {
	if len(f.manual.hands) > 0 && f.manual.hands[schemas.Caller{Kind: kind, ID: r.id}] != nil {
		r.beside |= hasHand
	}
}

// Effective returns the rule at index i of Rules as it counts now: a copy in mode shadow while a control record says so.
func (f *Fold) Effective(i int) *rules.Rule { return f.set.Rules[i] }

// effective returns the rules as the mode records in force make them.
func (f *Fold) effective(set *rules.Set) *rules.Set {
	if len(f.manual.modes) == 0 {
		return set
	}
	return set.WithShadow(func(rule string) bool { return f.manual.shadows(rule) >= 0 })
}

// closedByHand returns the closure by hand of a caller, and the rule that it is under. Without one the closure is zero.
func (f *Fold) closedByHand(kind string, h *hand) (policy.Closure, *rules.Rule) {
	c, newest := h.closure()
	return c, f.manual.rule(kind, modeOf(newest, f.manual.shadows(schemas.ManualRule)))
}

// isClosedByHand reports whether a caller is closed by hand, at log time.
func (f *Fold) isClosedByHand(kind, id string) bool {
	h := f.manual.hands[schemas.Caller{Kind: kind, ID: id}]
	if h == nil {
		return false
	}
	c, rule := f.closedByHand(kind, h)
	return c.Nth > 0 && rule.Mode == schemas.ModeEnforce
}

// ruleLimit is the limit of a caller under one rule, and its row.
type ruleLimit struct {
	rule      int32
	limit     int64
	unlimited bool
}

// changeHand changes the records in force about a caller, and what follows from them. byHand says that a person does it now.
func (f *Fold) changeHand(caller schemas.Caller, byHand bool, change func(h *hand)) {
	s := &f.manual
	h, known := s.hands[caller], true
	if h == nil {
		h, known = new(hand), false
	}
	limits := f.limits[:0]
	for _, rule := range f.rulesOf(caller.Kind) {
		if !f.set.Rules[rule].Pattern.Match(caller.ID) {
			continue
		}
		l := ruleLimit{rule: rule}
		l.limit, l.unlimited = f.limitByHand(f.set.Rules[rule], caller.ID)
		limits = append(limits, l)
	}
	f.limits = limits
	before, rule := f.closedByHand(caller.Kind, h)
	change(h)
	switch {
	case len(h.records) == 0:
		delete(s.hands, caller)
	case !known:
		s.hands[caller] = h
	}
	f.handChanged(caller, before, rule, h)
	for _, was := range limits {
		f.limitChanged(caller, was, len(h.records) > 0, byHand)
	}
}

// handChanged reports what became of a caller's closure by hand, which was another before, or under another rule.
func (f *Fold) handChanged(caller schemas.Caller, before policy.Closure, was *rules.Rule, h *hand) {
	after, rule := f.closedByHand(caller.Kind, h)
	change := policy.Moved
	switch {
	case after == before && (rule.Mode == was.Mode || after.Nth == 0):
		return
	case before.Nth == 0:
		change = policy.Closed
	case after.Nth == 0 && before.Until <= f.now: // it is over
		if f.opts.Ends {
			f.changes = append(f.changes, Change{
				Rule: was, Caller: caller, Ended: true, Closure: before, At: before.Until, Offset: f.offset,
			})
		}
		return
	case after.Nth == 0:
		change, after, rule = policy.Opened, before, was
		after.Until = after.CloseAt
	}
	f.changes = append(f.changes, Change{
		Rule: rule, Caller: caller, Kind: change, Before: before, Closure: after, At: after.CloseAt, Offset: f.offset,
	})
}

// limitChanged lets a rule decide anew about a caller whose limit may be another one now.
func (f *Fold) limitChanged(caller schemas.Caller, was ruleLimit, flagged, byHand bool) {
	rule := f.set.Rules[was.rule]
	i, ok := f.table.find(rowHash(f.ids.hash(caller.ID), was.rule), was.rule, caller.ID)
	var row *row
	if ok {
		row = f.table.row(i)
		row.flagByHand(flagged)
	}
	limit, unlimited := f.limitByHand(rule, caller.ID)
	if limit == was.limit && unlimited == was.unlimited {
		return
	}
	if f.accounts[was.rule].lost != never {
		f.lose(was.rule, 0) // how long a loss matters depends on limits
	}
	if !ok {
		return
	}
	if row.since != never {
		row.since = max(row.since, f.now)
		f.markDirty(i, row)
	}
	closure, change := policy.Derive(rule, limit, unlimited, row.beside&closedByDemand != 0, row.closure, f.stepsOf(row), f.now,
		rule.Window.View(row.state, limit, f.now))
	if change == policy.Closed {
		f.putSteps(row, policy.Steps(f.stepsOf(row), row.closure, closure))
	}
	if closure != row.closure {
		row.closure = closure
		f.markDirty(i, row)
		f.wheel.schedule(i, f.expiry(row)) // a second time: the first may be too late now
		f.leaveBuckets()
	}
	switch {
	case change == policy.Opened && byHand:
		f.openedByHand(rule, row)
	case change != policy.Same:
		f.derived(rule, row, change)
	}
	f.endAhead(rule, row)
}

func (r *row) flagByHand(is bool) {
	if r.beside &^= hasHand; is {
		r.beside |= hasHand
	}
}

// changeModes changes the mode records in force, and tells gates the new mode of each closure whose mode changes.
func (f *Fold) changeModes(change func()) {
	before, shadows := f.set, f.manual.shadows(schemas.ManualRule)
	change()
	f.set = f.effective(f.file)
	first := len(f.changes)
	differs, some := make([]bool, len(f.set.Rules)), false
	for i, r := range f.set.Rules {
		differs[i] = r.Mode != before.Rules[i].Mode
		some = some || differs[i]
		if differs[i] && f.accounts[i].lost != never {
			f.lose(int32(i), 0) // rules.MaxRules. How long a loss matters depends on the mode
		}
	}
	if some {
		f.table.each(func(i uint32, r *row) bool {
			if differs[r.rule] {
				f.modeChanged(i, r)
			}
			return true
		})
	}
	if now := f.manual.shadows(schemas.ManualRule); now != shadows {
		f.handModesChanged(shadows, now)
	}
	sortChanges(f.changes[first:])
}

// modeChanged tells gates the mode of a row's closure, if it is closed.
func (f *Fold) modeChanged(i uint32, r *row) {
	rule := f.set.Rules[r.rule]
	if r.since != never {
		r.since = max(r.since, f.now)
		f.markDirty(i, r)
	}
	if r.closure.ClosedAt(f.now) {
		f.derived(rule, r, policy.Moved) // the same closure, but gates must learn its mode
	}
	f.endAhead(rule, r)
}

// handModesChanged tells gates the modes of the closures by hand, where shadows of schemas.ManualRule was before and is now.
func (f *Fold) handModesChanged(before, now int64) {
	for caller, h := range f.manual.hands {
		c, newest := h.closure()
		if mode := modeOf(newest, now); c.Nth > 0 && mode != modeOf(newest, before) {
			f.changes = append(f.changes, Change{
				Rule: f.manual.rule(caller.Kind, mode), Caller: caller, Kind: policy.Moved, Before: c, Closure: c, At: c.CloseAt, Offset: f.offset,
			})
		}
	}
}

// endAhead ends what gates were told ahead of time about a row, and what was measured for it.
func (f *Fold) endAhead(rule *rules.Rule, r *row) {
	tr := f.trackers.find(r)
	if tr == nil {
		return
	}
	limit, _ := f.limitOf(rule, r)
	if tr.announced.Holds(f.now) || tr.share != nil && tr.share.Share(rule, limit, f.now) != nil {
		f.planEnd(rule, r, limit)
	}
	f.trackers.remove(r)
}

// handClosures appends the closures by hand that end after now, as Closures does.
func (f *Fold) handClosures(list []Change, now int64) []Change {
	first := len(list)
	for caller, h := range f.manual.hands {
		if c, rule := f.closedByHand(caller.Kind, h); now < c.Until {
			list = append(list, Change{Rule: rule, Caller: caller, Kind: policy.Moved, Closure: c, At: c.CloseAt})
		}
	}
	sortChanges(list[first:])
	return list
}

// sortChanges orders changes that no entry made by rule and caller.
func sortChanges(list []Change) {
	slices.SortFunc(list, func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Rule.Name, b.Rule.Name), strings.Compare(a.Caller.Kind, b.Caller.Kind),
			strings.Compare(a.Caller.ID, b.Caller.ID))
	})
}
