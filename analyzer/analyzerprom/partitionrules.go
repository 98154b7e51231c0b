package analyzerprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/metric"
)

// Heartbeats is where a PartitionRules gets its numbers: what the owners of all partitions say, on this and on other analyzers.
type Heartbeats interface {
	// Heartbeat returns the newest heartbeat of the highest epoch of a partition.
	Heartbeat(partition int) (schemas.Heartbeat, bool)
	// Heard returns whether that came a short while ago.
	Heard(partition int, now time.Time) bool
}

// PartitionRules is a prometheus.Collector that says whether all partitions are counted by the same rules. NewPartitionRules makes
// one. Any goroutine may use it.
type PartitionRules struct {
	source     Heartbeats
	partitions int
	differ     *prometheus.Desc
}

var _ prometheus.Collector = (*PartitionRules)(nil)

// NewPartitionRules returns a PartitionRules over a number of partitions, to be registered.
func NewPartitionRules(s Heartbeats, partitions int) *PartitionRules {
	return &PartitionRules{s, partitions, metric.Desc("rules_differ",
		"Different ids of rules by which partitions are counted, as their newest heartbeats say; 1 if all agree, 0 if no partition has an owner.")}
}

// Describe implements prometheus.Collector.
func (c *PartitionRules) Describe(out chan<- *prometheus.Desc) { out <- c.differ }

// Collect implements prometheus.Collector.
func (c *PartitionRules) Collect(out chan<- prometheus.Metric) {
	now, ids := time.Now(), make(map[uint64]bool)
	for p := range c.partitions {
		if h, ok := c.source.Heartbeat(p); ok && c.source.Heard(p, now) {
			ids[h.RulesID] = true
		}
	}
	out <- prometheus.MustNewConstMetric(c.differ, prometheus.GaugeValue, float64(len(ids)))
}
