// Package solo is membership without a consumer group: each member has all partitions, because its process is the only one. The caller
// sees to that, with a lock on the directory of its data: floodgate serve is such a process.
//
//	Member ──Next──▶ kafkaio.Generation{all partitions} ──Commit──▶ Offsets ──▶ file
//
// A Member takes the place of a kafkaio.Group. Offsets is what the coordinators of Kafka keep: what the members of each group have
// committed.
package solo
