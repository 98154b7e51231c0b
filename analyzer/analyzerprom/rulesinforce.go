package analyzerprom

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/schemas/metric"
)

// RulesSource is where a RulesCollector gets its numbers; *analyzer.Analyzer is one.
type RulesSource interface {
	RulesStatus(now time.Time) analyzer.RulesStatus
}

// RulesCollector is a prometheus.Collector of what an analyzer counts by. NewRules makes one. Any goroutine may use it.
type RulesCollector struct {
	source                RulesSource
	info, refused, unused *prometheus.Desc
}

var _ prometheus.Collector = (*RulesCollector)(nil)

// NewRules returns a RulesCollector, to be registered.
func NewRules(s RulesSource) *RulesCollector {
	return &RulesCollector{
		source:  s,
		info:    metric.Desc("rules_info", "1 for the id of the rules that this analyzer counts by: rules check prints it.", "id"),
		refused: metric.Desc("rules_refused", "1 while the rules file cannot be used, so that older rules stay."),
		unused: metric.Desc("rule_unused", "1 for a rule that had no effect in more than a minute: no callers of its kind, "+
			"or a pattern of resources that matched none of 10,000 requests.", "rule", "reason"),
	}
}

// Describe implements prometheus.Collector.
func (c *RulesCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.info
	out <- c.refused
	out <- c.unused
}

// Collect implements prometheus.Collector.
func (c *RulesCollector) Collect(out chan<- prometheus.Metric) {
	s := c.source.RulesStatus(time.Now())
	out <- prometheus.MustNewConstMetric(c.info, prometheus.GaugeValue, 1, fmt.Sprintf("%016x", s.Set.ID()))
	out <- prometheus.MustNewConstMetric(c.refused, prometheus.GaugeValue, metric.Truth(s.Refused != nil))
	for _, u := range s.Unused {
		reason := "pattern"
		if u.Requests == 0 {
			reason = "kind"
		}
		out <- prometheus.MustNewConstMetric(c.unused, prometheus.GaugeValue, 1, u.Rule.Name, reason)
	}
}
