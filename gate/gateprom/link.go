package gateprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/gate/kafkalink"
)

// linkCollector shows a Link.
type linkCollector struct {
	link    Link
	numbers []number[kafkalink.Stats]
	refused *prometheus.Desc
	lag     *prometheus.Desc
}

func newLinkCollector(l Link) *linkCollector {
	return &linkCollector{
		link: l,
		numbers: []number[kafkalink.Stats]{
			gauge("link_up", "1 while Kafka can be reached for everything that the link needs of it.",
				func(s *kafkalink.Stats) float64 { return truth(s.Connected) }),
			gauge("link_partitions", "Partitions of the topics; 0 until Kafka was reached once.",
				func(s *kafkalink.Stats) float64 { return float64(s.Partitions) }),
			gauge("link_backlog_entries", "Entries that wait for Kafka, beside those in the recorder.",
				func(s *kafkalink.Stats) float64 { return float64(s.Backlog) }),
			counter("link_frames_total", "Frames sent, once or more.",
				func(s *kafkalink.Stats) uint64 { return s.Frames }),
			counter("link_retries_total", "Frames sent again because it was not known, or known not, to be in the log.",
				func(s *kafkalink.Stats) uint64 { return s.Retries }),
			counter("link_canaries_total", "Requests that the link made up to measure the lag.",
				func(s *kafkalink.Stats) uint64 { return s.Canaries }),
			counter("link_decisions_total", "Decisions read and given to the gates.",
				func(s *kafkalink.Stats) uint64 { return s.Decisions }),
			counter("link_heartbeats_total", "Heartbeats of owners accepted.",
				func(s *kafkalink.Stats) uint64 { return s.Heartbeats }),
			counter("link_restarts_total", "Times that a follower lost its place in the log and looked for the newest heartbeat again.",
				func(s *kafkalink.Stats) uint64 { return s.Restarts }),
		},
		refused: desc("link_records_refused_total", "Records of the decisions topic not applied, by reason: fenced ones are of an owner that was replaced, or repetitions.", "reason"),
		lag:     desc("link_lag_seconds", "From a request to its decision in this process, as canaries measure it end to end."),
	}
}

// Describe implements prometheus.Collector.
func (c *linkCollector) Describe(out chan<- *prometheus.Desc) {
	for _, n := range c.numbers {
		out <- n.desc
	}
	out <- c.refused
	out <- c.lag
}

// Collect implements prometheus.Collector.
func (c *linkCollector) Collect(out chan<- prometheus.Metric) {
	s := c.link.Stats()
	for _, n := range c.numbers {
		out <- n.of(&s)
	}
	for reason, n := range s.Refused {
		out <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, float64(n), reason)
	}
	within := make(map[float64]uint64, len(s.Lag.Within))
	for i, bound := range kafkalink.LagBounds() {
		within[bound.Seconds()] = s.Lag.Within[i]
	}
	out <- prometheus.MustNewConstHistogram(c.lag, s.Lag.Samples, s.Lag.Sum.Seconds(), within)
}
