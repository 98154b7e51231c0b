package analyzerprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/metric"
)

// ruleMetrics are what each rule did in all partitions together: with a hundred rules and the partition as another label there would
// be ten thousand series. The labels are names that operators give.
type ruleMetrics struct {
	requests, closes, warnings, closed, uncounted, recovered *prometheus.Desc
	sums                                                     *sums
}

func newRuleMetrics() ruleMetrics {
	return ruleMetrics{
		requests: metric.Desc("rule_requests_total", "Requests that a rule matches, by result. blocked: gates had refused them, by this rule or "+
			"another about the same kind of caller. would_block: their caller was closed under the rule in mode shadow. counted: all others.", "rule", "result"),
		closes:    metric.Desc("rule_closes_total", "Closes by rule and by the rule's mode.", "rule", "mode"),
		warnings:  metric.Desc("rule_warnings_total", "Shares of a limit that were crossed, by rule and by the rule's mode.", "rule", "mode"),
		closed:    metric.Desc("rule_closed", "Closures in force, by rule and by the mode in which they were decided.", "rule", "mode"),
		uncounted: metric.Desc("uncounted_weight_total", "Weight for which there was no row when it came, by rule.", "rule"),
		recovered: metric.Desc("recovered_weight_total", "Uncounted weight that rows count which were made later, by rule.", "rule"),
		sums:      newSums(),
	}
}

func (m *ruleMetrics) descs() []*prometheus.Desc {
	return []*prometheus.Desc{m.requests, m.closes, m.warnings, m.closed, m.uncounted, m.recovered}
}

// Places in the row of a rule. Those of a mode follow each other, by schemas.Mode.
const (
	ruleCounted = iota
	ruleBlocked
	ruleWouldBlock
	ruleUncounted
	ruleRecovered
	ruleCloses
	ruleWarnings = ruleCloses + modes
	ruleNumbers  = ruleWarnings + modes
)

// modes is one more than the largest schemas.Mode of a rule.
const modes = int(max(schemas.ModeEnforce, schemas.ModeShadow)) + 1

func ruleRow(s *fold.RuleStats) row {
	r := make(row, ruleNumbers)
	r[ruleCounted], r[ruleBlocked], r[ruleWouldBlock] = float64(s.Counted), float64(s.Blocked), float64(s.WouldBlock)
	r[ruleUncounted], r[ruleRecovered] = float64(s.Uncounted), float64(s.Recovered)
	for mode, tally := range map[schemas.Mode]fold.Tally{schemas.ModeEnforce: s.Enforced, schemas.ModeShadow: s.Shadowed} {
		r[ruleCloses+int(mode)], r[ruleWarnings+int(mode)] = float64(tally.Closes), float64(tally.Warnings)
	}
	return r
}

// collect sends the numbers of each rule: those of its mode now, so that a rate has something to begin with, and those of the other
// mode if there are any.
func (m *ruleMetrics) collect(out chan<- prometheus.Metric, owners []stats) {
	now, closed := make(counters), make(map[outbox.RuleMode]int)
	for i := range owners {
		for j := range owners[i].Fold.Rules {
			r := &owners[i].Fold.Rules[j]
			now[counted{owners[i].Partition, r.Rule}] = ruleRow(r)
			closed[outbox.RuleMode{Rule: r.Rule, Mode: r.Mode}] += 0
		}
		for r, n := range owners[i].Publish.ClosedBy {
			closed[r] += n
		}
	}
	for rule, r := range m.sums.add(now) {
		counter := func(desc *prometheus.Desc, at int, label ...string) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, r[at], append([]string{rule}, label...)...)
		}
		counter(m.requests, ruleCounted, "counted")
		counter(m.requests, ruleBlocked, "blocked")
		counter(m.requests, ruleWouldBlock, "would_block")
		counter(m.uncounted, ruleUncounted)
		counter(m.recovered, ruleRecovered)
		for _, mode := range []schemas.Mode{schemas.ModeEnforce, schemas.ModeShadow} {
			closes, warnings := ruleCloses+int(mode), ruleWarnings+int(mode)
			if _, shown := closed[outbox.RuleMode{Rule: rule, Mode: mode}]; shown || r[closes]+r[warnings] > 0 {
				counter(m.closes, closes, mode.String())
				counter(m.warnings, warnings, mode.String())
			}
		}
	}
	for r, n := range closed {
		out <- prometheus.MustNewConstMetric(m.closed, prometheus.GaugeValue, float64(n), r.Rule, r.Mode.String())
	}
}
