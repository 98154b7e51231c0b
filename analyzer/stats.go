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
	Next      int64 // offset to fold
	Committed int64 // all before this offset is in the store
	Fold      fold.Stats
	Publish   PublishStats
	Control   ControlStats
	Events    eventlog.Stats
	Snapshots uint64             // complete ones, written to the topic of snapshots
	Commits   histogram.Snapshot // how long checkpoints took, in seconds
	// SnapshotAge is the time since the newest complete snapshot of this owner was begun; if there is none yet, since the owner was
	// made. It is 0 for an owner that writes no snapshots.
	SnapshotAge time.Duration
	Restore     time.Duration // from opening the store until the owner decided, of its last start; 0 until then
	Ahead       uint64        // frames of producers whose clocks are more than kafkaio.MaxAhead ahead of their messages' times
	Unshown     uint64        // records that were refused, and dropped instead of written to the topic of rejects
}

// PublishStats is what an owner has published since it was made, and how late.
type PublishStats struct {
	Epoch     uint64
	Decisions uint64                  // closes, moves, opens and what is predicted, without repeats
	Kinds     [outbox.Kinds]uint64    // the same decisions by outbox.Kind
	Spared    uint64                  // closes and moves that would have been over when gates learned of them: not published
	Repeats   uint64                  // decisions in force, published again
	Retries   uint64                  // produces that failed and were tried again
	InForce   int64                   // closures not yet expired when last looked at
	ClosedBy  map[outbox.RuleMode]int // the same closures by rule and mode; none is 0. Not to be changed
	Lag       time.Duration           // from an entry's time to its decision acknowledged by Kafka, smoothed
	Lags      histogram.Snapshot      // of each close, in seconds; from an entry's time, as Lag
	GateLag   time.Duration           // from a request to its decision in force at a gate, as the last canary measured it; 0: never
}
