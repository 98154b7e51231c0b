package sidecarprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/gate/haproxy"
	"github.com/509da70d/floodgate/schemas/metric"
)

// HAProxy is the source of the numbers of NewHAProxy; a *haproxy.Writer is one.
type HAProxy interface{ Stats() haproxy.Stats }

// NewHAProxy returns a collector of what is written to HAProxy's maps, to be registered. Any goroutine may use it.
func NewHAProxy(w HAProxy) prometheus.Collector {
	numbers := metric.Numbers[haproxy.Stats]{
		metric.Gauge("haproxy_connected", "1 if HAProxy answered last, and has the maps.", func(s *haproxy.Stats) float64 { return metric.Truth(s.Connected) }),
		metric.Counter("haproxy_fills_total", "Processes of HAProxy whose maps were filled.", func(s *haproxy.Stats) uint64 { return s.Fills }),
		metric.Counter("haproxy_repaired_total", "Entries that differed although HAProxy was not started again.", func(s *haproxy.Stats) uint64 { return s.Repaired }),
		metric.Counter("haproxy_rewritten_total", "Maps that were replaced by a new version, because many entries had changed.",
			func(s *haproxy.Stats) uint64 { return s.Rewritten }),
		metric.Counter("haproxy_failures_total", "Connections to HAProxy that failed, and commands that it refused.",
			func(s *haproxy.Stats) uint64 { return s.Failures }),
	}
	entries := metric.Desc("haproxy_entries", "Entries that HAProxy's map of a kind has.", "kind")
	waiting := metric.Desc("haproxy_waiting_entries", "Entries of a map that are to be added, changed or taken out.", "kind")
	written := metric.Desc("haproxy_written_total", "Entries that were written to HAProxy's maps, by command.", "command")
	skipped := metric.Desc("haproxy_skipped_total", "Decisions that are not written to HAProxy's maps.", "reason")
	return metric.Collector(func(out chan<- prometheus.Metric) {
		s := w.Stats()
		numbers.Collect(out, &s)
		for kind, n := range s.Entries {
			out <- prometheus.MustNewConstMetric(entries, prometheus.GaugeValue, float64(n), kind)
			out <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, float64(s.Waiting[kind]), kind)
		}
		metric.Counters(out, written, map[string]uint64{"add": s.Added, "set": s.Changed, "del": s.Removed})
		metric.Counters(out, skipped, s.Skipped)
	}, append(numbers.Descs(), entries, waiting, written, skipped)...)
}
