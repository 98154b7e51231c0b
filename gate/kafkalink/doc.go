// Package kafkalink connects a gate.Set and a record.Recorder to Kafka, so that the server's requests are counted
// and its gates close.
//
//	Recorder ─Drain─▶ flush ─▶ queue of p ─▶ sender of p ─frames─▶ requests[p]
//	                                                                  │ analyzer
//	Set ◀─Apply, Heartbeat─ reader of p ◀────────decisions[p] ◀───────┘
//
// A Link never delays a request: requests use the Recorder and the Set only, and these need no Kafka. When Kafka is away or
// slow, the Link tries again with growing pauses. Entries that find no room meanwhile are dropped and counted; callers that
// were seen once are dropped first. Closures stay in force until they end.
//
// # Sending
//
// Each partition has at most one frame in flight, and frames to one broker share a request. Meanwhile entries merge in the
// partition's queue, so frames grow with the load and with the delay. If the outcome of a produce is unknown, the same frame is
// sent again with the same sequence number, and the analyzer drops the copy. A frame that Kafka will never accept is dropped and
// counted.
//
// # The end
//
// A server ends in the order of the data: it answers its last request, then it closes the Link, which sends what is left. So
// "defer link.Close()" stands behind Open, in the function that returns when the server has shut down. Requests that are recorded
// later are not sent, and the log warns of them.
//
// # Reading
//
// A reader reads one partition of decisions, by the rules of schemas/DECISIONS.md. Readers share requests: a Link has at most four
// connections to a broker, whatever the number of partitions. A reader searches for the newest heartbeat from the end of the log and
// starts where the last complete cycle of repeats began. It applies nothing that schemas.Fence
// refuses: an owner that was replaced while it was paused changes nothing when it goes on. Follow does the same without a Set
// and a Recorder, for programs that look on. A program that has a Link and looks on as well sets Config.Watch.
//
// # Other servers
//
// Forward appends frames of servers without access to Kafka. Such a server has a Link as well, over a Source: see package feedlink.
//
// # Lag
//
// Once a second the Link records one request of a made-up caller, whose kind is schemas.KindCanary. The analyzer answers with
// a decision that closes nothing. The time from the request to the answer is the lag, end to end.
//
// # Chosen input
//
// Entries that wait for a partition are merged in a table of package merge, by the Recorder's keyed hash. The installation's
// key decides which partition a caller belongs to: if that is the public key, a client can aim at one partition, and fill that
// partition's queue. Ids of canaries are searched for once, when a session begins. Reasons of refusals are a fixed set of
// words. The Link believes the decisions topic: Kafka's access control decides which processes may write to it.
package kafkalink
