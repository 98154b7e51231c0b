// Package audit counts a partition's log once more and compares the result with its store, row by row.
//
//	requests[p] ──from the first record that it retains──▶ fold ──▶ rows ──┐
//	                                                                       ├─compare─▶ Report
//	store of p, read-only ─────────────────────────────────────────────────┘
//
// It counts with package fold, as the owner of the partition does, and reads what applied between two records from the control topic,
// as an owner does (package control).
package audit
