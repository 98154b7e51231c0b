package analyzerprom

import (
	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/schemas/metric"
)

// stats is what there is to show of one partition.
type stats = analyzer.OwnerStats

func counter(name, help string, value func(s *stats) uint64) metric.Number[stats] {
	return metric.Counter(name, help, value, "partition")
}

func gauge(name, help string, value func(s *stats) float64) metric.Number[stats] {
	return metric.Gauge(name, help, value, "partition")
}

func counterNumbers() metric.Numbers[stats] {
	return metric.Numbers[stats]{
		counter("frames_total", "Frames folded.",
			func(s *stats) uint64 { return s.Fold.Frames }),
		counter("entries_total", "Entries folded.",
			func(s *stats) uint64 { return s.Fold.Entries }),
		counter("requests_total", "Requests folded, each once for each of its callers.",
			func(s *stats) uint64 { return s.Fold.Requests }),
		counter("responses_total", "Responses folded, each once for each caller of its request.",
			func(s *stats) uint64 { return s.Fold.Responses }),
		counter("duplicates_total", "Frames or lines delivered again, and counted once.",
			func(s *stats) uint64 { return s.Fold.Duplicate }),
		counter("too_old_total", "Frames too old to tell whether they were counted; they were not.",
			func(s *stats) uint64 { return s.Fold.TooOld }),
		counter("rejects_dropped_total", "Records that could not be read, and that the topic of rejects does not show.",
			func(s *stats) uint64 { return s.Unshown }),
		counter("lost_records_total", "Records that the log no longer held when they were to be counted.",
			func(s *stats) uint64 { return s.Fold.Lost }),
		counter("other_logs_total", "How often the log turned out not to be the one that was counted: a new leader lacked records, or the topic was made anew.",
			func(s *stats) uint64 { return s.OtherLogs }),
		counter("late_weight_total", "Weight that came after its window had passed.",
			func(s *stats) uint64 { return s.Fold.Late }),
		counter("ahead_frames_total", "Frames of servers whose clocks are more than 2 s ahead of the brokers' (LogAppendTime).",
			func(s *stats) uint64 { return s.Ahead }),
		counter("displaced_total", "Rows whose callers had to make room for others: the table is full.",
			func(s *stats) uint64 { return s.Fold.Displaced }),
		counter("closes_total", "Closes: callers that were open and reached their limit.",
			func(s *stats) uint64 { return s.Fold.Closes }),
		counter("warnings_total", "Shares of a limit that were crossed.",
			func(s *stats) uint64 { return s.Fold.Warnings }),
		counter("decisions_total", "Decisions published, without repeats.",
			func(s *stats) uint64 { return s.Publish.Decisions }),
		counter("decisions_spared_total", "Closes and moved ends not published because they would have been over when gates learned of them.",
			func(s *stats) uint64 { return s.Publish.Spared }),
		counter("decisions_repeated_total", "Decisions in force published again.",
			func(s *stats) uint64 { return s.Publish.Repeats }),
		counter("publish_retries_total", "Produces of decisions that failed and were tried again.",
			func(s *stats) uint64 { return s.Publish.Retries }),
		counter("pool_replaced_total", "Tallies and levels of pools that newer ones replaced before they were sent.",
			func(s *stats) uint64 { return s.PoolReplaced }),
		counter("snapshots_total", "Snapshots of all counts written to the topic of state.",
			func(s *stats) uint64 { return s.Snapshots }),
	}
}

func gaugeNumbers() metric.Numbers[stats] {
	return metric.Numbers[stats]{
		gauge("sequence_gaps", "Frames that producers numbered and that never came.",
			func(s *stats) float64 { return float64(s.Fold.Gaps) }),
		gauge("waiting", "Callers without a row, of which only a coarse count is kept: the table is full.",
			func(s *stats) float64 { return float64(s.Fold.Waiting) }),
		gauge("closed", "Closures in force.",
			func(s *stats) float64 { return float64(s.Publish.InForce) }),
		gauge("rows", "Rules × callers counted now.",
			func(s *stats) float64 { return float64(s.Fold.Rows) }),
		gauge("producers", "Producers and sources remembered now.",
			func(s *stats) float64 { return float64(s.Fold.Senders) }),
		gauge("next_offset", "The next offset of requests to count.",
			func(s *stats) float64 { return float64(s.Next) }),
		gauge("committed_offset", "The offset of requests before which all is counted on disk.",
			func(s *stats) float64 { return float64(s.Committed) }),
		gauge("epoch", "The epoch under which decisions are published.",
			func(s *stats) float64 { return float64(s.Publish.Epoch) }),
		gauge("gate_lag_seconds", "From a request to its decision at a gate, as the last canary measured it.",
			func(s *stats) float64 { return s.Publish.GateLag.Seconds() }),
		gauge("snapshot_age_seconds", "Since the newest complete snapshot of this owner was begun; if there is none yet, since the owner was made.",
			func(s *stats) float64 { return s.SnapshotAge.Seconds() }),
		gauge("restore_seconds", "From opening the store until the owner decided, of its last start.",
			func(s *stats) float64 { return s.Restore.Seconds() }),
		gauge("overshoot_ratio_max", "The largest overshoot of any close since the start.",
			func(s *stats) float64 { return s.Fold.Overshoot }),
	}
}
