// Package replay runs rules over access logs and says which callers they would have closed. It needs no Kafka and blocks nobody.
// It counts with the same fold.Fold as the live analyzer.
//
//	input ─▶ source: blocks of whole lines ─▶ workers: Line ─┐
//	input ─▶ source ─────────────────────────▶ workers ──────┤ merge by time ─▶ sorter ─▶ loop ─▶ Fold ─▶ Close, Summary
//	                                                         ┘                              ▲─closures─┘
//
// Its nouns: an Input is a log, plain or gzip. The sorter puts lines in the order of their time, within a bounded span
// of log time and bounded memory. Where the mapping names a duration, that is the time of the arrival: a line of a request that lasted longer
// than the span is late. Responses of requests in flight wait in the loop, in bounded memory. The loop gives decisions back to the input:
// while a caller is closed, its requests count as blocked, because a gate would have blocked them. With a lag, a Circuit does that: a server with gates, the log and an
// analyzer, in virtual time. This package does not know gates, so its user gives it a Circuit. A Close is one step of a caller
// from open to closed; a Summary is all that was counted.
//
// The result is a function of the inputs and the configuration: it does not depend on how many workers there are, on
// how reads are cut, or on whether an input is compressed. Memory does not grow with the length of the inputs, only with
// how many callers are counted at a time, and that is capped by the Fold.
//
// # Chosen input
//
// Clients choose ids and paths in a log. By the duration of their requests they also influence a little in which order
// times appear. Compared with a log of the same size with random ids, that costs:
//   - distinct: nothing. Each run draws a seed for the hash of callers, and both the set and the estimate for more than two
//     million callers use that hash.
//   - sorter: lines in any order cost the sort of a bucket, n·log n at worst. At the cap, a bucket that was emptied is not
//     searched again. A bucket with one line takes a chunk of 16 KiB; MaxBuffer bounds the number of chunks.
//   - closures: Go maps, which are seeded. A closure that has ended is removed when its caller is looked up, or by a sweep when the
//     map has doubled.
//   - merge: a heap of one line for each input.
//   - responses of requests in flight: a heap, log n for each. At the cap the one that ends first is counted early.
//
// BenchmarkChosenInput measures this.
package replay
