package failpoint

import "fmt"

// Point is a place in the code. The zero value is none.
type Point uint8

// Points, in the order in which a healthy owner passes them. There must be a Here in the code for each but InsideCommit.
const (
	_ Point = iota

	// Opening and claiming.
	Quarantined   // a store that can't be used was moved aside, and there is none in its place yet
	Opened        // the store is open and loaded
	ClaimAppended // the claim is in the log, and not read back
	Claimed       // the claim was read back: the partition is ours
	Verifying     // the log's range is known, the store not yet compared with it

	// Restoring. Nothing may have been published.
	SnapshotChosen   // the fold is that of a snapshot without its rows; the store is empty
	RowRestored      // one row of the snapshot is in place
	SnapshotRestored // all rows are, and none is committed
	BatchRefolded    // a batch of the log beyond store or snapshot is folded
	Restored         // the log's end is reached
	Reconciled       // the difference to what gates were told is known, and not published
	CycleRepeated    // all closures in force are published again, and no heartbeat says so

	// Running.
	Fetched      // a batch is fetched, and not folded
	RecordFolded // a record of a batch is folded
	BatchFolded  // all of the batch is, and what it changed is not handed to the publisher
	Published    // decisions or a heartbeat are in the log, and the publisher hasn't taken note
	LeaseRenewed // the group has taken an offset
	CommitBegins // a checkpoint is about to be written
	InsideCommit // a checkpoint is being written: some time between CommitBegins and CommitEnds
	PartCommits  // a part of a checkpoint that didn't fit one transaction is on disk, and others are not
	CommitEnds   // a checkpoint is on disk, and the owner hasn't taken note

	// Writing snapshots.
	SnapshotBegun   // the begin of a snapshot is in the log
	SnapshotPieced  // some rows are
	SnapshotEnded   // the end is, and no heartbeat announces it
	RulesChanged    // the fold counts by new rules, and nobody else knows
	RulesCommitted  // the store knows which rules count, the snapshots don't
	Draining        // the owner was told to stop, and has counts that are not committed
	Drained         // all is committed and published; the store is open, the group not left
	pointsAndOneEnd // not a point
)

// names are of points, for people and for the environment.
var names = [...]string{
	"none", "quarantined", "opened", "claim-appended", "claimed", "verifying",
	"snapshot-chosen", "row-restored", "snapshot-restored", "batch-refolded", "restored", "reconciled", "cycle-repeated",
	"fetched", "record-folded", "batch-folded", "published", "lease-renewed",
	"commit-begins", "inside-commit", "part-commits", "commit-ends",
	"snapshot-begun", "snapshot-pieced", "snapshot-ended", "rules-changed", "rules-committed", "draining", "drained",
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
