// Package kafkaio is Kafka as both sides of floodgate use it: fetch with every byte checked and every size capped, produce
// with a known outcome, topics, and group membership. It keeps no buffers of its own and retries only what is safe.
//
//	Fetch ──▶ record batches ──crc, cap──▶ Batch{Records, Next, Skipped}
//	Produce(msgs) ──▶ one record batch, acks=all ──▶ base offset, or an error with its Outcome
//	Group ──▶ Generation{Partitions, Done, Commit}
//
// Its nouns: a Client speaks to one cluster; a Batch is what one Fetch returned, with the offset to go on from; a Skip is
// a stretch of offsets that was passed over, and why; an Outcome is what is known of a produce that failed; a Finding is a
// topic setting that is not as it must be; a Generation is a lease on partitions.
//
// # Why not kafka-go's Reader, Writer, or Client.Fetch
//
// kafka-go's connection pool, routing, TLS and SASL carry the requests. What is in them is ours, through its RawExchanger
// extension point, for reasons that were measured or read in its source (v0.4.51): Reader checks no CRC. Reader and
// Client.Fetch unpack without a cap, so that 1 MB of a hostile batch becomes 12 GB, and they size an allocation by the
// batch's record count, so that a negative one panics in a goroutine that nobody can recover; the only hook is a mutable
// global table of codecs. And no call of it tells a request that was never written from one whose answer was lost.
// Here a request that was not written in full is known to be unsent, because a broker acts on whole requests only; the one
// stale connection after a broker's restart is found before it is written to; and a canceled call is over when it returns:
// no goroutine still reads its buffers.
//
// # Topics
//
// No topic of floodgate is compacted or transactional. Control records, transactional batches and the gaps they leave are
// skipped and reported, so that an offset is never lost without saying so.
package kafkaio
