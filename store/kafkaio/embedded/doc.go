// Package embedded is a Kafka broker inside the process, for the demo and for tests: kfake of the franz-go project with a
// small interface. It speaks the Kafka protocol over real TCP, with kafka-go and any other client.
//
//	Start ──▶ Broker ──Addr──▶ store/kafkaio, kcat, …
//	            │
//	            └─ Dir: record batches and topics on disk, as they were written
//
// With Dir set, what was acknowledged survives kill -9 of the process (the operating system has it), and with SyncWrites
// also the loss of power. Without Dir everything is in memory.
//
// A topic with message.timestamp.after.max.ms refuses messages that are further ahead of the broker's clock, as it does on
// Apache Kafka. In a topic with message.timestamp.type=LogAppendTime all messages bear the broker's time. Either topic refuses
// compressed batches here, because the broker cannot see the times in them.
//
// A topic takes DeletionTime to be deleted: until then a request that makes one of the same name waits.
//
// It is not Apache Kafka. It takes protocol versions that Kafka 4 refuses, does not enforce the other message.timestamp.*
// settings, waits for no initial rebalance and compacts in its own way. A test that passes here may fail with Apache Kafka.
package embedded
