// Package embedded is a Kafka broker inside the process, for the demo and for tests: kfake of the franz-go project behind a
// small door. It speaks the Kafka protocol over real TCP, to kafka-go and to anything else.
//
//	Start ──▶ Broker ──Addr──▶ store/kafkaio, kcat, …
//	            │
//	            └─ Dir: record batches and topics on disk, as they were written
//
// With Dir set, what was acknowledged survives kill -9 of the process (the operating system has it), and with SyncWrites
// also the loss of power. Without Dir everything is in memory.
//
// It is not Apache Kafka. It takes protocol versions that Kafka 4 refuses, does not enforce message.timestamp.*, waits for
// no initial rebalance and compacts in its own way: a test that passes here has not passed there.
package embedded
