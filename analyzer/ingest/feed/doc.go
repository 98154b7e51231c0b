// Package feed turns lines of foreign logs into ingest frames in floodgate.requests, so that each line counts once
// whatever crashes in between.
//
//	topic partition ─┐            ┌─ press ─┐ frames, by the caller's partition   ┌─ lane 0 ─▶ requests[0]
//	topic partition ─┼─ Source ─▶ │ scan    ├────────────────────────────────────▶├─ lane 1 ─▶ requests[1]
//	file ────────────┘            └─ encode ┘ what can't be read                  └─ rejects ─▶ floodgate.rejects
//	      ◀── Acked: the position up to which all is in Kafka ──────────────────────────┘
//
// Its nouns: a Source is a log that is read from one place on, in order: a partition of a foreign topic or one file. A
// batch is what was read of it at a time. A press makes frames of a batch; there are as many as processors, and whoever
// has a batch takes one. A lane sends to one partition, in order and with one request in flight, for ever: it is what holds
// everything else back when Kafka is slow.
//
// # Once
//
// Each entry carries the offset of its line in its source, and all entries of one line for one partition share a frame.
// The analyzer skips what is at or below the last offset it has seen of (source, partition). So it is enough to send
// everything at least once and in order: a position is only moved behind a batch when all its frames are acknowledged, and
// whoever starts again at an older position sends lines again that then count nothing.
//
// # Bounds
//
// What waits for Kafka is bounded by Config.MaxBytes over all lanes; a source that finds no room waits, and with it its
// reader. A press holds at most one frame for each partition.
package feed
