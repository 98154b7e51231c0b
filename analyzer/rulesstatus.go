package analyzer

import (
	"context"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// Conditions for a warning that a rule is without effect.
const (
	unusedAfter     = time.Minute // how long an analyzer must have counted by the rules
	patternPatience = 10_000      // how many requests a pattern of resources must have failed to match
)

// rulesInUse is the rules of an analyzer, and what is known of them.
type rulesInUse struct {
	set     *rules.Set
	since   time.Time       // since when they count; zero before Run
	refused error           // why a newer file is not used
	warned  map[string]bool // names of rules and reasons that the log has warned of
}

// RulesStatus says which rules an Analyzer counts by, and which of them may be wrong.
type RulesStatus struct {
	Set     *rules.Set
	Refused error             // why the newest version of the file is not used; nil if it is
	Unused  []fold.UnusedRule // rules that had no effect for a minute or more, or not all of it, although requests came
}

// SetRules changes the rules of all owners, without losing counts.
func (a *Analyzer) SetRules(set *rules.Set) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rules = rulesInUse{set: set, since: time.Now()}
	for _, r := range a.owners {
		r.owner.SetRules(set)
	}
}

// RefuseRules notes why newer rules cannot be used. The next SetRules clears that.
func (a *Analyzer) RefuseRules(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rules.refused = why
}

// RulesStatus returns the status of the rules at now.
func (a *Analyzer) RulesStatus(now time.Time) RulesStatus {
	stats := a.Stats()
	a.mu.Lock()
	in := a.rules
	a.mu.Unlock()
	status := RulesStatus{Set: in.set, Refused: in.refused}
	if in.since.IsZero() || now.Sub(in.since) < unusedAfter {
		return status
	}
	requests := uint64(0)
	folds := make([]*fold.Stats, 0, len(stats))
	for i := range stats {
		requests += stats[i].Fold.Requests
		folds = append(folds, &stats[i].Fold)
	}
	if requests > 0 { // otherwise the rules are not the reason
		status.Unused = fold.Unused(in.set, patternPatience, folds...)
	}
	return status
}

// watchRules logs, until ctx ends, each rule without effect once.
func (a *Analyzer) watchRules(ctx context.Context) {
	a.mu.Lock()
	if a.rules.since.IsZero() {
		a.rules.since = time.Now()
	}
	a.mu.Unlock()
	tick := time.NewTicker(unusedAfter / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, u := range a.RulesStatus(now).Unused {
				if a.firstWarning(u.Rule.Name + " " + u.Reason()) {
					a.logger.Warn("rule without effect", "rule", u.Rule.Name, "warning", u.String())
				}
			}
		}
	}
}

// firstWarning reports whether this is the first warning about something since the rules changed, and remembers it.
func (a *Analyzer) firstWarning(about string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rules.warned[about] {
		return false
	}
	if a.rules.warned == nil {
		a.rules.warned = make(map[string]bool)
	}
	a.rules.warned[about] = true
	return true
}
