package analyzer

import (
	"context"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// When a rule is said to be without effect.
const (
	unusedAfter     = time.Minute // the time that an analyzer counts by a rule before it doubts it
	patternPatience = 10_000      // requests that a pattern of resources must have missed
)

// rulesInUse is the rules of an analyzer.
type rulesInUse struct {
	set     *rules.Set
	since   time.Time       // from when on they count; zero before Run
	refused error           // why a newer file is not used
	warned  map[string]bool // names of rules that the log has warned of
}

// RulesStatus says which rules an Analyzer counts by, and what is doubtful about them.
type RulesStatus struct {
	Set     *rules.Set
	Refused error             // why the newest version of the file is not used; nil if it is
	Unused  []fold.UnusedRule // rules that had no effect in more than a minute, in which other rules counted requests
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

// RefuseRules notes that there are newer rules that cannot be used, and why. The next SetRules ends that.
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

// watchRules logs rules without effect, each once, until ctx ends.
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
				if a.firstWarning(u.Rule.Name) {
					a.logger.Warn("rule without effect", "rule", u.Rule.Name, "warning", u.String())
				}
			}
		}
	}
}

// firstWarning reports whether the log has not warned of a rule since the rules changed.
func (a *Analyzer) firstWarning(rule string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rules.warned[rule] {
		return false
	}
	if a.rules.warned == nil {
		a.rules.warned = make(map[string]bool)
	}
	a.rules.warned[rule] = true
	return true
}
