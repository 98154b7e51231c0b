package analyzerprom

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/schemas/metric"
)

// Analyzer is where the numbers come from; *analyzer.Analyzer is one.
type Analyzer interface{ Stats() []analyzer.OwnerStats }

// Collector is a prometheus.Collector. New makes one. Any goroutine may use it.
type Collector struct {
	analyzer Analyzer
	numbers  metric.Numbers[stats]
	rules    ruleMetrics
	labelled []labelled
	manual   *prometheus.Desc
	lags     *prometheus.Desc
	all      allDistributions
	kinds    *prometheus.Desc
	state    *prometheus.Desc
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a Collector, to be registered.
func New(a Analyzer) *Collector {
	return &Collector{
		analyzer: a,
		numbers:  append(append(counterNumbers(), gaugeNumbers()...), append(controlNumbers(), eventNumbers()...)...),
		rules:    newRuleMetrics(),
		labelled: labelledCounters(),
		manual:   newManual(),
		lags:     metric.Desc("decision_lag_seconds", "From the request that reached a limit to the decision in Kafka, of each close.", "partition"),
		all:      newAllDistributions(),
		kinds:    metric.Desc("decisions_by_kind_total", "Decisions published, without repeats, by what they do.", "partition", "kind"),
		state:    metric.Desc("partition_state", "1 for the state that the partition's owner is in.", "partition", "state"),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	c.numbers.Describe(out)
	c.rules.describe(out)
	for i := range c.labelled {
		out <- c.labelled[i].desc
	}
	out <- c.manual
	c.all.describe(out)
	out <- c.lags
	out <- c.kinds
	out <- c.state
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	owners := c.analyzer.Stats()
	c.rules.collect(out, owners)
	c.all.collect(out, owners)
	for i := range c.labelled {
		c.labelled[i].collect(out, owners)
	}
	collectManual(out, c.manual, owners)
	for i := range owners {
		s := &owners[i]
		partition := strconv.Itoa(s.Partition)
		c.numbers.Collect(out, s, partition)
		collectHistogram(out, c.lags, &s.Publish.Lags, partition)
		for kind, n := range s.Publish.Kinds {
			out <- prometheus.MustNewConstMetric(c.kinds, prometheus.CounterValue, float64(n), partition, outbox.Kind(kind).String())
		}
		out <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, 1, partition, s.State.String())
	}
}
