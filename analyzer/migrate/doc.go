// Package migrate brings the counts of one installation to fresh topics of another Kafka: of a host that has outgrown its local log.
//
//	Data/0 … (stores) ──rows, senders──▶ Dir/0 … (stores of the target) ──an owner each──▶ state[p], decisions[p], events[p], control
//
// No log is copied. Each partition goes to the partition of the same number, so the target needs as many, and the same partition key. What
// Run does, in order:
//
//  1. It refuses topics that hold something, before it writes anything.
//  2. An owner of each partition of the source counts up to the end of its log, and applies what people have decided. Then it stops.
//  3. A note in Dir keeps the id of the migration, and how far the source has counted.
//  4. The control topic gets the text of the rules, and each partition of requests a frame without entries (schemas.Migrated). Both have the
//     id of the migration. The counts are as of the offset behind that frame, and the frame is the last record that they count. So they are
//     bound to these topics: an owner does not use them with others.
//  5. The control topic gets copies of the control records that the source remembers, with their ids, in their order.
//  6. Dir gets a store for each partition, with the rows of the source. Only the rows of control records change: their offsets are those
//     of the copies, so that what people decide later is newer. The rows of pools stay behind: the owners of the target make their own.
//  7. An owner of the target starts from that store. It does what each owner does: it claims the partition under a higher epoch, writes a
//     place, publishes all closures in force, and writes a snapshot. When a heartbeat has announced the snapshot, it stops. Run reads the
//     snapshot, and compares it with the rows of the source.
//
// So an owner of the target has written all snapshots and decisions in the target. The next owner of a partition starts as it would after any
// other owner: from the snapshot, or on this host from Dir, which is the data directory of an analyzer.
//
// # Again
//
// Run can be interrupted between any two steps, and be called again. It knows its own topics by the id in the note. It never makes a store
// of the target twice. If the source has counted on meanwhile, Run refuses: then the topics and Dir must be made anew. After its end Run
// does nothing more.
//
// # Lines
//
// The rows of senders say which frames and lines were counted. So a source of lines that goes on from its old positions, or from older ones,
// counts no line twice: tail.CopyPositions takes the positions along.
//
// # Events
//
// Events that the source has not written are written to the topic of the target. Ids of events contain an offset of requests, and the
// target counts offsets anew. They also contain times to the nanosecond, so that no event of the target has the id of one of the source.
// The target writes no events about what people decided before, with one exception: partition 0 writes the event of an undo again, because it
// does not know the control records of other partitions. That event has the same id as before.
package migrate
