package apiprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/schemas/metric"
)

// New returns the collector of a server, to be registered. stats is its method Stats.
func New(stats func() api.Stats) prometheus.Collector {
	numbers := metric.Numbers[api.Stats]{
		metric.Gauge("api_streams", "Streams of the API that are open.", func(s *api.Stats) float64 { return float64(s.Streams) }),
	}
	requests := metric.Desc("api_requests_total", "Requests to the API that have their answer, by route. One that another analyzer has forwarded counts at both.", "route")
	errors := metric.Desc("api_errors_total", "Requests in api_requests_total whose answer is a problem, by status of HTTP.", "status")
	seconds := metric.Desc("api_request_seconds", "From a request to the API to its answer, without streams.")
	return metric.Collector(func(out chan<- prometheus.Metric) {
		s := stats()
		numbers.Collect(out, &s)
		metric.Counters(out, requests, s.Requests)
		metric.Counters(out, errors, s.Errors)
		out <- prometheus.MustNewConstHistogram(seconds, s.Seconds.Count, s.Seconds.Sum, s.Seconds.Within)
	}, append(numbers.Descs(), requests, errors, seconds)...)
}
