package sidecarprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/gate/sidecar"
	"github.com/509da70d/floodgate/schemas/metric"
)

// Sidecar is the source of the numbers; a *sidecar.Sidecar is one.
type Sidecar interface{ Stats() sidecar.Stats }

// New returns a collector, to be registered. Any goroutine may use it.
func New(s Sidecar) prometheus.Collector {
	numbers := metric.Numbers[sidecar.Stats]{
		metric.Counter("sidecar_ignored_descriptors_total", "Descriptors that name no caller; their requests pass.",
			func(s *sidecar.Stats) uint64 { return s.Descriptors }),
	}
	answers := metric.Numbers[sidecar.Answers]{
		metric.Counter("sidecar_asked_total", "Requests that proxies asked about.",
			func(a *sidecar.Answers) uint64 { return a.Asked }, "by"),
		metric.Counter("sidecar_refused_total", "Requests that were refused, of those in sidecar_asked_total.",
			func(a *sidecar.Answers) uint64 { return a.Refused }, "by"),
		metric.Counter("sidecar_rejected_total", "Requests with a repeated header field, of those in sidecar_asked_total: see --reject-repeated.",
			func(a *sidecar.Answers) uint64 { return a.Rejected }, "by"),
	}
	return metric.Collector(func(out chan<- prometheus.Metric) {
		s := s.Stats()
		numbers.Collect(out, &s)
		answers.Collect(out, &s.HTTP, "http")
		answers.Collect(out, &s.Authz, "ext_authz")
		answers.Collect(out, &s.RateLimit, "rate_limit")
	}, append(numbers.Descs(), answers.Descs()...)...)
}
