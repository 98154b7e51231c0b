// Package merge holds Table: bounded memory in which equal entries become one. The recorder merges requests in it on
// the hot path, and the Kafka link merges what waits for a slow partition.
//
//	index (open addressing) ──▶ entries (dense, in order of arrival) ──▶ arena (kind, id and resource, end to end)
//
// Nothing in a Table points anywhere, so the garbage collector has nothing to scan, and nothing is allocated after New.
package merge
