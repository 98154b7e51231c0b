// Package merge contains Table: bounded memory in which equal entries become one. The recorder merges requests in it on the
// hot path, and the Kafka link merges the entries that wait for a slow partition.
//
//	index (open addressing) ──▶ entries (dense, in order of arrival) ──▶ arena (kind, id and resource, end to end)
//
// The memory of a Table contains no pointers, so the garbage collector does not scan it. Nothing is allocated after New.
//
// # Chosen input
//
// In a Table, chosen entries cost as much as random ones if the hashes that it gets are keyed:
//   - Index: it is at most half full, so that random hashes take one or two steps. Entries of one table go to another in
//     order of arrival, not of hash.
//   - Equal entries whose sums are too large to be added up get different hashes (place).
//   - Replace looks at eight entries, whatever is in them.
//   - Keys fill the arena; if they are long it has room for fewer entries, and Replace is used earlier.
//
// BenchmarkChosenInput measures it.
package merge
