package failpoint

import "fmt"

// Point is a place in the code. The zero value is no place.
type Point uint8

// Points, in the order in which a healthy owner passes them. Except for InsideCommit, each must have a call of Here in the
// code.
const (
	_ Point = iota

	// Opening and claiming.
	Quarantined   // a store that cannot be used was moved aside, and there is no new one yet
	Opened        // the store is open and loaded
	ClaimAppended // the claim is in the log, but not read back
	Claimed       // the claim was read back: the partition is ours
	Verifying     // the log's range is known, but the store is not yet compared with it

	// Restoring. The owner must not have published anything.
	SnapshotChosen   // the fold is that of a snapshot without its rows; the store is empty
	RowRestored      // one row of the snapshot is in place
	SnapshotRestored // all rows are in place, but none is committed
	BatchRefolded    // a batch of the log beyond store or snapshot is folded
	Restored         // all records up to the log's end are folded
	Reconciled       // the differences from decisions[p] are known, but not published
	CycleRepeated    // all closures in force are published again, but no heartbeat announces it

	// Running.
	Fetched      // a batch is fetched, but not folded
	RecordFolded // a record of a batch is folded
	BatchFolded  // the whole batch is folded, but its changes are not passed to the publisher
	Published    // decisions or a heartbeat are in the log, but the publisher does not know yet
	LeaseRenewed // the group has accepted an offset
	CommitBegins // a checkpoint is about to be written
	InsideCommit // a checkpoint is being written: some time between CommitBegins and CommitEnds
	PartCommits  // one part of a checkpoint that did not fit into one transaction is on disk, others are not
	CommitEnds   // a checkpoint is on disk, but the owner does not know yet

	// Writing snapshots.
	SnapshotBegun  // the begin of a snapshot is in the log
	SnapshotPieced // some rows are in the log
	SnapshotEnded  // the end is in the log, but no heartbeat announces it

	// Writing the control topic.
	TakeAppended  // a take is in the topic, and nothing was read behind it
	RulesNoted    // the text of new rules is in the topic, and no place names it
	PlaceAppended // a place is in the topic, but not read back
	PlaceRead     // the place was read back, but nothing of it is applied
	PlaceApplied  // the fold and the publisher know what the place applies, the store and the snapshots do not

	// Writing events.
	EventsWritten // events are in the topic, but the owner does not know yet

	// Stopping.
	Draining        // the owner is stopping, with counts that are not committed
	Drained         // all is committed and published; the store is still open, and the member still in the group
	pointsAndOneEnd // not a point
)

// names are the names of points, for people and for the environment.
var names = [...]string{
	"none", "quarantined", "opened", "claim-appended", "claimed", "verifying",
	"snapshot-chosen", "row-restored", "snapshot-restored", "batch-refolded", "restored", "reconciled", "cycle-repeated",
	"fetched", "record-folded", "batch-folded", "published", "lease-renewed",
	"commit-begins", "inside-commit", "part-commits", "commit-ends",
	"snapshot-begun", "snapshot-pieced", "snapshot-ended",
	"take-appended", "rules-noted", "place-appended", "place-read", "place-applied", "events-written", "draining", "drained",
}

// String returns the point's name in lower case, or its number if it has none.
func (p Point) String() string {
	if int(p) < len(names) {
		return names[p]
	}
	return fmt.Sprintf("point-%d", uint8(p))
}

// All returns all points, in order.
func All() []Point {
	all := make([]Point, 0, pointsAndOneEnd)
	for p := Point(1); p < pointsAndOneEnd; p++ {
		all = append(all, p)
	}
	return all
}

// Restoring reports whether an owner at this point must not have published anything yet.
func (p Point) Restoring() bool { return p >= Quarantined && p <= Reconciled }
