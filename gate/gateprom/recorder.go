package gateprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas/metric"
)

// newRecorderCollector exports the outcome of recorded requests.
func newRecorderCollector(stats func() record.Stats) prometheus.Collector {
	numbers := metric.Numbers[record.Stats]{
		metric.Counter("recorder_requests_accepted_total",
			"Requests given to the recorder: acked + dropped + unknown + queued. Each counts once for each of its callers, and once more for its response.",
			func(s *record.Stats) uint64 { return s.Accepted }),
		metric.Counter("recorder_requests_acked_total", "Requests that are in the log.",
			func(s *record.Stats) uint64 { return s.Acked }),
		metric.Counter("recorder_requests_unknown_total", "Requests that were sent and never confirmed: they may or may not be in the log.",
			func(s *record.Stats) uint64 { return s.Unknown }),
		metric.Gauge("recorder_requests_queued", "Requests that wait in the recorder or in the link.",
			func(s *record.Stats) float64 { return float64(s.Queued) }),
	}
	dropped := metric.Desc("recorder_requests_dropped_total", "Requests that were lost and are not counted, by reason.", "reason")
	return metric.Collector(func(out chan<- prometheus.Metric) {
		s := stats()
		numbers.Collect(out, &s)
		for reason, n := range s.Dropped {
			out <- prometheus.MustNewConstMetric(dropped, prometheus.CounterValue, float64(n), reason.String())
		}
	}, append(numbers.Descs(), dropped)...)
}
