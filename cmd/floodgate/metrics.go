package main

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer"
)

// collector turns the analyzer's snapshots into Prometheus metrics when it is scraped.
type collector struct {
	a       *analyzer.Analyzer
	metrics []metric
	refused *prometheus.Desc
	state   *prometheus.Desc
}

// metric is one number of a partition.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(s *analyzer.OwnerStats) float64
}

func newCollector(a *analyzer.Analyzer) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("floodgate_"+name, help, append([]string{"partition"}, labels...), nil)
	}
	counter := func(name, help string, value func(s *analyzer.OwnerStats) uint64) metric {
		return metric{desc(name, help), prometheus.CounterValue, func(s *analyzer.OwnerStats) float64 { return float64(value(s)) }}
	}
	gauge := func(name, help string, value func(s *analyzer.OwnerStats) float64) metric {
		return metric{desc(name, help), prometheus.GaugeValue, value}
	}
	return &collector{
		a: a,
		metrics: []metric{
			counter("frames_total", "Frames folded.", func(s *analyzer.OwnerStats) uint64 { return s.Fold.Frames }),
			counter("entries_total", "Entries folded.", func(s *analyzer.OwnerStats) uint64 { return s.Fold.Entries }),
			counter("requests_total", "Requests folded: the entries' counts.", func(s *analyzer.OwnerStats) uint64 { return s.Fold.Requests }),
			counter("duplicates_total", "Frames or lines delivered again, and counted once.", func(s *analyzer.OwnerStats) uint64 { return s.Fold.Duplicate }),
			counter("too_old_total", "Frames too old to tell whether they were counted; they were not.", func(s *analyzer.OwnerStats) uint64 { return s.Fold.TooOld }),
			gauge("sequence_gaps", "Frames that producers numbered and that never came.", func(s *analyzer.OwnerStats) float64 { return float64(s.Fold.Gaps) }),
			counter("rejects_dropped_total", "Records that could not be read, and that the topic of rejects does not show.", func(s *analyzer.OwnerStats) uint64 { return s.Unshown }),
			counter("lost_records_total", "Records that the log no longer held when they were to be counted.", func(s *analyzer.OwnerStats) uint64 { return s.Fold.Lost }),
			counter("late_weight_total", "Weight that came after its window had passed.", func(s *analyzer.OwnerStats) uint64 { return s.Fold.Late }),
			counter("uncounted_weight_total", "Weight of callers for whom there was no room.", func(s *analyzer.OwnerStats) uint64 { return s.Fold.Uncounted }),
			counter("closes_total", "Closes: callers that were open and reached their limit.", func(s *analyzer.OwnerStats) uint64 { return s.Fold.Closes }),
			counter("warnings_total", "Shares of a limit that were crossed.", func(s *analyzer.OwnerStats) uint64 { return s.Fold.Warnings }),
			counter("decisions_total", "Decisions published, without repeats.", func(s *analyzer.OwnerStats) uint64 { return s.Publish.Decisions }),
			counter("decisions_repeated_total", "Decisions in force published again.", func(s *analyzer.OwnerStats) uint64 { return s.Publish.Repeats }),
			counter("publish_retries_total", "Produces of decisions that failed and were tried again.", func(s *analyzer.OwnerStats) uint64 { return s.Publish.Retries }),
			counter("snapshots_total", "Snapshots of all counts written to the topic of state.", func(s *analyzer.OwnerStats) uint64 { return s.Snapshots }),
			gauge("closed", "Closures in force.", func(s *analyzer.OwnerStats) float64 { return float64(s.Publish.InForce) }),
			gauge("rows", "Rules × callers counted now.", func(s *analyzer.OwnerStats) float64 { return float64(s.Fold.Rows) }),
			gauge("producers", "Producers and sources remembered now.", func(s *analyzer.OwnerStats) float64 { return float64(s.Fold.Senders) }),
			gauge("next_offset", "The next offset of requests to count.", func(s *analyzer.OwnerStats) float64 { return float64(s.Next) }),
			gauge("committed_offset", "The offset of requests before which all is counted on disk.", func(s *analyzer.OwnerStats) float64 { return float64(s.Committed) }),
			gauge("epoch", "The epoch under which decisions are published.", func(s *analyzer.OwnerStats) float64 { return float64(s.Publish.Epoch) }),
			gauge("decision_lag_seconds", "From a request to its decision in Kafka, smoothed.", func(s *analyzer.OwnerStats) float64 { return s.Publish.Lag.Seconds() }),
			gauge("gate_lag_seconds", "From a request to its decision at a gate, as the last canary measured it.", func(s *analyzer.OwnerStats) float64 { return s.Publish.GateLag.Seconds() }),
			gauge("overshoot_ratio_max", "The largest overshoot of any close since the start.", func(s *analyzer.OwnerStats) float64 { return s.Fold.Overshoot }),
		},
		refused: desc("rejected_total", "Frames and entries refused, by reason.", "reason"),
		state:   desc("partition_state", "1 for the state that the partition's owner is in.", "state"),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		out <- m.desc
	}
	out <- c.refused
	out <- c.state
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.a.Stats() {
		partition := strconv.Itoa(s.Partition)
		for _, m := range c.metrics {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s), partition)
		}
		for reason, n := range s.Fold.Rejected {
			out <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, float64(n), partition, reason)
		}
		out <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, 1, partition, s.State.String())
	}
}
