// Package filelog is the log of one host: topics and partitions in files, as a kafkaio.Log, for an owner that has no Kafka.
//
//	Produce ──batch──▶ partition ──write──▶ DIR/TOPIC-P/00000000000000000042.log ──read──▶ Fetch
//	                       │                      (segments of record batches)
//	                       └──Sync──▶ fsync of segments ──▶ DIR/recovery-points
//
// Its nouns: a Log has topics, and a topic has partitions. A partition is a list of segments, which are files of record batches in Kafka's own
// form (magic 2), named by the offset of their first record: kafka-dump-log reads them. Only the last segment grows. A recovery point is an
// offset of a partition: everything before it is on disk for sure.
//
// # Durability
//
// Produce writes to the operating system and returns. So records are readable at once, no fsync is in the lag, and kill -9 loses nothing. Only
// the first Produce of a partition after Open syncs what Open has cut off. Sync makes durable what was produced before it. Whoever notes elsewhere what the log has (a store's checkpoint, positions in files) calls Sync
// first. The order of a Sync is: the segments of a partition from the oldest to the newest, the directory of a new file, then the recovery
// points of all partitions, in one file that is replaced whole.
//
// # Opening
//
// Open reads each partition from its recovery point on; all of it, if there is none. What was produced and never synced may be there, or in part, or
// not at all, and in any order. The log ends before the first batch of that kind that is not whole. What follows is cut off, and said in the log:
// nobody has noted it. Segments behind are removed for the same reason.
//
// Damage before the recovery point is not cut off. Open and Fetch look for the next batch whose checksum is right and that another batch or
// the end of the file follows. Fetch returns a kafkaio.CorruptError for the offsets between, which names the file and the byte; a Cursor
// passes over them. If the end of a file is missing before the recovery point, the next record gets the offset of the recovery point all the
// same, so that no offset is used twice.
//
// # Bounds
//
// A batch has up to kafkaio.MaxMessage bytes of messages, or what the topic says. A segment is closed when the next batch would make it longer
// than Options.SegmentBytes. An open Log keeps 16 bytes of memory for each 32 KiB of the segments that were read or written since Open. Trim
// removes whole segments; nothing else removes records.
//
// # Why no library
//
// A record must be readable before it is durable, each byte must be checked when it is read, offsets must be Kafka's, and damage must not hide
// what is behind it. Of the write-ahead logs looked at (tidwall/wal, hashicorp/raft-wal, those of etcd and Prometheus, NATS, Badger, Pebble) none
// has all four. The codec, its checks and its limits are those of package kafkaio, and the suite that Kafka's logs pass is passed here too.
package filelog
