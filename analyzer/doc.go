// Package analyzer counts request logs in windows and publishes which callers are closed.
//
//	requests[p] ──fetch──▶ intake ──▶ fold ──changes──▶ publisher ──▶ decisions[p] ──▶ every gate
//	                                   │
//	                                   └─changed rows + next offset──▶ committer ──▶ store (one transaction)
//
// Package fold does the counting: it applies entries to windows in log order, without I/O and without a clock, so that
// counts are a function of the log's prefix and the rules. Package replay uses the same fold over access logs.
//
// An Owner owns one partition: requests[p], its store, decisions[p] and state[p]. It may publish decisions before the checkpoint that
// contains them, because the fold is deterministic: after a restart the owner makes the same decisions from the same entries. Decisions are
// absolute, so a repeat changes nothing. So no fsync is part of the closing lag.
//
// The parts of an Owner, each in a file of its name:
//   - ledger: the fold, the store, and how far into the log both reach; checkpoints.go commits it by way of a committer.
//   - recovery: decides whether to start from the store, a snapshot or the log alone, and folds the records from there to
//     the end that the log has at that time.
//   - intake: passes batches from the fetcher to the ledger, and changes from the ledger to the publisher.
//   - controls: applies what the control topic says (package control reads it), between two records of requests[p], and
//     appends the takes and places of this owner. ruleNotes knows where the texts of rules are in that topic.
//   - snapshotter: writes the ledger to state[p], in cycles. Package snapshot has the records.
//   - claimer: takes the partition over; decisionsReader reads what gates believe.
//   - publisher: writes decisions[p], in batches. Package outbox decides what is sent when, and what is repeated in cycles; decisionQueue
//     is its queue with a lock. Between its own records the publisher looks for those of other owners.
//   - eventWriter: writes events[p], which says what has happened. Package eventlog says why no event is missing.
//   - rejectWriter: shows people the records that could not be counted.
//   - questions: answers the API's questions between two records.
//
// An owner writes all rows to state[p] in cycles: a begin with the dedupe table as of an offset, each row as of a later
// one, and an end. Heartbeats say where the last complete cycle began. An owner starts from its store if the store is good,
// else from such a snapshot, else from the log alone. All three ways lead to the same rows:
//
//	log      ──0────────B──n1─────n2──────▶ next
//	snapshot            │  └row 1  └row 2    the log is folded from B; at n1, row 1 gets the snapshot's value
//
// Only the control topic says what applies between two records of requests[p]: control records, and changes of rules. When an owner has
// claimed the partition, it appends a take. If something must apply, it appends a place at its next offset, reads the place back, and
// applies what the place names. From append to apply it folds nothing. That takes some milliseconds, and happens only when the owner
// starts, or when a person or a file has changed something. If the answer to the append was lost, nobody knows whether the place is in the
// topic. Then the owner appends it again, until it gets an answer.
//
//	control ──batch──▶ Order: something waits ──place──▶ control ──batch──▶ Order: due ──▶ fold ──changes, heartbeat──▶ decisions[p]
//
// The owner does not wait for a checkpoint, because its successor reads the place from the topic. All control records that wait share a
// place. Records about other partitions only move the offset. An owner without a lease appends nothing. An owner also appends a place when
// it starts, so that the rules of each record are known. If the partition has no place yet, it does so before it folds the first record. A
// new file of rules counts from that place on; records that waited in the log are counted by the old rules.
//
// While the control topic is away, an owner goes on counting, and nothing new applies. An owner that starts waits for the topic. It waits
// only two seconds if its store was counted by its own rules, and nobody else has claimed the partition since. If it later finds that it
// has missed a place, it stops, and the next owner does not use the store. If the topic was made anew, or has lost its end, what is in
// force stays in force: the owner appends a take to the new topic, and then a place. Then nothing but the owners' counts has what people
// decided before. So an analyzer that gets back a partition whose store it still has, and that another one owned meanwhile, starts from
// that owner's snapshot.
//
// An Analyzer runs the owners of the partitions that its consumer group assigns to it. An Analyzer without a partition
// stands by, and is ready. Packages audit and repartition read the same topics, but use no Owner.
//
// The file .github/ARCHITECTURE.md says how each request counts once (section 6). In detail:
//   - An owner opens its store before it claims the partition. The claim's epoch must be above that of the store, which only an open store
//     can tell. Before the claim an owner must not publish, nor read back what others published. To open the store touches only the owner's
//     own directory, which is locked.
//   - No reader believes an epoch that schemas.CheckEpoch refuses, so that an owner can always take a higher one. The records of an owner
//     carry a time at which gates believe its epoch. That time is later than now only if somebody has claimed the highest epoch that gates
//     believe.
//   - The fetcher compares the last record that it has read with the log whenever the log may have changed (kafkaio.Cursor). An owner that
//     is told that another record is there ends with errOtherLog. The events that a heartbeat names as written are those of the other log,
//     so the next owner does not believe that.
//   - Restoring ends at the offset that was the log's end when restoring began. Later records are folded in the running state, and their
//     decisions are published at once.
//   - The lease belongs to the analyzer and not to a partition: heartbeats and offset commits of all partitions together renew it.
//     Heartbeats also renew it while the group rebalances. The coordinator's answer proves that there is no newer generation, in which
//     another analyzer could have the partitions (kafkaio.Group.OnProof). An owner keeps its epoch through a rebalance. An owner that is
//     started after a failure takes a new one.
//   - Partitions are not added to a running Analyzer. When the topic of requests gets more partitions, the daemon stops its Analyzer and
//     makes another.
//
// # Chosen input
//
// Clients choose ids and resources; servers with producer rights choose producers, sequence numbers and times. This is what
// input costs that an attacker has chosen with the source at hand, compared with random input of the same size:
//   - counting: see package fold.
//   - publisher: pending decisions and those in force take one place for each rule and caller, see package outbox. Cycles
//     repeat the decisions in force, a thousand at a time; changes are sent first.
//   - rejects: at most 256 wait; further ones are counted and dropped before they are escaped.
//   - snapshots: rows are written in the order of the table, once a cycle. The key of a row does not decide its place.
//
// Packages fold, ingest, feed, tail, replay, rules and store have lists of their own.
package analyzer
