package sidecarprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/gate/bouncer"
	"github.com/509da70d/floodgate/schemas/metric"
)

// Bouncer is the source of the numbers of NewBouncer; a *bouncer.Server is one.
type Bouncer interface{ Stats() bouncer.Stats }

// NewBouncer returns a collector of what CrowdSec's bouncers ask, to be registered. Any goroutine may use it.
func NewBouncer(b Bouncer) prometheus.Collector {
	numbers := metric.Numbers[bouncer.Stats]{
		metric.Gauge("bouncer_closed_addresses", "Addresses that bouncers enforce now.", func(s *bouncer.Stats) float64 { return float64(s.Closed) }),
		metric.Gauge("bouncer_instances", "Bouncers that asked in the last ten minutes.", func(s *bouncer.Stats) float64 { return float64(s.Instances) }),
		metric.Gauge("bouncer_views", "Filters of scenarios that bouncers use.", func(s *bouncer.Stats) float64 { return float64(s.Views) }),
	}
	seconds := metric.Desc("bouncer_request_seconds", "Time to answer a bouncer, and how many requests there were.", "route")
	errors := metric.Desc("bouncer_errors_total", "Requests of bouncers that failed, and answers that were not sent whole.", "reason")
	leftOut := metric.Desc("bouncer_left_out_total", "Closures, and changes of closures, that no bouncer is given.", "reason")
	items := metric.Desc("bouncer_items_total", "Items that were sent to bouncers, by list.", "list")
	return metric.Collector(func(out chan<- prometheus.Metric) {
		s := b.Stats()
		numbers.Collect(out, &s)
		for route, n := range s.Requests {
			out <- prometheus.MustNewConstHistogram(seconds, n.Count, n.Sum, n.Buckets, route)
		}
		metric.Counters(out, errors, s.Errors)
		metric.Counters(out, leftOut, s.LeftOut)
		metric.Counters(out, items, map[string]uint64{"new": s.Added, "deleted": s.Deleted})
	}, append(numbers.Descs(), seconds, errors, leftOut, items)...)
}
