package sidecarprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/gate/sidecar"
	"github.com/509da70d/floodgate/schemas/metric"
)

// Sidecar is the source of the numbers; a *sidecar.Sidecar is one.
type Sidecar interface{ Stats() sidecar.Stats }

// Collector is a prometheus.Collector. New makes one. Any goroutine may use it.
type Collector struct {
	sidecar Sidecar
	numbers metric.Numbers[sidecar.Stats]
	answers metric.Numbers[sidecar.Answers]
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a Collector, to be registered.
func New(s Sidecar) *Collector {
	return &Collector{
		sidecar: s,
		numbers: metric.Numbers[sidecar.Stats]{
			metric.Counter("sidecar_ignored_descriptors_total", "Descriptors that name no caller; their requests pass.",
				func(s *sidecar.Stats) uint64 { return s.Descriptors }),
		},
		answers: metric.Numbers[sidecar.Answers]{
			metric.Counter("sidecar_asked_total", "Requests that proxies asked about.",
				func(a *sidecar.Answers) uint64 { return a.Asked }, "by"),
			metric.Counter("sidecar_refused_total", "Requests that were refused, of those in sidecar_asked_total.",
				func(a *sidecar.Answers) uint64 { return a.Refused }, "by"),
			metric.Counter("sidecar_rejected_total", "Requests with a repeated header field, of those in sidecar_asked_total: see --reject-repeated.",
				func(a *sidecar.Answers) uint64 { return a.Rejected }, "by"),
		},
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	c.numbers.Describe(out)
	c.answers.Describe(out)
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s := c.sidecar.Stats()
	c.numbers.Collect(out, &s)
	c.answers.Collect(out, &s.HTTP, "http")
	c.answers.Collect(out, &s.Authz, "ext_authz")
	c.answers.Collect(out, &s.RateLimit, "rate_limit")
}
