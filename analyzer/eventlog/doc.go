// Package eventlog makes events of what a fold changed, and keeps those that the topic of events has not acknowledged.
//
//	fold.Change, control record, rules ── Describe… ──▶ Event ──▶ Queue ── Batch, Ack ──▶ writer ──▶ events[p]
//	                                                               │
//	                                                               └── TakeDirty, Restore ──▶ rows of the store
//
// It does no I/O. Package analyzer has the owner, who fills a Queue, and the writer, who empties it.
//
// # None is missing
//
// An owner folds, commits and publishes without waiting for its events to be written. Nevertheless these statements always hold:
//   - The store: each event of an offset before its checkpoint is in the topic or is a row of the store. Events that are not acknowledged
//     are committed with the checkpoint that contains them, and deleted by a later one.
//   - Heartbeats: all events before the offset in their field Events are in the topic. That is the offset of the oldest event that is not
//     acknowledged, or else the offset up to which all was folded. Once true, it stays true, whichever owner has sent it.
//
// An owner that starts folds the end of the log again. It queues the events at or after Events of the newest heartbeat. It may start from
//   - its own store, newer than Events: the other events are rows of the store, or were acknowledged;
//   - its own store, older than Events, as when another owner had the partition meanwhile: the events between the two are in the topic, and
//     so are the older ones that the store still has. Those offsets are folded, but their events are not queued;
//   - a snapshot: the fold is not complete until the last row is in place, so no event is queued before. A snapshot is announced only when
//     all events before its end are acknowledged. So only events after its end can be missing;
//   - the log alone: as from a store that is empty;
//   - memory-only, because the disk is full: the store gets old while the topic goes on. This is the case of an older store.
//
// In all other cases the queue has a gap event for the offsets in question. These cases are: no topic of events was configured before; a
// snapshot was announced although the topic took no events for a while; the log no longer has the records that must be folded again.
//
// A change at a place between two messages (new rules, a decision of a person) is applied only when the owner has read the place back from
// the control topic, and its event is written after that. So the next owner applies the change at the same place.
//
// Two other designs were not chosen. A mark in the topic of events is not needed: a heartbeat with the mark comes each second, and an owner
// reads it with its claim. A checkpoint that waits for acknowledgements would hold up control records whenever the topic of events is away.
//
// # Bounds
//
// A Queue holds at most MaxPending events and maxPendingBytes. Events beyond that become one gap at their place. Two kinds of events could
// come with each message, and are thinned out by rules that depend on the log alone. An end that moves is an event when it passes another
// eighth of the window since the caller was closed. Of equal warnings within an eighth of the window, only one is an event.
package eventlog
