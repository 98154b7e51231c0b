// Package kafkalink connects a gate.Set and a record.Recorder to Kafka, so that a server counts and is told.
//
//	Recorder ─Drain─▶ flush ─▶ queue of p ─▶ sender of p ─frames─▶ requests[p]
//	                                                                  │ analyzer
//	Set ◀─Apply, Heartbeat─ follower of p ◀──────decisions[p] ◀───────┘
//
// A Link never holds the server up: requests only ever touch the Recorder and the Set, which need no Kafka. When Kafka is
// away or slow the Link tries again, with growing pauses; what has no room meanwhile is dropped and counted, the callers
// seen once first. Closures stay in force until they end.
//
// # Sending
//
// There is one frame in flight per partition. While it is, entries merge in the partition's queue, so frames grow with
// the load and the delay by themselves. A frame whose produce failed with an unknown outcome is sent again as it is, with
// its sequence number: the analyzer drops the second one. A frame that is refused for good is dropped and counted.
//
// # Following
//
// A follower finds the newest heartbeat from the end of the log, starts where that says the last complete cycle of
// repeats began, and applies nothing that schemas.Fence refuses, so that an owner which was paused and woke up late
// changes nothing.
//
// # Lag
//
// Once a second the Link records one request of a caller that it made up, of kind schemas.KindCanary. The analyzer answers
// with a decision that closes nothing, and the time from the request to the answer is the lag, end to end.
package kafkalink
