package ingestprom

import (
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/509da70d/floodgate/analyzer/ingest/receiver"
	"github.com/509da70d/floodgate/schemas/metric"
)

// NewReceiver returns the collector of a receiver, to be registered beside that of its feed. receiverStats is its method Stats. Any
// goroutine may call it.
func NewReceiver(receiverStats func() receiver.Stats) prometheus.Collector {
	type stats = receiver.Stats
	numbers := metric.Numbers[stats]{
		metric.Counter("ingest_intermediate_entries_total", "Entries of Envoy's that were left out, because their requests had not ended.",
			func(s *stats) uint64 { return s.Intermediate }),
		metric.Counter("ingest_repeated_requests_total", "Requests of OpenTelemetry that were sent again, and were not counted again.",
			func(s *stats) uint64 { return s.Repeated }),
	}
	calls := metric.Desc("ingest_calls_total", "Calls of Envoy and OpenTelemetry that ended, by the code of gRPC.", "code")
	return metric.Collector(func(out chan<- prometheus.Metric) {
		s := receiverStats()
		numbers.Collect(out, &s)
		metric.Counters(out, calls, s.Calls, codes.OK.String(), codes.Canceled.String(), codes.Unavailable.String(), codes.Internal.String(), codes.ResourceExhausted.String())
	}, append(numbers.Descs(), calls)...)
}
