// Package feedlink connects a gate.Set and a record.Recorder to a feed, for a server that has no access to Kafka, or is one of thousands
// that should not all be clients of it. The feed is that of a sidecar, or of serve: schemas/FEED.md.
//
//	Set ◀─Apply, Heartbeat─ follower ◀── GET /v1/closed ──┐
//	                                                      ├ sidecar ── Kafka
//	Recorder ─▶ kafkalink.Link ─▶ frames ─▶ POST /v1/frames ┘
//
// Open returns a kafkalink.Link, which does all that it does with Kafka: it delays no request, merges what waits, has one frame of a
// partition in flight, sends it again until it knows the outcome, and accounts for each request. Only the way is another. A Link has at
// most four connections to the feed.
//
// # Each request counts once
//
// Producer and sequence number of a frame are this server's. The sidecar passes the frame on as it is. So this server may send a frame
// again, also to another sidecar behind the same address, and the analyzer drops the copy.
//
// # The feed is away
//
// The follower connects again at once, and then each second, and goes on behind the last line that it has read. Closures stay until they
// end, and none are added. Three seconds after an owner was last heard its partition is stale, and gate.Options.Stale says what that does.
// If the sidecar cannot tell what has changed meanwhile, it tells all that is in force: nobody is opened before all of it has come, and
// then those whom it did not name.
//
// # Lag
//
// A feed has no answers to canaries, so this Link sends none, and Stats has no Lag. The analyzer measures the lag by the canaries of the
// sidecar and of servers with a Link to Kafka. It does not see the two steps over HTTP, some milliseconds together: predictions come
// that much late at this server, and an overshoot is that much larger. Canaries also tell the analyzer which servers there are: one that
// has recorded nothing for 10 s does not count, when a bound of an overshoot is computed from the number of gates.
//
// # Chosen input
//
// The Link believes the feed, as one that reads Kafka believes the topic of decisions: the socket's rights, or the key and the network,
// decide who may answer. A line has a bound, and a line that cannot be read is counted and passed over. A feed that begins with anything
// but a line of version 1 is no feed, and the follower tries again.
package feedlink
