// Package fold counts: it applies the entries of one partition of requests to the windows of all rules, in log order, and says
// which callers' gates close.
//
//	Record ──Frame──▶ dedupe ──entry──▶ table (rule × caller) ──window.Add──▶ policy.Step ──▶ Change
//	                                      │                                                   │
//	        override: control records ────┤ limits, closures, modes            predict ◀──────┘ what happened
//	                                      └─ rows: TakeDirty for a store, BeginScan and ScanRows for a snapshot
//
// A Fold does no I/O and uses no clock, no logger and no lock: the linter checks that. Its content is a function of the rules and of the
// log up to an offset. So two folds of one log agree, and after a restart a fold makes the same decisions from the same entries. Package
// analyzer runs a Fold over Kafka; package replay runs one over access logs.
//
// # Parts
//
// Fold takes an entry or a control record, lets package policy decide, and says what changed. table holds the rows: it decides which
// callers have a row, drops rows, and counts what is lost, but knows nothing of changes. inForce has the rules and limits that count now.
// View reads. dedupe knows senders only.
//
// # Files
//
//   - fold.go, frame.go, change.go: the path of an entry, why a frame is refused, and what an entry changes.
//   - dedupe.go: which frames and entries were folded before, by producer and by source, and when each of them is forgotten.
//   - inforce.go: the rules and limits that count now, as the file of rules and control records say.
//   - row.go, rowindex.go, sidetables.go, wheel.go, ends.go: a row, how it is found, data that few rows have, when rows expire and closures
//     end.
//   - table.go, admit.go, waiting.go, loss.go: all rows: which callers have one when the table is full, and what is not
//     counted.
//   - earlyweight.go, confirm.go: requests that gates blocked early, and the closes that they confirm.
//   - rows.go, rowcodec.go, scan.go: rows of stores and snapshots. reload.go: a change of rules.
//   - control.go: what control records change. observe.go: what package predict learns.
//   - view.go, look.go, walk.go, try.go: View, which reads what a fold holds and changes nothing. use.go, stats.go: statistics.
//
// # Control records
//
// Package override keeps the control records that are in force. An owner reads them from the control topic and applies each with Control,
// at a place between two records of requests[p]. It notes that place. So the fold is a function of the rules, of the log, and of these
// records and places. Control records are rows of the store, and are part of its digest, of checkpoints and of snapshots. In a snapshot
// they come first, as of where the scan began. Their effects are not stored: they are derived from the records in force.
//   - Limits: control records come before the overrides of a rule. A row has a flag if there are records about its caller. So an entry of a
//     caller without records costs only a test of that flag. The first entry of a caller costs a look into a map, if there are any records.
//   - Closures that people decide have no row. Closures returns them with the others, under a rule named schemas.ControlRule.
//   - Shadow modes: Rules returns what SetRules was given. The fold counts by copies of the rules that control records put into shadow
//     mode. These count what gates let pass, also of closed callers, and not as if they were alone: see inForce.onTrial.
//
// Records end by log time, before the entry that has that time is counted. Each ends at its own time: it does not matter when entries of
// other callers come. A control record, or rules that allow its peak, can undo a close. Escalation then goes on as if that close had not
// happened: see policy.Derive and policy.Recount. For that a row keeps up to policy.MaxSteps earlier closes in a row, in sideTables. They
// are stored with the row, and are part of the digest.
//
// # Bounds
//
// A partition has at most Options.MaxRows rows. If there are more callers, some wait, and rows that may lack weight because of that are
// marked. Which callers have a row then depends on the log, and also on restarts. The count of a row without a mark depends on the log
// alone.
//
// # Prediction
//
// Package predict learns what happened, and plans decisions ahead of time. The fold never reads its state: no count and no closure depends
// on it. One effect of prediction does count: the flag early of blocked entries, which is in the log as all else (see earlyWeight). A row's
// early weight depends on that row's entries alone. If several rules count one caller, a request that the early close of one rule blocked
// counts as made under all of them, until gates learn that the rule has closed by count. Early weight is forgotten after two seconds, so
// that this adds little to a long window.
//
// # Chosen input
//
// Clients choose ids and resources; servers with producer rights choose producers, sequence numbers and times. This is what
// input costs that an attacker has chosen with the source at hand, compared with random input of the same size:
//   - Table and waiting room: they are indexed by a hash of the id that is random in each process (idHasher), so that no
//     client can choose ids that collide. Ids that share a tag are compared in full.
//   - The waiting room's heap: each entry of a waiting caller costs one path through the heap, up or down. Which caller loses its place
//     depends on what all waiting callers have sent.
//   - Displacing a row: 32 rows are drawn for a caller that has reached its limit. For callers below their limit, rows are drawn at most
//     once for each 16 entries that wait. To predict a draw, an attacker must know everything that was folded before.
//   - Dedupe: senders are in a Go map, which is seeded, and in two heaps, of producers and of sources, ordered by the time of their last
//     frame. A new sender in a full table costs one path through a heap, whatever earlier ones did. A sender that sends again moves in its
//     heap at most once in ten minutes. The list of changed senders is at most twice as long as the table. Of a full table, the kind with more
//     senders makes room. So forged sources, which stay for 400 days, push each other out and not the producers; forged producers push
//     out sources only if so many come within ten minutes that no producer may be evicted.
//   - Wheel: the rows that expire in one minute of log time are dropped together at its end, at 1.3 µs each with their
//     deletions. A partition has at most MaxRows of them. A jump of log time costs as much as there are minutes with rows.
//   - Early entries: a server that forges them closes a caller, as it can with forged admitted entries. Admitted weight lasts for a window,
//     early weight for two seconds at most. Early weight takes 80 bytes for each row that has some, and makes the row dirty.
//   - Trackers: callers at half of their limits can fill the table of trackers. A caller that is nearer to its limit takes the tracker of
//     another one, if one of four draws finds such a one. A caller without a tracker is counted and closed as without prediction.
//   - Canaries: a server that forges lags can stop prediction, or make an early close last longer: up to two seconds, and up to half a
//     window.
//   - Bursts that stop when a close was predicted: see policy.Announced. Such a caller is closed for a moment, and is then not predicted
//     for twice as long.
//   - Control records: only those who may write the control topic make them. Their callers are found in a Go map, which is seeded, so that
//     nobody can choose ids that collide. override.MaxOfCaller bounds what one of their callers costs. A mode record costs a pass over all
//     rows.
//   - Removed rows: those removed since the last checkpoint are in Go maps. Each key is there once, and only if the store holds it.
//
// BenchmarkChosenInput and BenchmarkChosenInputOfSenders try table, waiting room and dedupe.
package fold
