// Package record holds the Recorder: what turns a server's requests into entries, off the hot path.
//
//	Record ──▶ stripe (one of many, taken by one compare-and-swap) ──Drain──▶ kafkalink ──▶ Kafka
//	Respond      equal requests merge into one entry                            │
//	                                                       Acked, Dropped, Unknown
//
// Recording never waits, never allocates and takes no lock: a stripe that somebody else is using is passed over for the
// next one. Memory is fixed when the Recorder is made. Requests that are equal in caller, resource, status and blocked
// merge into one entry per tick of 10 ms, so that a flood by one caller costs one entry. When there are more distinct
// entries than room, because Kafka is away or slow, the smallest ones are dropped, and counted by reason.
//
// Every request that was given to a Recorder, once for each of its callers, is accounted for at all times:
//
//	accepted = acked + dropped (by reason) + unknown + queued
//
// where unknown is what was sent and never confirmed: it may or may not be in the log.
//
// Where no time is given, recording reads time.Now, which is nearly half of its cost. A coarse clock would be cheaper,
// but it must be driven by a goroutine, and is wrong by as much as that goroutine is late; so it is for the caller to
// pass the request's time if it has read the clock anyway.
package record
