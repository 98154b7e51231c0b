package analyzerprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/schemas/metric"
)

// NewLog returns a collector of the log that a host keeps in files, to be registered. bytes returns what it has on disk, and full whether
// there is no room for requests. Any goroutine may call them.
func NewLog(bytes func() int64, full func() bool) prometheus.Collector {
	size := metric.Desc("log_bytes", "What the log of this host takes on disk.")
	waits := metric.Desc("log_full", "1 while reading waits because the log of this host has no room.")
	return metric.Collector(func(out chan<- prometheus.Metric) {
		value := 0.0
		if full() {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(size, prometheus.GaugeValue, float64(bytes()))
		out <- prometheus.MustNewConstMetric(waits, prometheus.GaugeValue, value)
	}, size, waits)
}
