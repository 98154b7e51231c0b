package metric

import "github.com/prometheus/client_golang/prometheus"

// Number is a metric that is found in a snapshot of type S. Counter and Gauge make one.
type Number[S any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(s *S) float64
}

// Counter returns a number that only grows while the process runs. The labels are names; Numbers.Collect has their values.
func Counter[S any](name, help string, value func(s *S) uint64, labels ...string) Number[S] {
	return Number[S]{Desc(name, help, labels...), prometheus.CounterValue, func(s *S) float64 { return float64(value(s)) }}
}

// Gauge returns a number that may also fall.
func Gauge[S any](name, help string, value func(s *S) float64, labels ...string) Number[S] {
	return Number[S]{Desc(name, help, labels...), prometheus.GaugeValue, value}
}

// Numbers are the metrics of one snapshot. They all have the same labels.
type Numbers[S any] []Number[S]

// Describe sends the description of each.
func (n Numbers[S]) Describe(out chan<- *prometheus.Desc) {
	for i := range n {
		out <- n[i].desc
	}
}

// Descs returns the description of each.
func (n Numbers[S]) Descs() []*prometheus.Desc {
	descs := make([]*prometheus.Desc, len(n))
	for i := range n {
		descs[i] = n[i].desc
	}
	return descs
}

// Collect sends the value of each in s, under the values of their labels.
func (n Numbers[S]) Collect(out chan<- prometheus.Metric, s *S, labels ...string) {
	for i := range n {
		out <- prometheus.MustNewConstMetric(n[i].desc, n[i].kind, n[i].value(s), labels...)
	}
}

// Counters sends a counter for each value of a label. It sends 0 for each known value that has none yet, because the rate of a series
// that begins with 1 does not show its first event. The description has this label only. Values must be UTF-8.
func Counters(out chan<- prometheus.Metric, desc *prometheus.Desc, values map[string]uint64, known ...string) {
	for label, n := range values {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), label)
	}
	for _, label := range known {
		if _, ok := values[label]; !ok {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, 0, label)
		}
	}
}

// Desc describes the metric floodgate_name.
func Desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("floodgate_"+name, help, labels, nil)
}

// Truth is 1 for true and 0 for false.
func Truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
