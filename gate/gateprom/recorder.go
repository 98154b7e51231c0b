package gateprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/gate/record"
)

// recorderCollector shows what became of what was recorded.
type recorderCollector struct {
	stats   func() record.Stats
	numbers []number[record.Stats]
	dropped *prometheus.Desc
}

func newRecorderCollector(stats func() record.Stats) *recorderCollector {
	return &recorderCollector{
		stats: stats,
		numbers: []number[record.Stats]{
			counter("recorder_requests_accepted_total",
				"Requests given to the recorder, once for each of their callers, and once more for their responses: acked + dropped + unknown + queued.",
				func(s *record.Stats) uint64 { return s.Accepted }),
			counter("recorder_requests_acked_total", "Requests that are in the log.",
				func(s *record.Stats) uint64 { return s.Acked }),
			counter("recorder_requests_unknown_total", "Requests that were sent and never confirmed: they may or may not be in the log.",
				func(s *record.Stats) uint64 { return s.Unknown }),
			gauge("recorder_requests_queued", "Requests that wait: in the recorder, or in a link that has not said yet what became of them.",
				func(s *record.Stats) float64 { return float64(s.Queued) }),
		},
		dropped: desc("recorder_requests_dropped_total", "Requests that are counted by nobody, by reason.", "reason"),
	}
}

// Describe implements prometheus.Collector.
func (c *recorderCollector) Describe(out chan<- *prometheus.Desc) {
	for _, n := range c.numbers {
		out <- n.desc
	}
	out <- c.dropped
}

// Collect implements prometheus.Collector.
func (c *recorderCollector) Collect(out chan<- prometheus.Metric) {
	s := c.stats()
	for _, n := range c.numbers {
		out <- n.of(&s)
	}
	for reason, n := range s.Dropped {
		out <- prometheus.MustNewConstMetric(c.dropped, prometheus.CounterValue, float64(n), reason.String())
	}
}
