package gateprom

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/gate"
)

// setCollector shows a Set.
type setCollector struct {
	set        Set
	numbers    []number[gate.Status]
	mode       *prometheus.Desc
	policy     *prometheus.Desc
	closed     *prometheus.Desc
	partitions *prometheus.Desc
	age        *prometheus.Desc
	decided    *prometheus.Desc
	dropped    *prometheus.Desc
	each       []number[gate.PartitionStatus] // by partition; empty if they are not shown
	freshness  *prometheus.Desc               // likewise
}

func newSetCollector(s Set, partitions bool) *setCollector {
	c := &setCollector{
		set: s,
		numbers: []number[gate.Status]{
			gauge("gate_table_bytes", "Memory of the table of closed callers.",
				func(s *gate.Status) float64 { return float64(s.Bytes) }),
			counter("gate_decisions_applied_total", "Decisions applied, with repeats of those in force.",
				func(s *gate.Status) uint64 { return s.Applied }),
			counter("gate_callers_swept_total", "Callers whose closures had ended, and that were swept out of the table.",
				func(s *gate.Status) uint64 { return s.Expired }),
			counter("gate_table_rebuilds_total", "Rebuilds of the table of closed callers.",
				func(s *gate.Status) uint64 { return s.Rebuilds }),
			counter("gate_callers_refused_total", "Callers of requests that were neither gated nor counted: id too long, or too many of one request.",
				func(s *gate.Status) uint64 { return s.Refused }),
		},
		mode:       desc("gate_mode", "1 for the mode that the gates are in, 0 for the others.", "mode"),
		policy:     desc("gate_policy_info", "What holds while decisions are stale.", "policy"),
		closed:     desc("gate_closed_callers", "Callers in the table of closed ones: refused (enforce), or only reported (shadow).", "kind", "mode"),
		partitions: desc("gate_partitions", "Partitions of decisions by freshness: cold has sent no heartbeat yet, stale no more.", "freshness"),
		age:        desc("gate_decision_age_seconds", "Since the newest heartbeat of the partition heard of longest ago."),
		decided:    desc("gate_last_decision_timestamp_seconds", "When decisions were last applied."),
		dropped:    desc("gate_decisions_dropped_total", "Decisions not applied: full is no room for another closed caller, who stays open.", "reason"),
	}
	if partitions {
		c.showPartitions()
	}
	return c
}

func (c *setCollector) showPartitions() {
	of := func(name, help string, value func(s *gate.PartitionStatus) float64) number[gate.PartitionStatus] {
		return number[gate.PartitionStatus]{desc(name, help, "partition"), prometheus.GaugeValue, value}
	}
	c.freshness = desc("gate_partition_freshness", "1 for how fresh the partition's decisions are, 0 for the others.", "partition", "freshness")
	c.each = []number[gate.PartitionStatus]{
		of("gate_partition_age_seconds", "Since the partition's newest heartbeat.",
			func(s *gate.PartitionStatus) float64 { return s.Age.Seconds() }),
		of("gate_partition_epoch", "The epoch of the partition's owner.",
			func(s *gate.PartitionStatus) float64 { return float64(s.Epoch) }),
		of("gate_partition_watermark", "The next offset of requests to be counted, as of the newest heartbeat.",
			func(s *gate.PartitionStatus) float64 { return float64(s.Watermark) }),
		of("gate_partition_owner_lag_seconds", "From a request to its decision published, as the partition's owner measured it.",
			func(s *gate.PartitionStatus) float64 { return s.Lag.Seconds() }),
	}
}

// Describe implements prometheus.Collector.
func (c *setCollector) Describe(out chan<- *prometheus.Desc) {
	for _, n := range c.numbers {
		out <- n.desc
	}
	for _, d := range []*prometheus.Desc{c.mode, c.policy, c.closed, c.partitions, c.age, c.decided, c.dropped} {
		out <- d
	}
	for _, n := range c.each {
		out <- n.desc
	}
	if c.freshness != nil {
		out <- c.freshness
	}
}

// Collect implements prometheus.Collector.
func (c *setCollector) Collect(out chan<- prometheus.Metric) {
	s := c.set.Status()
	for _, n := range c.numbers {
		out <- n.of(&s)
	}
	put := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for m := range gate.Off + 1 {
		put(c.mode, truth(s.Mode == m), m.String())
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
	if c.freshness != nil {
		c.collectPartitions(out, s.Partitions)
	}
}

func (c *setCollector) collectPartitions(out chan<- prometheus.Metric, parts []gate.PartitionStatus) {
	for i := range parts {
		p := &parts[i]
		name := strconv.Itoa(p.Partition)
		for f := range gate.Stale + 1 {
			out <- prometheus.MustNewConstMetric(c.freshness, prometheus.GaugeValue, truth(p.Freshness == f), name, f.String())
		}
		if p.Freshness == gate.Cold {
			continue // nobody has said anything
		}
		for _, n := range c.each {
			out <- n.of(p, name)
		}
	}
}
