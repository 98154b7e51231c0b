package analyzer

import (
	"context"
	"fmt"
	"slices"
)

// history finds out by which rules the log was counted, as far as the topic of state tells. With it the recount changes
// rules where the analyzer did; without it what began under earlier rules can't be compared.
func (a *audit) history(ctx context.Context) error {
	if a.at.RulesFrom <= a.first || a.config.State == "" {
		return nil // one set of rules all the way, or nobody to ask
	}
	p := a.config.Fold.Partition
	if _, _, err := a.log.Range(ctx, a.config.State, p); err != nil {
		a.config.Logger.Warn("cannot ask which rules counted before", "topic", a.config.State, "error", err)
		return nil
	}
	h, err := reader{a.log, OwnerConfig{Fold: a.config.Fold, State: a.config.State, Logger: a.config.Logger}}.allRules(ctx)
	if err != nil {
		return ignoreIncomplete(fmt.Errorf("read which rules counted before: %w", err))
	}
	if h = h.spanning(a.first, a.at.RulesID, a.at.RulesFrom); h == nil {
		a.config.Logger.Warn("the topic of state does not tell of all rules that counted the log", "topic", a.config.State)
		return nil
	}
	a.fold.SetRules(h[0].set)
	a.changes = h[1:]
	a.known = true
	return nil
}

// spanning returns the rules in force at offset first and all later ones up to those of the given id and offset, or nil
// where one of them is not known.
func (h ruleHistory) spanning(first int64, id uint64, from int64) ruleHistory {
	for len(h) > 1 && h[1].from <= first {
		h = h[1:]
	}
	if len(h) == 0 || h[0].from > first {
		return nil
	}
	h = h[:len(h)-len(h.since(id, from))]
	if len(h) == 0 || h[len(h)-1].id != id || slices.ContainsFunc(h, func(c ruleChange) bool { return c.set == nil }) {
		return nil
	}
	return h
}

// rulesAt changes the rules where the analyzer did, before the record at an offset is folded.
func (a *audit) rulesAt(offset int64) {
	for len(a.changes) > 0 && a.changes[0].from <= offset {
		a.fold.SetRules(a.changes[0].set)
		a.fold.TakeChanges()
		a.changes = a.changes[1:]
	}
}
