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
// Analyzer runs the owners of the partitions that its consumer group assigns to it.
package analyzer
