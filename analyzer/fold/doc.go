// Package fold counts: it applies the entries of one partition of requests to the windows of all rules, in log order, and says
// which callers' gates close.
//
//	Record ──Frame──▶ dedupe ──entry──▶ table (rule × caller) ──window.Add──▶ policy.Step ──▶ Change
//	                                      │                                                   │
//	        override: control records ────┤ limits, closures, modes            predict ◀──────┘ what happened
//	                                      └─ rows: TakeDirty for a store, BeginScan and ScanRows for a snapshot
//
// A Fold does no I/O and uses no clock, no logger and no lock: the linter checks that. Its content is a function of the
// rules and of the log up to an offset. So two folds of one log agree, and a fold that starts again folds the same entries
// into the same decisions. Package analyzer runs a Fold over Kafka; package replay runs one over access logs.
//
// # Parts
//
// Fold is the path of an entry and of a control record: it lets package policy decide, and says what changed. The rows are a table: it
// says which callers have a row, drops rows, and counts what is lost, and knows no changes. inForce is the rules and limits that count
// now. View reads. dedupe knows senders, and nothing else.
//
// # Files
//
//   - fold.go, frame.go, change.go: the path of an entry, why a frame is refused, and what an entry changes.
//   - dedupe.go: which frames and entries were folded before, by producer and by source.
//   - inforce.go: the rules and limits that count now, as the file of rules and control records say.
//   - row.go, rowindex.go, sidetables.go, wheel.go, ends.go: a row, how it is found, what few rows have, when rows expire and closures end.
//   - table.go, admit.go, waiting.go, displace.go, loss.go: the rows together: which callers have one when the table is full, and what is
//     not counted.
//   - earlyweight.go, confirm.go: requests that gates blocked early, and the closes that they confirm.
//   - rows.go, rowcodec.go, scan.go: rows of stores and snapshots. reload.go: a change of rules.
//   - control.go: what control records change. observe.go: what package predict is told.
//   - view.go, look.go, walk.go, try.go: View, which reads what a fold holds and changes nothing. use.go, stats.go: what it has done.
//
// # Control records
//
// Package override keeps the control records that are in force. An owner reads them from the control topic and applies each with
// Control, at a place between two records of requests[p] that it notes. So the fold is a function of the rules, of the log, and of these
// records and places. Control records are rows of the store, in its digest, in checkpoints, and in snapshots, where they come first and
// are as of where the scan began. What a record does is in no row: it is derived from the records in force.
//   - Limits: inForce reads them before the overrides of a rule. A row has a flag if there are records about its caller, so that an
//     entry of another caller costs a test of that flag. The first entry of a caller costs a look into a map, if there are any records.
//   - Closures that people decide have no row. Closures returns them with the others, as ones of a rule named schemas.ControlRule.
//   - Shadow modes: Rules stays what SetRules was given; the fold counts by copies of those rules that are in shadow mode.
//
// Records end by log time, before the entry that has that time is counted, and each at its own time: when other callers'
// entries come changes nothing. When a close is undone, by a control record or by rules that allow its peak, escalation goes on
// as if it had not been: see policy.Derive and policy.Recount. For that a row keeps up to policy.MaxSteps closes in a row before its
// closure in sideTables; they are stored with the row, and part of the digest.
//
// # Bounds
//
// A partition has at most Options.MaxRows rows. If there are more callers, some wait, and rows that may lack weight because of
// that are marked. Which callers have a row then depends not only on the log but also on restarts. The count of a row
// without a mark depends on the log alone.
//
// # Prediction
//
// Package predict is told what happened, and plans what gates are told ahead of time. The fold never reads its state: nothing that is
// counted, and no closure, depends on it. What does count is the flag early of blocked entries, in the log as all else: see earlyWeight.
// A row's early weight depends on that row's entries alone. Where several rules count one caller, a request that one rule's early close
// blocked counts as made under all of them, until gates hear that the rule has closed by count. It is forgotten after two seconds, so
// that this adds little to a long window.
//
// # Chosen input
//
// Clients choose ids and resources; servers with producer rights choose producers, sequence numbers and times. This is what
// input costs that an attacker has chosen with the source at hand, compared with random input of the same size:
//   - Table and waiting room: they are indexed by a hash of the id that is random in each process (idHasher), so that no
//     client can choose ids that collide. Ids that share a tag are compared in full.
//   - The waiting room's heap: each entry of a waiting caller costs one path from a place to the root or to a leaf. Which
//     caller loses its place depends on what all waiting callers have sent.
//   - Displacing a row: 32 rows are drawn for a caller that has reached its limit. For a caller below its limit, rows are drawn
//     at most once for each 16 entries that wait. To predict a draw, an attacker must know everything that was folded
//     before.
//   - Dedupe: senders are in a Go map, which is seeded, and in a heap ordered by the time of their last frame. A new
//     producer in a full table costs one path through the heap, whatever the producers before it did. A producer that sends
//     again moves in the heap at most once in ten minutes. The list of changed senders is at most twice as long as the
//     table.
//   - Wheel: the rows that expire in one minute of log time are dropped together at its end, at 1.3 µs each with their
//     deletions. A partition has at most MaxRows of them. A jump of log time costs as much as there are minutes with rows.
//   - Early entries: a server that forges them closes a caller, as it does with forged admitted entries. Those last for a
//     window, early weight for two seconds at most. It takes 80 bytes for a row that has some, and makes its row dirty.
//   - Trackers: callers at half of their limits can fill the table of trackers. One who comes nearer to its limit takes the place of
//     another, if one of four draws finds one; one who gets none is counted and closed as without prediction.
//   - Canaries: a server that forges lags stops prediction, or makes an early close longer, up to two seconds and half a window.
//   - Bursts that stop when a close was predicted: see policy.Announced. Such a caller was closed for a moment, and is not predicted
//     for twice as long.
//   - Control records: only those who may write the control topic make them. Their callers are found in a Go map, which is seeded, so that
//     no ids collide by choice. What a caller of theirs costs is bounded by override.MaxOfCaller. A mode record costs a pass over all rows.
//   - Removed rows: those removed since the last checkpoint lie in Go maps, each key once, and only keys that the store holds.
//
// BenchmarkChosenInput and BenchmarkChosenInputOfSenders try table, waiting room and dedupe.
package fold
