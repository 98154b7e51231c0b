// Package analyzer folds request logs into windowed counts and publishes who is closed.
//
//	requests[p] ──fetch──▶ Fold ──Change──▶ publisher ──▶ decisions[p] ──▶ every gate
//	                        │
//	                        └─dirty rows + next offset──▶ committer ──▶ store (one transaction)
//
// Fold is the heart: it applies entries to windows in log order, without I/O and without a clock, so that counts are a
// function of the log's prefix and the rules. Package replay uses the same Fold over access logs.
//
// An Owner is the goroutine that owns one partition: requests[p], its store and decisions[p]. Publishing may run ahead
// of the checkpoint, because the fold is deterministic: an owner that starts again folds the same entries into the same
// decisions, and decisions are absolute, so a repeat changes nothing. An fsync is therefore never in the closing lag.
//
// Beside that, an owner writes all it holds to state[p], in cycles and in pieces: a begin with the dedupe table as of an
// offset, each row as of a later one, and an end. Heartbeats say where the last complete one began. An owner starts from
// its store if that is good, else from such a snapshot, else from the log alone, and reaches the same rows whichever it is:
//
//	log      ──0────────B──n1─────n2──────▶ next
//	snapshot            │  └row 1  └row 2    the log is folded from B; at n1, row 1 becomes what it was then
//
// Which rules count since which offset is recorded there too, with their text, so that what is folded again is folded by
// the rules that it was folded by.
//
// Analyzer runs the owners of the partitions that its consumer group assigns to it. One that is assigned none stands by, and
// is ready.
//
// Where this differs from ARCHITECTURE.md §5:
//   - An owner opens its store before it claims the partition, not after: the claim's epoch must be above that of the
//     store, which only the store can tell. What must not happen before the claim is publishing, and reading back what
//     others published; opening touches nothing but our own directory, which is locked.
//   - An owner whose claim meets the highest epoch that there can be gives up with ErrFenced: there is none above it.
//   - Restoring ends at the log's end as it was when restoring began; what came since is folded while running, and its
//     decisions are published at once.
//   - The lease is renewed by the offset commits of all partitions together, so it is the analyzer's and not a partition's.
//     An owner keeps its epoch through a rebalance; one that failed and began anew takes another.
//   - Partitions are not added to running owners: when the topic of requests has more of them than before, the daemon
//     stops its Analyzer and makes another.
package analyzer
