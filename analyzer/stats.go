package analyzer

import (
	"time"

	"github.com/509da70d/floodgate/analyzer/eventlog"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/histogram"
	"github.com/509da70d/floodgate/analyzer/outbox"
)

// OwnerStats is what an owner is doing, and what it has done since it was made.
type OwnerStats struct {
	Partition int
	State     State
	Next      int64 // the next offset to fold
	End       int64 // of the log, when the owner last read from it: what waits is from Next until End
	Committed int64 // all before this offset is in the store
	Fold      fold.Stats
	Publish   PublishStats
	Control   ControlStats
	Events    eventlog.Stats
	Snapshots uint64             // complete snapshots, written to their topic
	Commits   histogram.Snapshot // how long checkpoints took, in seconds
	// SnapshotAge is the time since the newest complete snapshot of this owner was begun; if there is none yet, since the owner was
	// made. It is 0 for an owner that writes no snapshots.
	SnapshotAge  time.Duration
	Restore      time.Duration // from opening the store until the owner decided, of its last start; 0 until then
	OtherLogs    uint64        // how often the log turned out not to be the one that was counted since the Analyzer got the partition
	Ahead        uint64        // frames of producers whose clocks are more than kafkaio.MaxAhead ahead of their messages' times
	PoolReplaced uint64        // tallies and levels of pools that newer ones replaced before they were sent
	Unshown      uint64        // refused records that were dropped instead of written to the topic of rejects
}

// PublishStats is what an owner has published since it was made, and how late.
type PublishStats struct {
	Epoch     uint64
	Decisions uint64                  // closes, moves, opens and what is predicted, without repeats
	Kinds     [outbox.Kinds]uint64    // the same decisions by outbox.Kind
	Spared    uint64                  // closes and moves not published: they would be over when gates learn of them, or a share covers them
	Repeats   uint64                  // decisions in force, published again
	Retries   uint64                  // produces that failed and were tried again
	InForce   int64                   // closures in force, as of the last batch
	ClosedBy  map[outbox.RuleMode]int // the same closures by rule and mode; no number is 0. Nobody may change it
	Lag       time.Duration           // from an entry's time until Kafka has acknowledged its decision, smoothed; 0: no close for a minute
	Lags      histogram.Snapshot      // the same for each close, in seconds, not smoothed
	GateLag   time.Duration           // from a request until its decision holds at a gate, as the last canary measured it; 0: not measured
}
