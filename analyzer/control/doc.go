// Package control reads the control topic: what people decide by hand, and where in requests[p] owners apply it.
//
//	control ──Follower──▶ records about the partition ──▶ Order: "before record 4711, these records; then these rules"
//
// The topic has one partition, and keeps its records for ever. Only analyzers may write it. Besides what people decide it holds three
// kinds of records that owners write: a take ("epoch 9 has taken partition 3 over"), a place ("before record 4711 of partition 3, apply
// what people decided up to offset 812, and count by rules b1c4… from there on") and a note of the text of rules.
//
// Order alone knows which places count: those whose epoch is not lower than that of any take or place before them in the topic. The
// topic only grows, and a later take makes no earlier place invalid. So owners and audits get the same answer, whenever they read it.
// What is put between two records does not depend on any clock.
//
// A Follower reads ahead for one partition, and passes on what concerns it. To it, a topic that was made anew, or has lost its end, is
// another topic: it says so. Read reads up to the end of the topic, for whoever starts.
//
// Chosen input: whoever can write the topic can close any caller, as whoever can write decisions[p]. An Order keeps what waits and what
// is not due yet, so an owner stops reading while it may not apply. A Follower holds two fetches of at most 1 MiB.
package control
