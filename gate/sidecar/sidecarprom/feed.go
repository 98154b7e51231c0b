package sidecarprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/gate/feed"
	"github.com/509da70d/floodgate/schemas/metric"
)

// Feed is the source of the numbers of NewFeed; a *feed.Server is one.
type Feed interface{ Stats() feed.Stats }

// NewFeed returns a collector of what gates in other servers read, to be registered. Any goroutine may use it.
func NewFeed(f Feed) prometheus.Collector {
	numbers := metric.Numbers[feed.Stats]{
		metric.Gauge("feed_readers", "Gates in other servers that read the feed now.", func(s *feed.Stats) float64 { return float64(s.Readers) }),
		metric.Counter("feed_lines_total", "Lines that were sent to readers of the feed.", func(s *feed.Stats) uint64 { return s.Lines }),
	}
	refused := metric.Desc("feed_refused_total", "Requests for the feed that were refused.", "reason")
	cut := metric.Desc("feed_cut_total", "Readers of the feed that were cut off.", "reason")
	return metric.Collector(func(out chan<- prometheus.Metric) {
		s := f.Stats()
		numbers.Collect(out, &s)
		metric.Counters(out, refused, s.Refused)
		metric.Counters(out, cut, s.Cut)
	}, append(numbers.Descs(), refused, cut)...)
}
