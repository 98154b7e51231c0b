// Package filelog is the log of one host: topics and partitions in files, as a kafkaio.Log, for an owner that has no Kafka.
//
//	Produce ──batch──▶ partition ──write──▶ DIR/TOPIC-P/00000000000000000042.log ──read──▶ Fetch
//	                       │                      (segments of record batches)
//	                       └──Sync──▶ fsync of segments ──▶ DIR/recovery-points
//
// Its nouns: a Log has topics, and a topic has partitions. A partition is a list of segments, which are files of record batches in Kafka's own
// form (magic 2), named by the offset of their first record: kafka-dump-log reads them. Only the last segment grows. The recovery point of a
// partition is where it ended at the last Sync: everything before it is on disk for sure.
//
// # Durability
//
// Produce writes to the operating system and returns. So records are readable at once, no fsync is in the lag, and kill -9 loses nothing. Sync
// makes durable what was produced before it. Whoever notes elsewhere what the log has (a store's checkpoint, positions in files) calls Sync
// first. The order of a Sync is: the segments of a partition from the oldest to the newest, the directory of a new file, then the recovery
// points of all partitions, in one file that is replaced whole.
//
// A process that was killed may have left names, truncations and removals in memory that are not on disk. So nothing that a Log finds when it is
// opened counts as synced, unless a recovery point says so. What is behind a recovery point is written again, in case a sync of it has failed, and
// the first Produce waits for an fsync, so that nothing that was cut off comes back behind it.
//
// After a failed fsync (ErrBroken) the partition takes no more messages, and no Sync succeeds, until the log is opened again. A write that fails
// appends nothing, and may be tried again: a full disk mends itself.
//
// # Opening
//
// Open reads what is behind the recovery points, and nothing else: Fetch checks the rest. What was produced and never synced may be there, or in
// part, or not at all, and in any order. The log ends before the first batch of that kind that is not whole. What follows is cut off, and
// segments behind it are removed, and it is said in the log: nobody has noted them. A file of recovery points that is damaged or of another
// version is an error. Without the file all segments are read, and are treated as never synced.
//
// Damage before the recovery point, a bad sector too, is not cut off. Fetch looks for the next batch that can be trusted, and returns a
// kafkaio.CorruptError for the offsets between, which names the file and the byte; a Cursor passes over them. If the end of a log or its
// beginning is missing, the next record gets the offset of the recovery point all the same, so that no offset is used twice.
//
// # Bounds
//
// A batch has up to kafkaio.MaxMessage bytes of messages, or what the topic says. A segment is closed when the next batch would make it longer
// than Options.SegmentBytes. An open Log keeps some 300 bytes of memory for each segment, and up to 16 bytes for each 32 KiB that were read or
// written since Open; a Fetch needs 64 KiB and the bytes that it returns. The files that are not synced, that grow, or that are read are
// open. Trim removes whole segments; nothing else removes records that were synced.
//
// # Why no library
//
// A record must be readable before it is durable, each byte must be checked when it is read, offsets must be Kafka's, and damage must not hide
// what is behind it. Of the write-ahead logs looked at (tidwall/wal, hashicorp/raft-wal, those of etcd and Prometheus, NATS, Badger, Pebble) none
// has all four. The codec, its checks and its limits are those of package kafkaio, and the suite that Kafka's logs pass is passed here too.
package filelog
