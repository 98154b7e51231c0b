// Package eventlog says which events follow from what a fold changed, and keeps those that the topic of events has not acknowledged.
//
//	fold.Change, control record, rules ── Describe… ──▶ Event ──▶ Queue ── Batch, Ack ──▶ writer ──▶ events[p]
//	                                                               │
//	                                                               └── TakeDirty, Restore ──▶ rows of the store
//
// It does no I/O. Package analyzer has the owner, who fills a Queue, and the writer, who empties it.
//
// # None is missing
//
// An owner folds, commits and publishes without waiting for its events to be written. These rules hold nevertheless:
//   - What the store says: of all offsets before its checkpoint, each event is in the topic or is a row of the store. Events that are
//     not acknowledged are committed with the checkpoint that contains them, and deleted by a later one.
//   - What heartbeats say: all events before their offset Events are in the topic. That is the offset of the oldest event that is not
//     acknowledged, or else all that was folded. It is true for ever, whoever says it.
//
// An owner that starts folds again, and queues what lies at or behind the newest heartbeat's Events. It may start from
//   - its own store, newer than Events: the rest is among the store's rows, or was acknowledged;
//   - its own store, older than Events, as after a hand-over and back: what lies between is in the topic, and so is what the store still
//     has of before. It is folded and not queued;
//   - a snapshot: rows are not whole until the last one is in place, so nothing is queued before. A snapshot is announced only when all
//     events before its end are acknowledged. So what lies behind its end is all that may be missing;
//   - the log alone: as from a store that is empty;
//   - memory-only, where the disk is full: the store is old and stays so, the topic goes on. That is an older store.
//
// If none of this holds, the queue has a gap event for the offsets in question. So it is when events were not written before, when the
// topic did not take any while a snapshot was announced all the same, and when the log no longer has what is to be folded again.
//
// What happens at a place between two messages (rules change, people decide) is applied, and so written, after the place was read back
// from the control topic. Whoever comes next applies it there, too.
//
// Why not a mark in the topic of events, or a store that waits for acknowledgements? A mark in a heartbeat comes each second, and an
// owner reads it with its claim. And a checkpoint that waits would hold up control records whenever the topic of events does.
//
// # Bounds
//
// A Queue has MaxPending events and maxPendingBytes at most. What is beyond becomes one gap, at its place. Two kinds of events may come
// with each message, and are thinned by rules that depend on the log alone: an end that moves is an event when it passes another eighth
// of the window since the caller was closed; of equal warnings within an eighth of the window there is one.
package eventlog
