// Package fold counts: it applies the entries of one partition of requests to the windows of all rules, in log order, and says
// which callers' gates close.
//
//	Record ──Frame──▶ dedupe ──entry──▶ table (rule × caller) ──window.Add──▶ policy.Step ──▶ Change
//	                                      │
//	                  control record ─────┤ limits, closures by hand, modes
//	                                      └─ rows: TakeDirty for a store, BeginScan and ScanRows for a snapshot
//
// A Fold does no I/O and uses no clock, no logger and no lock: the linter checks that. Its content is a function of the
// rules and of the log up to an offset. So two folds of one log agree, and a fold that starts again folds the same entries
// into the same decisions. Package analyzer runs a Fold over Kafka; package replay runs one over access logs.
//
// # Files
//
//   - fold.go, change.go, frame.go, reason.go: the path of an entry, what it changes, and why a frame is refused.
//   - demand.go: requests that gates blocked early, and the closes that they confirm.
//   - lag.go, track.go, trackers.go, plan.go: the next close of callers near their limits, predicted. aside.go: what is kept beside
//     rows, and goes with them.
//   - dedupe.go, idle.go, sender.go: which frames and entries were folded before, by producer and by source.
//   - table.go, index.go, wheel.go, expiry.go: the rows, how they are found, and when they are dropped.
//   - admit.go, waiting.go, displace.go, loss.go: which callers have a row when the table is full, and what is not counted.
//   - rows.go, rowcodec.go, scan.go: rows of stores and snapshots. reload.go: a change of rules.
//   - control.go, hand.go, manual.go, manualcodec.go: what people decide by hand.
//
// # Control records
//
// People close and open callers, give them other limits, reset their counts, and put rules in shadow mode. An owner reads this from the
// control topic and applies each record with Control, at a place between two records of requests[p] that it notes. So the fold is a
// function of the rules, of the log, and of these records and places.
//
// Records in force, and those that were undone, are rows of the store (ManualRow): in its digest, in checkpoints, and in snapshots,
// where they come first and are as of where the scan began. What a record does is in no row: it is derived from the records in force.
//   - Limits: limitOf asks them before the overrides of a rule. A row has a flag if there are records about its caller, so that an
//     entry of another caller costs a test of that flag. The first entry of a caller costs a look into a map, if there are any records.
//   - Closures by hand have no row. Closures returns them with the others, as ones of a rule named schemas.ManualRule.
//   - Shadow modes: Rules stays what SetRules was given; the fold counts by copies of those rules that are in shadow (Effective).
//
// Of two records that say different things the newer one counts, by their order in the control topic; when it ends, the older one counts
// again. Records end by log time, before the entry that has that time is counted, and each at its own time: when other callers'
// entries come changes nothing. When a close is undone, by hand or by rules that allow its peak, escalation goes on
// as if it had not been: see policy.Derive and policy.Recount. For that a row keeps up to policy.MaxSteps closes in a row before its
// closure, beside the table; they are stored with the row, and part of the digest.
//
// A record that is delivered twice is known by its id until its time is over, and has no effect after that. There are bounds: MaxManual,
// MaxOfCaller and MaxModes.
//
// # Bounds
//
// A partition has at most Options.MaxRows rows. If there are more callers, some wait, and rows that may lack weight because of
// that are marked. Which callers have a row then depends not only on the log but also on restarts. The count of a row
// without a mark depends on the log alone.
//
// # Prediction
//
// From half of its limit on, or while it is closed, a row has a tracker, if closes of its rule are predicted and the lag is known. After
// each batch TakePlans predicts the next close of each row that was heard of. Trackers, plans and the lag are not stored and not part of
// the digest: nothing that is counted, and no closure, depends on them. What does count is the flag early of blocked entries, in the log
// as all else: see demand. A row's early weight depends on that row's entries alone. So where several rules count one caller, a request
// that one rule's early close blocked counts as made under all of them, until gates hear that the rule has closed by count. It is
// forgotten after two seconds, so that this adds little to a long window.
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
//   - Early entries: a server that forges them closes a caller by demand, as it does with forged admitted entries. Those last for a
//     window, early weight for two seconds at most. It takes 80 bytes for a row that has some, and makes its row dirty.
//   - Trackers: callers at half of their limits can fill the table of trackers. One who comes nearer to its limit takes the place of
//     another, if one of four draws finds one; one who gets none is counted and closed as without prediction.
//   - Canaries: a server that forges lags stops prediction, or makes an early close longer, up to two seconds and half a window.
//   - Bursts that stop when a close was predicted: see policy.Announced. Such a caller was closed for a moment, and is not predicted
//     for twice as long.
//   - Control records: only those who may write the control topic make them. Their callers are found in a Go map, which is seeded, so that
//     no ids collide by choice. What a caller of theirs costs is bounded by MaxOfCaller. A mode record costs a pass over all rows.
//   - Removed rows: those removed since the last checkpoint lie in Go maps, each key once, and only keys that the store holds.
//
// BenchmarkChosenInput and BenchmarkChosenInputOfSenders try table, waiting room and dedupe.
package fold
