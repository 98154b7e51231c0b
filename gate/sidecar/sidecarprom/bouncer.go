package sidecarprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/gate/bouncer"
	"github.com/509da70d/floodgate/schemas/metric"
)

// Bouncer is the source of the numbers of BouncerCollector; a *bouncer.Server is one.
type Bouncer interface{ Stats() bouncer.Stats }

// BouncerCollector is a prometheus.Collector of what CrowdSec's bouncers ask. NewBouncer makes one. Any goroutine may use it.
type BouncerCollector struct {
	server  Bouncer
	numbers metric.Numbers[bouncer.Stats]
	seconds *prometheus.Desc
	errors  *prometheus.Desc
	leftOut *prometheus.Desc
	items   *prometheus.Desc
}

var _ prometheus.Collector = (*BouncerCollector)(nil)

// NewBouncer returns a BouncerCollector, to be registered.
func NewBouncer(s Bouncer) *BouncerCollector {
	return &BouncerCollector{
		server: s,
		numbers: metric.Numbers[bouncer.Stats]{
			metric.Gauge("bouncer_closed_addresses", "Addresses that bouncers enforce now.", func(s *bouncer.Stats) float64 { return float64(s.Closed) }),
			metric.Gauge("bouncer_instances", "Bouncers that asked in the last ten minutes.", func(s *bouncer.Stats) float64 { return float64(s.Instances) }),
			metric.Gauge("bouncer_views", "Filters of scenarios that bouncers use.", func(s *bouncer.Stats) float64 { return float64(s.Views) }),
		},
		seconds: metric.Desc("bouncer_request_seconds", "Time to answer a bouncer, and how many requests there were.", "route"),
		errors:  metric.Desc("bouncer_errors_total", "Requests of bouncers that failed, and answers that were not sent whole.", "reason"),
		leftOut: metric.Desc("bouncer_left_out_total", "Closures, and changes of closures, that no bouncer is given.", "reason"),
		items:   metric.Desc("bouncer_items_total", "Items that were sent to bouncers, by list.", "list"),
	}
}

// Describe implements prometheus.Collector.
func (c *BouncerCollector) Describe(out chan<- *prometheus.Desc) {
	c.numbers.Describe(out)
	for _, d := range []*prometheus.Desc{c.seconds, c.errors, c.leftOut, c.items} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *BouncerCollector) Collect(out chan<- prometheus.Metric) {
	s := c.server.Stats()
	c.numbers.Collect(out, &s)
	for route, n := range s.Requests {
		out <- prometheus.MustNewConstHistogram(c.seconds, n.Count, n.Sum, n.Buckets, route)
	}
	metric.Counters(out, c.errors, s.Errors)
	metric.Counters(out, c.leftOut, s.LeftOut)
	metric.Counters(out, c.items, map[string]uint64{"new": s.Added, "deleted": s.Deleted})
}
