package apiprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/schemas/metric"
)

// Server is where the numbers come from; *api.Server is one.
type Server interface{ Stats() api.Stats }

// Collector is a prometheus.Collector. New makes one. Any goroutine may use it.
type Collector struct {
	server   Server
	numbers  metric.Numbers[api.Stats]
	requests *prometheus.Desc
	errors   *prometheus.Desc
	seconds  *prometheus.Desc
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a Collector, to be registered.
func New(s Server) *Collector {
	return &Collector{
		server: s,
		numbers: metric.Numbers[api.Stats]{
			metric.Gauge("api_streams", "Streams of the API that are open.", func(s *api.Stats) float64 { return float64(s.Streams) }),
		},
		requests: metric.Desc("api_requests_total", "Requests to the API that have their answer, by route. One that another analyzer has forwarded counts at both.", "route"),
		errors:   metric.Desc("api_errors_total", "Requests in api_requests_total whose answer is a problem, by status of HTTP.", "status"),
		seconds:  metric.Desc("api_request_seconds", "From a request to the API to its answer, without streams."),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	c.numbers.Describe(out)
	out <- c.requests
	out <- c.errors
	out <- c.seconds
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s := c.server.Stats()
	c.numbers.Collect(out, &s)
	metric.Counters(out, c.requests, s.Requests)
	metric.Counters(out, c.errors, s.Errors)
	out <- prometheus.MustNewConstHistogram(c.seconds, s.Seconds.Count, s.Seconds.Sum, s.Seconds.Within)
}
