package metric

import "github.com/prometheus/client_golang/prometheus"

// collector implements prometheus.Collector.
type collector struct {
	described []*prometheus.Desc
	collect   func(out chan<- prometheus.Metric)
}

// Collector returns a collector that sends its metrics by collect, all of which are described. Any goroutine may use it if any may call
// collect.
func Collector(collect func(out chan<- prometheus.Metric), described ...*prometheus.Desc) prometheus.Collector {
	return &collector{described, collect}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.described {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) { c.collect(out) }
