package analyzerprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/schemas/metric"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// labelled is a counter with a label from a fixed list, such as reasons, over all partitions together.
type labelled struct {
	desc   *prometheus.Desc
	values func(s *stats) map[string]uint64
	known  []string // labels that are shown from the start, so that a rate has something to begin with
	sums   *sums
}

// labelledCounters are counters whose label says what a person does about it; the partition does not.
func labelledCounters() []labelled {
	of := func(name, help, label string, values func(s *stats) map[string]uint64, known ...string) labelled {
		return labelled{metric.Desc(name, help, label), values, known, newSums()}
	}
	return []labelled{
		of("rejected_total", "Frames and entries refused, by reason.", "reason",
			func(s *stats) map[string]uint64 { return s.Fold.Rejected }, rejectReasons()...),
		of("pool_dropped_total", "Tallies and levels of pools that were not folded, by reason.", "reason",
			func(s *stats) map[string]uint64 { return s.Fold.PoolDropped }, fold.PoolReasons()...),
		of("events_total", "Events in the topic of events, by type; copies after a restart count again.", "type", writtenEvents),
		of("control_applied_total", "Control records applied, by action; those of action mode once in each partition.", "action", appliedByHand),
		of("control_refused_total", "Control records that changed nothing because of a bound or because they were over, by reason.", "reason",
			func(s *stats) map[string]uint64 { return s.Fold.ControlRefused }, "full", "caller", "modes", "over", "action"),
		of("control_skipped_total", "Control records that were passed over, by reason.", "reason", func(s *stats) map[string]uint64 {
			return map[string]uint64{"later_version": s.Control.Later, "unreadable": s.Control.Unreadable, "lost": s.Control.Lost}
		}),
	}
}

// rejectReasons are the reasons of refusals: of the fold, of frames that cannot be read, and of records that cannot be fetched.
func rejectReasons() []string {
	return []string{
		fold.ReasonKey, fold.ReasonPartitions, fold.ReasonMisplaced, fold.ReasonSenders,
		"short", "magic", "version", "crc", "bounds", "entry", "full", "caller_kind", "caller_id", "other",
		string(kafkaio.SkipCorrupt), string(kafkaio.SkipTooLarge), string(kafkaio.SkipMalformed), string(kafkaio.SkipCodec),
		string(kafkaio.SkipTransactional), string(kafkaio.SkipFormat),
	}
}

func writtenEvents(s *stats) map[string]uint64 {
	written := make(map[string]uint64)
	for _, of := range event.Types() {
		written[string(of)] = s.Events.Written[of]
	}
	return written
}

func appliedByHand(s *stats) map[string]uint64 {
	applied := make(map[string]uint64)
	for a := schemas.ControlClose; a <= schemas.ControlUndo; a++ {
		applied[a.String()] = s.Control.Applied[a]
	}
	return applied
}

func (l *labelled) collect(out chan<- prometheus.Metric, owners []stats) {
	now := make(counters)
	for i := range owners[:min(1, len(owners))] {
		for _, label := range l.known {
			now[counted{owners[i].Partition, label}] = row{0}
		}
	}
	for i := range owners {
		for label, n := range l.values(&owners[i]) {
			now[counted{owners[i].Partition, label}] = row{float64(n)}
		}
	}
	for label, n := range l.sums.add(now) {
		out <- prometheus.MustNewConstMetric(l.desc, prometheus.CounterValue, n[0], string(printable.Of(label)))
	}
}
