package kafkaprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// Calls is a prometheus.Collector of the calls that Observe gets. New makes one. Any goroutine may use it.
type Calls struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

var _ prometheus.Collector = (*Calls)(nil)

// Results of floodgate_kafka_requests_total.
const (
	ok     = "ok"
	failed = "failed"
)

// bounds returns those of floodgate_kafka_request_seconds: a produce takes milliseconds, and the time-out is 5 s.
func bounds() []float64 { return []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 2.5, 5} }

// New returns Calls without any, to be registered. All series are there from the start, so that a rate has something to begin with.
func New() *Calls {
	c := &Calls{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "floodgate_kafka_requests_total", Help: "Calls to Kafka, each with all its attempts, by what they do and by result.",
		}, []string{"op", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "floodgate_kafka_request_seconds", Help: "How long calls to Kafka took. A fetch waits for records, and a join for the other members of the group.",
			Buckets: bounds(),
		}, []string{"op"}),
	}
	for _, op := range kafkaio.Ops() {
		c.requests.WithLabelValues(op, ok)
		c.requests.WithLabelValues(op, failed)
		c.seconds.WithLabelValues(op)
	}
	return c
}

// Observe counts a call; it is meant for kafkaio.Config.Observe.
func (c *Calls) Observe(call kafkaio.Call) {
	result := ok
	if call.Err != nil {
		result = failed
	}
	c.requests.WithLabelValues(call.Op, result).Inc()
	c.seconds.WithLabelValues(call.Op).Observe(call.Took.Seconds())
}

// Describe implements prometheus.Collector.
func (c *Calls) Describe(out chan<- *prometheus.Desc) {
	c.requests.Describe(out)
	c.seconds.Describe(out)
}

// Collect implements prometheus.Collector.
func (c *Calls) Collect(out chan<- prometheus.Metric) {
	c.requests.Collect(out)
	c.seconds.Collect(out)
}
