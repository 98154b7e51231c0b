// Package feed turns lines of foreign logs into source frames in floodgate.requests. Each line counts once, also if a
// process crashes in between.
//
//	topic partition ─┐            ┌─ framer ┐ frames, by the caller's partition   ┌─ sender 0 ─▶ requests[0]
//	topic partition ─┼─ Source ─▶ │ scan    ├────────────────────────────────────▶├─ sender 1 ─▶ requests[1]
//	file ────────────┘            └─ encode ┘ lines that could not be read        └─ sender 2 ─▶ floodgate.rejects
//	      ◀── Acked: everything before this position is in Kafka ───────────────────────┘
//
// Its nouns: a Source is a log that is read in order from some position on: a partition of a foreign topic, or a file. A
// batch is a piece of a source that was read at once. A framer scans the lines of a batch and encodes frames of them; there
// is one for each processor, and each batch takes a free one. A sender appends to one partition, in order, with one request
// in flight, and tries again without end. When Kafka is slow, the senders hold back everything else.
//
// # Once
//
// Each entry carries the offset of its line in its source, and all entries of one line for one partition share a frame.
// The analyzer skips entries at or below the last offset that it has seen of (source, partition). So feed only has to send
// every line at least once, in order. The position of a source moves behind a batch only when all frames of the batch are
// acknowledged. A process that starts again at an older position sends some lines again; they do not count again.
//
// # Bounds
//
// Config.MaxBytes bounds the bytes that wait for Kafka, over all senders. A source that finds no room waits, and so does its
// reader. A framer holds at most one frame for each partition.
//
// # Chosen input
//
// Clients choose what lines say. Compared with random lines of the same length, that costs:
//   - Frames: the strings of a frame lie in one of Go's maps, which are seeded. There are at most as many as entries.
//   - Senders: the installation's partition key decides which partition a caller belongs to. With the public key, a client
//     can choose ids that all go to one sender; it holds back the others once Config.MaxBytes wait for it.
//   - Rejects: of a line that is refused, such as one with quotes that the format does not escape, the first KiB is escaped
//     and encoded: at worst some 40 µs and 5 KiB. A line that counts costs less than 1 µs and 100 bytes.
//     The log shows the first of each reason, ingest.MaxSamples of them in a process.
//   - Sources, batches and framers are as many as files, partitions and processors.
package feed
