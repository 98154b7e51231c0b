package analyzerprom

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/schemas/metric"
)

// New returns the collector of an analyzer, to be registered. ownerStats is its method Stats.
func New(ownerStats func() []analyzer.OwnerStats) prometheus.Collector {
	numbers := append(append(counterNumbers(), gaugeNumbers()...), append(controlNumbers(), eventNumbers()...)...)
	rules, labelled, all, inForce := newRuleMetrics(), labelledCounters(), newAllDistributions(), newInForce()
	brakes, pools := newBrakes(), newPools()
	lags := metric.Desc("decision_lag_seconds", "From the request that reached a limit to the decision in Kafka, of each close.", "partition")
	kinds := metric.Desc("decisions_by_kind_total", "Decisions published, without repeats, by what they do.", "partition", "kind")
	state := metric.Desc("partition_state", "1 for the state that the partition's owner is in.", "partition", "state")
	described := slices.Concat(numbers.Descs(), rules.descs(), pools.descs(), all.descs(), []*prometheus.Desc{inForce, brakes, lags, kinds, state})
	for i := range labelled {
		described = append(described, labelled[i].desc)
	}
	return metric.Collector(func(out chan<- prometheus.Metric) {
		owners := ownerStats()
		rules.collect(out, owners)
		all.collect(out, owners)
		for i := range labelled {
			labelled[i].collect(out, owners)
		}
		collectInForce(out, inForce, owners)
		collectBrakes(out, brakes, owners)
		pools.collect(out, owners)
		for i := range owners {
			s := &owners[i]
			partition := strconv.Itoa(s.Partition)
			numbers.Collect(out, s, partition)
			collectHistogram(out, lags, &s.Publish.Lags, partition)
			for kind, n := range s.Publish.Kinds {
				out <- prometheus.MustNewConstMetric(kinds, prometheus.CounterValue, float64(n), partition, outbox.Kind(kind).String())
			}
			out <- prometheus.MustNewConstMetric(state, prometheus.GaugeValue, 1, partition, s.State.String())
		}
	}, described...)
}
