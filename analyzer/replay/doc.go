// Package replay runs rules over access logs: what would have closed, without Kafka and without blocking anybody. It
// counts with the same analyzer.Fold as the live analyzer.
//
//	input ─▶ source: blocks of whole lines ─▶ workers: Line ─┐
//	input ─▶ source ─────────────────────────▶ workers ──────┤ merge by time ─▶ sorter ─▶ loop ─▶ Fold ─▶ Close, Summary
//	                                                         ┘                              ▲─closures─┘
//
// Its nouns: an Input is a log, plain or gzip. The sorter puts lines in the order of their time, within a bounded span
// of log time and bounded memory. The loop is closed: while a caller is closed its requests count as blocked, as they
// would have been by a gate. A Close is one step of a caller from open to closed; a Summary is all that was counted.
//
// The result is a function of the inputs and the configuration: it does not depend on how many workers there are, on
// how reads are cut, or on whether an input is compressed. Memory does not grow with the length of the inputs, only with
// how many callers are counted at a time, and that is capped by the Fold.
package replay
