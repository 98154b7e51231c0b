package analyzerprom

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/schemas/metric"
)

// NewRules returns a collector of what an analyzer counts by, to be registered. status is its method RulesStatus.
func NewRules(status func(now time.Time) analyzer.RulesStatus) prometheus.Collector {
	info := metric.Desc("rules_info", "1 for the id of the rules that this analyzer counts by: rules check prints it.", "id")
	refused := metric.Desc("rules_refused", "1 while the rules file cannot be used, so that older rules stay.")
	unused := metric.Desc("rule_unused", "1 for a rule that had no effect in more than a minute: no callers of its kind, "+
		"a pattern of resources that matched none of 10,000 requests, or a rule that follows requests and lacks their arrivals.", "rule", "reason")
	return metric.Collector(func(out chan<- prometheus.Metric) {
		s := status(time.Now())
		out <- prometheus.MustNewConstMetric(info, prometheus.GaugeValue, 1, fmt.Sprintf("%016x", s.Set.ID()))
		out <- prometheus.MustNewConstMetric(refused, prometheus.GaugeValue, metric.Truth(s.Refused != nil))
		for _, u := range s.Unused {
			out <- prometheus.MustNewConstMetric(unused, prometheus.GaugeValue, 1, u.Rule.Name, u.Reason())
		}
	}, info, refused, unused)
}
