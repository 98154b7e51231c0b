package analyzerprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/metric"
)

// Heartbeats is what the owners of all partitions say, on this and on other analyzers. Its methods are safe for concurrent use.
type Heartbeats interface {
	// Heartbeat returns the newest heartbeat of the highest epoch of a partition.
	Heartbeat(partition int) (schemas.Heartbeat, bool)
	// Heard returns whether that came a short while ago.
	Heard(partition int, now time.Time) bool
}

// NewPartitionRules returns a collector that says whether all of a number of partitions are counted by the same rules, to be registered.
func NewPartitionRules(source Heartbeats, partitions int) prometheus.Collector {
	differ := metric.Desc("rules_differ",
		"Different ids of rules by which partitions are counted, as their newest heartbeats say; 1 if all agree, 0 if no partition has an owner.")
	return metric.Collector(func(out chan<- prometheus.Metric) {
		now, ids := time.Now(), make(map[uint64]bool)
		for p := range partitions {
			if h, ok := source.Heartbeat(p); ok && source.Heard(p, now) {
				ids[h.RulesID] = true
			}
		}
		out <- prometheus.MustNewConstMetric(differ, prometheus.GaugeValue, float64(len(ids)))
	}, differ)
}
