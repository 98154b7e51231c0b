package sidecarprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/gate/feed"
	"github.com/509da70d/floodgate/schemas/metric"
)

// Frames is the source of the numbers of NewFrames; a *feed.Frames is one.
type Frames interface{ Stats() feed.FramesStats }

// NewFrames returns a collector of the frames that gates in other servers send, to be registered. Any goroutine may use it.
func NewFrames(f Frames) prometheus.Collector {
	numbers := metric.Numbers[feed.FramesStats]{
		metric.Gauge("feed_frames_waiting", "Frames of other servers that wait for Kafka now.", func(s *feed.FramesStats) float64 { return float64(s.Frames) }),
		metric.Gauge("feed_frames_waiting_bytes", "Bytes of the frames of other servers that wait for Kafka now.", func(s *feed.FramesStats) float64 { return float64(s.Bytes) }),
		metric.Counter("feed_frames_sent_total", "Frames of other servers that Kafka has.", func(s *feed.FramesStats) uint64 { return s.Sent }),
	}
	refused := metric.Desc("feed_frames_refused_total", "Frames of other servers that were not confirmed, by reason. A frame that is sent again counts again.", "reason")
	return metric.Collector(func(out chan<- prometheus.Metric) {
		s := f.Stats()
		numbers.Collect(out, &s)
		metric.Counters(out, refused, s.Refused)
	}, append(numbers.Descs(), refused)...)
}
