// Package kafkaio is Kafka as both sides of floodgate use it: fetch with every byte checked and every size capped, produce
// with a known outcome, topics, and group membership. It retries a call only where a second one does no harm.
//
//	Fetch ──▶ record batches ──crc, pieces──▶ Batch{Records, Next, Skipped}
//	Produce(msgs) ──▶ one record batch, acks=all ──▶ base offset, or an error with its Outcome
//	Group ──▶ Generation{Partitions, Done, Commit}
//
//	Cursor{topic, partition, offset} ──Next, Scan, Run──▶ Batch, Batch, …    on any Fetcher, for as long as it takes
//	Appender{topic, partition} ──Append(msgs)──▶ offset                      on any Producer, for as long as it takes
//
// Its nouns: a Client speaks to one cluster; a Batch is what one Fetch returned, with the offset to go on from; a Skip is
// a stretch of offsets that was passed over, and why; an Outcome is what is known of a produce that failed; a Finding is a
// topic setting that is not as it must be; a Generation is a lease on partitions. A Cursor reads one partition from an
// offset on; an Appender writes to one partition; a Backoff makes the pauses between attempts.
//
// # Cursor and Appender
//
// A Client makes one call and returns what is known of it. A Cursor and an Appender repeat the call until it succeeds: they
// pause with a Backoff, log the first failure and each tenth, and stop when their context ends. One set of rules holds for
// all readers:
//
//   - Records that the partition no longer holds are skipped, and are in Batch.Skipped as SkipLost.
//   - A corrupt batch is fetched CursorConfig.CorruptTries times, then skipped as SkipCorrupt: MaxCorrupt offsets at most, and
//     none beyond the end of the partition.
//   - A partition that ends before the offset to read, or has another record in the place of the last one that was read, is
//     ErrTruncated: it is another log than before. A Cursor fetches that record again when another leader has appended the next
//     one (batches name the leader's epoch), after a failure, and after a pause (type witness says why that is enough).
//   - CursorConfig.Retry says after which other errors a Cursor tries again: Temporary, Always, Never, or a function of the
//     caller.
//
// An Appender has one request in flight, so that its messages are in order. It sends nothing while AppenderConfig.Lease
// returns false. After a lost answer it sends the same batch again: the log may then hold a copy, which readers must
// recognize.
//
// A Cursor works on a Fetcher, an Appender on a Producer. Package kafkaiotest has a cluster in memory that implements both,
// with faults.
//
// # Why not kafka-go's Reader, Writer, or Client.Fetch
//
// kafka-go's connection pool, routing, TLS and SASL carry the requests. This package encodes and decodes them itself,
// through kafka-go's extension point RawExchanger, for reasons that were measured or read in its source (v0.4.51). Reader
// checks no CRC. Reader and Client.Fetch unpack without a cap, so that 1 MB of a hostile batch becomes 12 GB, and they size
// an allocation by the batch's record count, so that a negative count panics in a goroutine of its own, where the program
// cannot recover; the only hook is a mutable global table of codecs. And none of its calls distinguishes a request that was
// never written from one whose answer was lost. In this package, a request that was not written in full counts as unsent,
// because a broker acts on whole requests only. A connection that is stale after a broker's restart is found before
// anything is written to it. And when a canceled call returns, no goroutine reads its buffers any more.
//
// kafka-go still decodes the small answers: versions, metadata, groups, topics, SASL. Its decoder allocates an array by the
// length in the answer, before it reads the first element: one flipped bit asks for terabytes, and the process ends. So each
// connection checks the lengths in such an answer before kafka-go sees its first byte (answerConn).
//
// # Connections
//
// kafka-go's pool opens a connection for each request that is in flight, and its Client.Fetch asks for one partition: readers of
// 64 partitions would have 64 connections that wait for records. So calls that go to one broker share requests (lane). At most
// two requests for records are in flight: nearly always one that waits, with all partitions that are read to their ends, and
// another one for readers that come while it waits. Both end soon after and become one. There is one request of another kind:
// the calls of Produce that came during the one before, the question for a range, or a fetch that must be alone. Each has a slot,
// which holds its connection for five seconds after a request. With the connection that finds the leaders, a Client has up to
// four connections to a broker; a Group has its own.
//
//	Fetch(0) ──╮                                 ╭──▶ set of 0 ──checks──▶ Batch
//	Fetch(1) ──┼──▶ one request ──▶ one answer ──┼──▶ error of 1
//	Fetch(2) ──╯                                 ╰──▶ nothing: 2 goes on to the next request
//
// Nothing else of a call is shared. Each has its own error, its own context, and its own checks, which it makes itself. A call
// that gives up leaves the request to the others. If an answer leaves doubts, or holds no whole batch, the call goes on alone.
// A request asks for as many bytes as the largest of its calls, so that memory is bounded whatever the number of partitions;
// those for which an answer had no room come first in the next one. An answer that has a partition twice, or that was not asked
// for, is wrong altogether. A request with record sets of several partitions is acknowledged or refused for each of them.
//
// # Sizes
//
// Memory is bounded whatever a topic contains. A batch over 64 MiB is not read: Fetch reads its header, twice, and passes
// over exactly its offsets. A shorter batch is read whole, checked, and unpacked in pieces: a piece has a quarter of
// Config.MaxDecompressed. A record that is longer than a piece is skipped alone. No batch is unpacked beyond 256 MiB and 64
// times its length. The records before the first that cannot be read are good; those from there on are one Skip. So the
// records of a batch that a reader gets do not depend on where it starts or on the sizes of pieces. A batch that is read in
// pieces stays in the Client until its end, so that no piece is fetched or unpacked twice; the Client keeps up to 256 MiB
// of such batches. A reader that starts in the middle of a batch unpacks the part before its offset once. Snappy in one
// block may copy from anywhere in it: 64 MiB of that are kept, and a copy from further back makes the rest of the batch a
// Skip.
//
// # Why not kafka-go's ConsumerGroup
//
// It sends no heartbeats while it joins. So a member has no proof that its partitions are still its own while the group
// waits for another member. It reports a rebalance during a join as an error. After other answers that are normal for a
// group it leaves the group, and then all members have to join once more. Group sends the same requests in the same order,
// over kafka-go's connections. It can also leave the group in the name of a process that was killed
// (GroupConfig.MemberFile).
//
// # Topics
//
// No topic of floodgate is compacted or transactional. Control records, transactional batches and the gaps they leave are
// skipped and reported, so that no offset is lost unnoticed.
package kafkaio
