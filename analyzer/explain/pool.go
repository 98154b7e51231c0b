package explain

import (
	"fmt"
	"strconv"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/pool"
)

// poolOf returns what is known of the pool of a rule; nil for a rule without a capacity.
func poolOf(r *fold.RuleLook) *apiv1.Pool {
	p := r.Pool
	if p == nil {
		return nil
	}
	return &apiv1.Pool{
		Capacity: r.Rule.Pool.Capacity, Asked: p.Asked, Whole: p.Whole, Level: units(p.Level.Level), Above: p.Level.Above,
		Weight: units(p.Weight), WeightOf: p.WeightOf,
	}
}

// units returns a level or a weight.
func units(n int64) float64 { return float64(n) / pool.Unit }

// decimal writes a level or a weight.
func decimal(n int64) string { return strconv.FormatFloat(units(n), 'f', -1, 64) }

// poolText says what the callers of a pool ask for together, as a sentence after the one about the caller: "search was asked for 62500 of
// 50000 requests in this 1s by all callers together; the level is 4800." It says no more than is known. It is empty for other rules.
func poolText(r *fold.RuleLook) string {
	p := r.Pool
	if p == nil {
		return ""
	}
	said := fmt.Sprintf(" %s was asked for %d of %d requests%s", r.Rule.Name, p.Asked, r.Rule.Pool.Capacity, inWindow("this", r.Rule, r.Count.Start))
	switch {
	case p.Level.Level == 0 && p.Whole:
		return said + " by all callers together: nobody is limited."
	case p.Level.Level == 0:
		return said + " by the callers of this partition alone; there is no level, so nobody is limited."
	}
	said += fmt.Sprintf(" by all callers together; the level is %s", decimal(p.Level.Level))
	if p.WeightOf != "" {
		said += fmt.Sprintf(", and the weight of %s is %s", text(p.WeightOf), decimal(p.Weight))
	}
	return said + "."
}

// overShare says when a pool has closed a caller, and what the caller has asked for.
func overShare(r *fold.RuleLook) string {
	return fmt.Sprintf("it was over its %s at %s", limitWord(r), clock(r.Closure.CloseAt))
}

// limitWord returns what people call the limit of a caller: one of a pool has a fair share, unless a person has set another limit.
func limitWord(r *fold.RuleLook) string {
	if r.Pool != nil && r.LimitBy == nil {
		return "fair share"
	}
	return "limit"
}
