// Package kafkaiotest has a Kafka cluster in memory for tests: no I/O, no goroutines, time by timers alone, so that it works
// in a testing/synctest bubble. It passes the suite that the embedded broker and Apache Kafka pass (in package kafkaio).
//
//	test ──SetFault, Trim, Cut, Corrupt, Recreate──▶ Kafka ◀──Fetch, Produce, Range, Partitions── the code that is tested
//
// Its nouns: a Kafka is the cluster; a Call is a request that it got; a Fault is what goes wrong with one Call. There are two
// kinds of trouble. A Fault is about one request: it is late, is refused, is lost, or its answer is lost. The other kind is
// about the records of a partition: Trim (retention), Cut (a new leader without the newest records), Corrupt, Skip (records
// that cannot be read), Edit, Recreate and Delete. Faults happen until SetFault replaces the function that makes them; a
// change of a partition stays.
//
// It is for tests only. It keeps everything in memory and knows no consumer groups, transactions, replicas or codecs.
package kafkaiotest
