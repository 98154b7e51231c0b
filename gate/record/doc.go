// Package record contains the Recorder, which turns a server's requests into entries.
//
//	Record ──▶ stripe (one of many, taken by one compare-and-swap) ──Drain──▶ kafkalink ──▶ Kafka
//	Respond      equal requests merge into one entry                            │
//	                                                       Acked, Dropped, Unknown
//
// Recording never waits, never allocates and takes no lock: if another goroutine uses a stripe, a request takes the next
// one. Memory is fixed when the Recorder is made. Requests that are equal in caller, resource, status and blocked merge into
// one entry per tick of 10 ms, so that a flood by one caller costs one entry. If there are more distinct entries than room,
// because Kafka is away or slow, the smallest ones are dropped, and counted by reason.
//
// At all times this equation holds for the requests that a Recorder was given, each counted once for each of its callers:
//
//	accepted = acked + dropped (by reason) + unknown + queued
//
// Unknown requests were sent and never confirmed: they may or may not be in the log.
//
// # Holds
//
// With Options.Holds, arrivals and responses also say what a server expects of their requests (Declared), and when these arrived, in
// ticks of 10 ms. An arrival says by it that its response will say so, too: requests of other arrivals hold nothing. An entry has the
// sums of its requests. So when all requests have ended, the sums of arrivals and of responses are equal. That is why a response
// needs At and Declared of its Request, and why each request that was recorded as admitted needs a response, also if its handler
// fails or its client goes away. Entries merge only if their requests arrived in the same second, and no entry with a declared cost
// merges with one that has none. Sums never overflow: what does not fit makes another entry.
//
// # Time
//
// If a request has no time, recording reads time.Now, which is nearly half of its cost. A coarse clock would be cheaper. But
// a goroutine must drive it, and it is wrong by as much as that goroutine is late. So a server that has read the clock
// anyway passes the time of the request.
//
// # Chosen input
//
// The cost of a request does not depend on what a client writes into it. The hash of an entry is made of the hash of the
// caller, under the Set's key, and of the resource, under the Recorder's own key; ticks and statuses are mixed in and spread
// as well. Package merge has the rest. Which stripe a request goes to depends on the goroutine, not on the request. If there
// are more distinct entries than room, the smallest ones are dropped, and the entry of a caller that floods is never the
// smallest. BenchmarkChosenInput measures it.
package record
