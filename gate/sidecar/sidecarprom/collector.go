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
		metric.Gauge("sidecar_quota_streams", "Streams of Envoy's quota service.", func(s *sidecar.Stats) float64 { return float64(s.Quota.Streams) }),
		metric.Gauge("sidecar_quota_buckets", "Buckets of Envoy's quota service that learn of a decision at once.",
			func(s *sidecar.Stats) float64 { return float64(s.Quota.Buckets) }),
		metric.Counter("sidecar_quota_ignored_total", "Reports of Envoy's on buckets that name no caller; their requests pass.",
			func(s *sidecar.Stats) uint64 { return s.Quota.Ignored }),
		metric.Counter("sidecar_quota_crowded_total", "Reports of Envoy's on buckets beyond the bound, which learn of a decision at their next report.",
			func(s *sidecar.Stats) uint64 { return s.Quota.Crowded }),
	}
	streams := metric.Desc("sidecar_quota_failed_streams_total", "Streams of Envoy's quota service that were turned away or ended.", "reason")
	answers := metric.Numbers[sidecar.Answers]{
		metric.Counter("sidecar_asked_total", "Requests that proxies asked about, or that Envoy let pass or refused by its own buckets (quota).",
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
		answers.Collect(out, &s.Quota.Answers, "quota")
		metric.Counters(out, streams, map[string]uint64{"bound": s.Quota.TurnedAway, "unreadable": s.Quota.Unreadable})
	}, append(append(numbers.Descs(), answers.Descs()...), streams)...)
}
