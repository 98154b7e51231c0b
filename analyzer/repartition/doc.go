// Package repartition copies a topic of requests to a topic with another number of partitions. It drops duplicates, and
// writes each entry to its caller's partition there.
//
//	requests[0..3] ──fold without rules──▶ entries, by caller ──▶ requests2[0..7]
//
// Canaries, tallies and levels are not copied: nobody waits for their answers any more, and the owners of the new topic send tallies and
// levels of their own.
//
// Each partition that is read is a source of the new topic, in the sense of schemas/FRAME.md: an entry's offset is its place
// in the old log, so that the fold of the new topic passes over what was sent before. A Repartitioner keeps no state: if it
// is started again, it sends everything again that the log retains. That must be within 400 days of its last frame, because
// the fold then forgets the source and would count the entries twice.
package repartition
