package ingestprom

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/ingest/feed"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/schemas/metric"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// New returns the collector of a feed, to be registered. feedStats is its method Stats. lostLogs returns how many logs may
// lack lines. undecidedLogs returns how many logs do not count, because another log begins with all that they have. Any goroutine may call
// them.
func New(feedStats func() feed.Stats, lostLogs, undecidedLogs func() uint64) prometheus.Collector {
	type stats = feed.Stats
	type source = feed.SourceStats
	numbers := metric.Numbers[stats]{
		metric.Counter("ingest_lines_total", "Lines read.", func(s *stats) uint64 { return s.Lines }),
		metric.Counter("ingest_entries_total", "Entries made of them.", func(s *stats) uint64 { return s.Entries }),
		metric.Counter("ingest_frames_total", "Frames made of those.", func(s *stats) uint64 { return s.Frames }),
		metric.Counter("ingest_bytes_total", "Bytes of frames and rejects.", func(s *stats) uint64 { return s.Bytes }),
		metric.Counter("ingest_retries_total", "Requests to Kafka that failed and were sent again.", func(s *stats) uint64 { return s.Retries }),
		metric.Counter("ingest_dropped_total", "Lines that the mapping drops, and headers.", func(s *stats) uint64 { return s.Dropped }),
		metric.Counter("ingest_lost_records_total", "Records that foreign topics no longer held.", func(s *stats) uint64 { return s.Lost }),
		metric.Counter("ingest_lost_logs_total", "Logs of which lines may be missing: gone, truncated without a copy, or unreadable.", func(*stats) uint64 { return lostLogs() }),
		metric.Counter("ingest_undecided_logs_total", "Logs that do not count: they ended with no more than what another log begins with, a header or a copy.",
			func(*stats) uint64 { return undecidedLogs() }),
		metric.Gauge("ingest_queued_bytes", "Bytes that wait for Kafka.", func(s *stats) float64 { return float64(s.Queued) }),
	}
	sources := metric.Numbers[source]{
		metric.Gauge("ingest_position", "Everything of the source before this is in Kafka.",
			func(s *source) float64 { return float64(s.Acked) }, "source"),
		metric.Gauge("ingest_lag", "From there to the source's end: bytes of a file, records of a partition.",
			func(s *source) float64 { return float64(s.Lag) }, "source"),
	}
	topics := metric.Numbers[feed.TopicStats]{
		metric.Gauge("ingest_topic_partitions", "Partitions of a foreign topic; 0 while it is missing, or hidden by ACLs.",
			func(s *feed.TopicStats) float64 { return float64(s.Partitions) }, "topic"),
	}
	skipped := metric.Desc("ingest_skipped_records_total", "Records of foreign topics that could not be read, by reason.", "reason")
	rejected := metric.Desc("ingest_rejected_total", "Lines that could not be read, by reason.", "reason")
	return metric.Collector(func(out chan<- prometheus.Metric) {
		s := feedStats()
		numbers.Collect(out, &s)
		metric.Counters(out, skipped, s.Skipped, skips()...)
		byReason := make(map[string]uint64, len(s.Rejected))
		for reason, n := range s.Rejected {
			byReason[string(printable.Of(reason))] = n
		}
		metric.Counters(out, rejected, byReason, rejections()...)
		for i := range s.Sources {
			sources.Collect(out, &s.Sources[i], string(printable.Of(s.Sources[i].Name))) // a label must be UTF-8, a path need not be
		}
		for i := range s.Topics {
			topics.Collect(out, &s.Topics[i], string(printable.Of(s.Topics[i].Name)))
		}
	}, slices.Concat(numbers.Descs(), sources.Descs(), topics.Descs(), []*prometheus.Desc{skipped, rejected})...)
}

// skips are reasons for which records of foreign topics are passed over.
func skips() []string {
	return []string{string(kafkaio.SkipCorrupt), string(kafkaio.SkipTooLarge), string(kafkaio.SkipMalformed), string(kafkaio.SkipCodec), string(kafkaio.SkipFormat)}
}

// rejections are the reasons for which lines are rejected.
func rejections() (names []string) {
	for r := range ingest.Reasons {
		if r.Rejected() {
			names = append(names, r.String())
		}
	}
	return names
}
