package notifyprom

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer/notify"
	"github.com/509da70d/floodgate/schemas/metric"
)

// Collector is a prometheus.Collector. New makes one. Any goroutine may use it.
type Collector struct {
	stats atomic.Pointer[func() notify.Stats] // nil before Show
	now   func() time.Time

	requests  *prometheus.CounterVec
	errors    *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	all       metric.Numbers[notify.Stats]
	endpoints metric.Numbers[endpointStats]
	dropped   *prometheus.Desc
}

var _ prometheus.Collector = (*Collector)(nil)

// endpointStats are the numbers of an endpoint at a time.
type endpointStats struct {
	notify.EndpointStats

	now time.Time
}

// age returns how old the oldest event is that waits, in seconds; 0: none waits.
func (s *endpointStats) age() float64 {
	if s.Oldest.IsZero() {
		return 0
	}
	return max(s.now.Sub(s.Oldest).Seconds(), 0)
}

// bounds returns those of floodgate_webhook_seconds: chat services take a second now and then, and the default time-out is 10 s.
func bounds() []float64 { return []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10} }

// New returns a Collector, to be registered; now is its clock.
func New(now func() time.Time) *Collector {
	type stats = endpointStats
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "floodgate_webhook_" + name, Help: help}, labels)
	}
	return &Collector{
		now:      now,
		requests: counters("requests_total", "Attempts to deliver a message.", "endpoint"),
		errors:   counters("errors_total", "Attempts that failed: another status than 2xx, gone (410), or network.", "endpoint", "reason"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "floodgate_webhook_seconds", Help: "How long attempts took.", Buckets: bounds(),
		}, []string{"endpoint"}),
		all: metric.Numbers[notify.Stats]{
			metric.Gauge("notify_settings_refused", "1 while the newest settings have a mistake, and those from before are in use.",
				func(s *notify.Stats) float64 { return metric.Truth(s.Refused) }),
		},
		endpoints: metric.Numbers[stats]{
			metric.Counter("webhook_delivered_events_total", "Events delivered.", func(s *stats) uint64 { return s.Delivered }, "endpoint"),
			metric.Counter("webhook_digests_total", "Messages delivered that had several events.", func(s *stats) uint64 { return s.Digests }, "endpoint"),
			metric.Counter("webhook_unreadable_total", "Messages of the topic of events that are no events.", func(s *stats) uint64 { return s.Unreadable }, "endpoint"),
			metric.Counter("webhook_unknown_total", "Events of types that this version does not know.", func(s *stats) uint64 { return s.Unknown }, "endpoint"),
			metric.Counter("webhook_lost_total", "Messages that the topic of events no longer had, or that were damaged.", func(s *stats) uint64 { return s.Lost }, "endpoint"),
			metric.Gauge("webhook_pending_events", "Events in memory that are neither delivered nor dropped.", func(s *stats) float64 { return float64(s.Pending) }, "endpoint"),
			metric.Gauge("webhook_oldest_seconds", "Age of the oldest of them; 0: there is none.", func(s *stats) float64 { return s.age() }, "endpoint"),
			metric.Gauge("webhook_disabled", "1 if the endpoint has answered 410, and gets no more until the settings change.",
				func(s *stats) float64 { return metric.Truth(s.Disabled) }, "endpoint"),
		},
		dropped: metric.Desc("webhook_dropped_events_total", "Events given up: expired (attempts failed for a day), or template (it makes no message of them).", "endpoint", "reason"),
	}
}

// Show makes the Collector show a notifier, whose method Stats is stats.
func (c *Collector) Show(stats func() notify.Stats) { c.stats.Store(&stats) }

// Observe counts an attempt; it is meant for notify.Config.Observe.
func (c *Collector) Observe(a notify.Attempt) {
	c.requests.WithLabelValues(a.Endpoint).Inc()
	if a.Result != notify.ResultOK {
		c.errors.WithLabelValues(a.Endpoint, a.Result).Inc()
	}
	c.seconds.WithLabelValues(a.Endpoint).Observe(a.Took.Seconds())
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	c.requests.Describe(out)
	c.errors.Describe(out)
	c.seconds.Describe(out)
	c.all.Describe(out)
	c.endpoints.Describe(out)
	out <- c.dropped
}

// Collect implements prometheus.Collector. Each endpoint has all its series, so that a rate has something to begin with.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	if stats := c.stats.Load(); stats != nil {
		c.collect(out, (*stats)())
	}
	c.requests.Collect(out)
	c.errors.Collect(out)
	c.seconds.Collect(out)
}

func (c *Collector) collect(out chan<- prometheus.Metric, s notify.Stats) {
	c.all.Collect(out, &s)
	now := c.now()
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		c.requests.WithLabelValues(e.Name)
		for _, reason := range notify.Results() {
			if reason != notify.ResultOK {
				c.errors.WithLabelValues(e.Name, reason)
			}
		}
		c.endpoints.Collect(out, &endpointStats{*e, now}, e.Name)
		for reason, n := range e.Dropped {
			out <- prometheus.MustNewConstMetric(c.dropped, prometheus.CounterValue, float64(n), e.Name, reason)
		}
	}
}
