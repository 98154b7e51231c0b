// Package control reads the control topic: what people decide by hand, and where in requests[p] owners apply it.
//
//	control ──Follower──▶ records about the partition ──▶ Order: "before record 4711, these records; then these rules"
//
// The topic has one partition, and keeps its records for ever. Only analyzers may write it. Besides the decisions of people it holds three
// kinds of records that owners write. A take: "epoch 9 has taken partition 3 over". A place: "before record 4711 of partition 3, apply what
// people decided up to offset 812, and count by rules b1c4… from there on". And a note, which has the text of rules.
//
// Only Order knows which places count: those whose epoch is not lower than that of any take or place before them in the topic. The topic
// only grows, and a later take makes no earlier place invalid. So owners and audits get the same result, whenever they read the topic. What
// applies between two records does not depend on any clock.
//
// A Follower reads ahead for one partition, and passes on the records about it. If the topic was made anew, or has lost its end, the
// Follower treats it as another topic, and says so in Batch.Again. Read reads up to the end of the topic, for an owner that starts and for
// an audit.
//
// Chosen input: whoever can write the topic can close any caller, as can whoever writes decisions[p]. An Order keeps the decisions that
// wait for a place, and the steps that are not due yet. So an owner stops reading while too many decisions wait. A Follower holds two
// fetches of at most 1 MiB.
package control
