package gateprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/schemas/metric"
)

// newLinkCollector exports the numbers of a Link.
func newLinkCollector(l Link) prometheus.Collector {
	numbers := metric.Numbers[kafkalink.Stats]{
		metric.Gauge("link_up", "1 while the link can reach Kafka for everything that it needs.",
			func(s *kafkalink.Stats) float64 { return metric.Truth(s.Connected) }),
		metric.Gauge("link_partitions", "Partitions of the topics; 0 until the link has reached Kafka for the first time.",
			func(s *kafkalink.Stats) float64 { return float64(s.Partitions) }),
		metric.Gauge("link_backlog_entries", "Entries that wait for Kafka in the link. Entries in the recorder do not count.",
			func(s *kafkalink.Stats) float64 { return float64(s.Backlog) }),
		metric.Counter("link_frames_total", "Frames sent. A frame that was sent again counts once.",
			func(s *kafkalink.Stats) uint64 { return s.Frames }),
		metric.Counter("link_retries_total", "Times that a frame was sent again because it was, or may have been, missing from the log.",
			func(s *kafkalink.Stats) uint64 { return s.Retries }),
		metric.Counter("link_canaries_total", "Requests that the link created to measure the lag.",
			func(s *kafkalink.Stats) uint64 { return s.Canaries }),
		metric.Counter("link_decisions_total", "Decisions read and given to the gates.",
			func(s *kafkalink.Stats) uint64 { return s.Decisions }),
		metric.Counter("link_heartbeats_total", "Heartbeats of owners accepted.",
			func(s *kafkalink.Stats) uint64 { return s.Heartbeats }),
		metric.Counter("link_restarts_total", "Times that a follower lost its position in the log and searched for the newest heartbeat again.",
			func(s *kafkalink.Stats) uint64 { return s.Restarts }),
	}
	refused := metric.Desc("link_records_refused_total", "Records of the decisions topic not applied, by reason. Fenced records are repetitions, or come from an owner that was replaced.", "reason")
	lag := metric.Desc("link_lag_seconds", "Time from a request until its decision is in this process, measured end to end by canaries.")
	return metric.Collector(func(out chan<- prometheus.Metric) {
		s := l.Stats()
		numbers.Collect(out, &s)
		metric.Counters(out, refused, s.Refused, refusals()...)
		within := make(map[float64]uint64, len(s.Lag.Within))
		for i, bound := range kafkalink.LagBounds() {
			within[bound.Seconds()] = s.Lag.Within[i]
		}
		out <- prometheus.MustNewConstHistogram(lag, s.Lag.Samples, s.Lag.Sum.Seconds(), within)
	}, append(numbers.Descs(), refused, lag)...)
}

// refusals are reasons of floodgate_link_records_refused_total: those of package decisions, and of records that cannot be read. Others
// are shown once they have come.
func refusals() []string {
	return []string{"fenced", "epoch", "partition", "moved", "malformed", "unknown", "bounds", "mode", "corrupt", "too_large", "codec"}
}
