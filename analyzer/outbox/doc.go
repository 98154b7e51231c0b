// Package outbox holds the decisions that an owner publishes: those that wait, and those in force. It is pure: it does no I/O,
// knows no clock, and takes no lock. The publisher gives it the time, and sends what Take returns.
//
//	fold ──changes, plans──▶ Queue ──Take──▶ publisher ──▶ gates
//	                                            │
//	                                            └──Set──▶ InForce ──Next──▶ publisher, in cycles
//
// A decision is absolute: gates forget what they knew about its rule and caller. So of several decisions only the newest
// matters, and a Queue keeps one for each rule and caller. This is when it is published:
//
//   - A close, an opening, a plan (a predicted closure or a share), and whatever follows from new rules: at once.
//   - The moved end of a closure: before the end that gates know of comes, by the time that it takes to tell them. It
//     waits for at most a second. Until then there is one decision, however often the end moves.
//   - Closes and moves of one rule and caller: at most once in Flush.
//   - A closure that would be over when gates learn of it, or that the caller's share covers, is not sent: it is spared. Take
//     returns its closes all the same, so that they are observed.
//
// If the publisher dies while a moved end waits, gates open at the end that they know of, as they would have if it had died a
// second earlier. The next owner counts the closure from the log and repeats it. A gate that starts meanwhile reads the end that
// the others know of, and learns of the moved one with them.
//
// # Chosen input
//
// Everything is in Go maps by rule and caller, and each decision costs the same however many wait (the logarithm of their number,
// if it has to wait). A caller that closes and opens without end takes one place. What was published a moment ago is kept for
// 65,536 callers at most. The lag is what servers say in the topic of requests. A wrong one spares closures that end within
// 2 s and a quarter of their window, and puts moved ends off by up to a second.
package outbox
