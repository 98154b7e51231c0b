package gateprom

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas/metric"
)

// setCollector exports the status of a Set.
type setCollector struct {
	set        Set
	numbers    metric.Numbers[gate.Status]
	mode       *prometheus.Desc
	policy     *prometheus.Desc
	closed     *prometheus.Desc
	partitions *prometheus.Desc
	age        *prometheus.Desc
	decided    *prometheus.Desc
	dropped    *prometheus.Desc
	refusals   *prometheus.Desc
	each       metric.Numbers[gate.PartitionStatus] // by partition; empty if they are not shown
	freshness  *prometheus.Desc                     // likewise
}

func newSetCollector(s Set, partitions bool) prometheus.Collector {
	c := &setCollector{
		set: s,
		numbers: metric.Numbers[gate.Status]{
			metric.Gauge("gate_table_bytes", "Memory of the table of closed callers, and of shares.",
				func(s *gate.Status) float64 { return float64(s.Bytes) }),
			metric.Gauge("gate_shares", "Shares that callers have, of one rule each.",
				func(s *gate.Status) float64 { return float64(s.Shares) }),
			metric.Counter("gate_shares_ignored_total", "Decisions whose share was ignored, because 16384 were held or their caller had too many closures. Their closures were applied.",
				func(s *gate.Status) uint64 { return s.Ignored }),
			metric.Counter("gate_decisions_applied_total", "Decisions applied. Repetitions of decisions in force count too.",
				func(s *gate.Status) uint64 { return s.Applied }),
			metric.Counter("gate_callers_swept_total", "Callers removed from the table because all of their closures had ended.",
				func(s *gate.Status) uint64 { return s.Expired }),
			metric.Counter("gate_table_rebuilds_total", "Rebuilds of the table of closed callers.",
				func(s *gate.Status) uint64 { return s.Rebuilds }),
			metric.Counter("gate_callers_refused_total", "Callers of requests that were neither gated nor counted, because a request has at most 8 callers.",
				func(s *gate.Status) uint64 { return s.Refused }),
		},
		mode:       metric.Desc("gate_mode", "1 for the mode that the gates are in, 0 for the others.", "mode"),
		policy:     metric.Desc("gate_policy_info", "What holds while decisions are stale.", "policy"),
		closed:     metric.Desc("gate_closed_callers", "Callers in the table of closed callers. In mode enforce they are refused, in mode shadow only reported.", "kind", "mode"),
		partitions: metric.Desc("gate_partitions", "Partitions of decisions by freshness: a cold one has sent no heartbeat yet, a stale one sends no more.", "freshness"),
		age:        metric.Desc("gate_decision_age_seconds", "Longest time since the newest heartbeat of a partition. Cold partitions do not count."),
		decided:    metric.Desc("gate_last_decision_timestamp_seconds", "When decisions were last applied."),
		dropped:    metric.Desc("gate_decisions_dropped_total", "Decisions not applied, by reason. full: the table has no room for another closed caller, so the caller stays open.", "reason"),
		refusals:   metric.Desc("gate_requests_refused_total", "Requests that closed gates refused (mode enforce) or would have refused (mode shadow), by the rule that closed them. No rule: because decisions are stale.", "rule", "mode"),
	}
	described := append(c.numbers.Descs(), c.mode, c.policy, c.closed, c.partitions, c.age, c.decided, c.dropped, c.refusals)
	if partitions {
		c.showPartitions()
		described = append(append(described, c.each.Descs()...), c.freshness)
	}
	return metric.Collector(c.collect, described...)
}

func (c *setCollector) showPartitions() {
	of := func(name, help string, value func(s *gate.PartitionStatus) float64) metric.Number[gate.PartitionStatus] {
		return metric.Gauge(name, help, value, "partition")
	}
	c.freshness = metric.Desc("gate_partition_freshness", "1 for how fresh the partition's decisions are, 0 for the others.", "partition", "freshness")
	c.each = metric.Numbers[gate.PartitionStatus]{
		of("gate_partition_age_seconds", "Time since the partition's newest heartbeat.",
			func(s *gate.PartitionStatus) float64 { return s.Age.Seconds() }),
		of("gate_partition_epoch", "The epoch of the partition's owner.",
			func(s *gate.PartitionStatus) float64 { return float64(s.Epoch) }),
		of("gate_partition_watermark", "The next offset of requests to be counted, as of the newest heartbeat.",
			func(s *gate.PartitionStatus) float64 { return float64(s.Watermark) }),
		of("gate_partition_owner_lag_seconds", "Time from a request until its decision is published, as the partition's owner measured it.",
			func(s *gate.PartitionStatus) float64 { return s.Lag.Seconds() }),
	}
}

func (c *setCollector) collect(out chan<- prometheus.Metric) {
	s := c.set.Status()
	c.numbers.Collect(out, &s)
	put := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for m := range gate.Off + 1 {
		put(c.mode, metric.Truth(s.Mode == m), m.String())
	}
	put(c.policy, 1, s.Policy.String())
	for _, k := range s.Kinds {
		put(c.closed, float64(k.Closed), k.Kind, gate.Enforce.String())
		put(c.closed, float64(k.Shadow), k.Kind, gate.Shadow.String())
	}
	put(c.partitions, float64(s.Cold), gate.Cold.String())
	put(c.partitions, float64(s.Fresh), gate.Fresh.String())
	put(c.partitions, float64(s.Stale), gate.Stale.String())
	if s.Fresh+s.Stale > 0 {
		put(c.age, s.Age.Seconds())
	}
	if !s.Decided.IsZero() {
		put(c.decided, float64(s.Decided.UnixMilli())/1000)
	}
	drop := func(reason string, n uint64) {
		out <- prometheus.MustNewConstMetric(c.dropped, prometheus.CounterValue, float64(n), reason)
	}
	drop("full", s.Full)
	drop("invalid", s.Invalid)
	c.collectRefusals(out, s.StaleRefused)
	for _, r := range s.Refusals {
		c.collectRefusals(out, r)
	}
	if c.freshness != nil {
		c.collectPartitions(out, s.Partitions)
	}
}

// collectRefusals exports the counts of one rule. A rule's name is of any bytes; a label must be UTF-8.
func (c *setCollector) collectRefusals(out chan<- prometheus.Metric, r gate.Refusals) {
	put := func(n uint64, mode gate.Mode) {
		out <- prometheus.MustNewConstMetric(c.refusals, prometheus.CounterValue, float64(n), strings.ToValidUTF8(r.Rule, "\uFFFD"), mode.String())
	}
	put(r.Refused, gate.Enforce)
	put(r.Shadow, gate.Shadow)
}

func (c *setCollector) collectPartitions(out chan<- prometheus.Metric, parts []gate.PartitionStatus) {
	for i := range parts {
		p := &parts[i]
		name := strconv.Itoa(p.Partition)
		for f := range gate.Stale + 1 {
			out <- prometheus.MustNewConstMetric(c.freshness, prometheus.GaugeValue, metric.Truth(p.Freshness == f), name, f.String())
		}
		if p.Freshness == gate.Cold {
			continue // no heartbeat yet
		}
		c.each.Collect(out, p, name)
	}
}
