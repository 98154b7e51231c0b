// Package control reads the topic of what people have decided by hand, and says at which records of requests[p] it counts.
//
//	control ──fetch──▶ Follower ──records about the partition──▶ owner: between two records of requests[p]
//
// A Follower reads ahead for one partition. It decodes the records, and passes on those that concern the partition; the others only
// move the offset. A Schedule is for whoever folds requests[p] again: each control record must be applied where it was at first,
// because a reset, for example, drops what was counted before it, and nothing behind it. The places are noted in state[p] and in
// the store. Where the place of a record is not known, it is applied before the first record that is as new as itself, and
// Schedule.Guessed says so.
//
// The topic has one partition, and keeps its records for ever. It is a small one: people write it. Whoever can write it can close
// any caller, as whoever can write decisions[p]; so only analyzers may. Chosen input costs memory: a Follower holds two fetches of
// at most 1 MiB and what it has decoded of them.
package control
