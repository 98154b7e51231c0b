package audit

import (
	"context"
	"fmt"

	"github.com/509da70d/floodgate/analyzer/snapshot"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// history finds out by which rules the log was counted, as far as the topic of snapshots holds that. With it the recount changes
// rules where the analyzer did; without it what began under earlier rules can't be compared.
func (a *audit) history(ctx context.Context) error {
	if a.at.RulesFrom <= a.first || a.config.State == "" {
		return nil // one set of rules all the way, or no topic to ask
	}
	p := a.config.Fold.Partition
	if _, _, err := a.log.Range(ctx, a.config.State, p); err != nil {
		a.config.Logger.Warn("cannot ask which rules counted before", "topic", a.config.State, "error", err)
		return nil
	}
	h, err := snapshot.NewReader(a.log, a.config.State, p, kafkaio.Temporary, a.config.Logger).Rules(ctx)
	if err != nil {
		return snapshot.IgnoreIncomplete(fmt.Errorf("read which rules counted before: %w", err))
	}
	if h = h.Spanning(a.first, a.at.RulesID, a.at.RulesFrom); h == nil {
		a.config.Logger.Warn("the topic of snapshots does not hold all rules that counted the log", "topic", a.config.State)
		return nil
	}
	a.fold.SetRules(h[0].Set)
	a.changes = h[1:]
	a.known = true
	return nil
}

// rulesAt changes the rules where the analyzer did, before the record at an offset is folded.
func (a *audit) rulesAt(offset int64) { a.rulesTo(offset+1, -1) }

// rulesTo changes the rules where the analyzer did before an offset, and at the offset before a control record was applied.
func (a *audit) rulesTo(offset, control int64) {
	for len(a.changes) > 0 && (a.changes[0].From < offset || a.changes[0].From == offset && a.changes[0].Control <= control) {
		a.fold.SetRules(a.changes[0].Set)
		a.fold.TakeChanges()
		a.changes = a.changes[1:]
	}
}
