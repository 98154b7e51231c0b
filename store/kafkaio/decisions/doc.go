// Package decisions reads one partition of the decisions topic by the rules of schemas/DECISIONS.md: where a reader starts,
// which records it believes, and when it has to start again.
//
//	Log ──Find──▶ Place ──Start──▶ Follower ──Take──▶ claims, heartbeats and decisions that count
//
// Gates and the owners of partitions share it, so that an owner that starts knows exactly what gates believe. A Log does
// the I/O, and decides how long it tries again after errors. Time is an argument.
package decisions
