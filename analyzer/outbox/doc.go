// Package outbox holds the decisions that an owner publishes: those that wait (Queue), and those in force (InForce). It is pure: it
// does no I/O, has no clock, and takes no lock. The publisher gives it the time, and sends what Take returns.
//
//	fold ──changes, plans──▶ Queue ──Take──▶ publisher ──▶ gates
//	                                            │
//	                                            └──Set──▶ InForce ──Next──▶ publisher, in cycles
//
// A decision is absolute: it replaces all that gates hold about its rule and caller. So only the newest of several decisions
// matters, and a Queue keeps one for each rule and caller. This is when a decision is published:
//
//   - A close, an opening, a plan (a predicted closure or a share), and whatever follows from new rules: at once.
//   - The moved end of a closure: so early that gates get it before the end that they know of. It waits for at most a second. The
//     end may move many times while it waits; there is still one decision.
//   - Closes and moves of one rule and caller: at least two flushes of a server apart.
//   - A closure that would be over when gates learn of it, or that the caller's share covers, is not sent: it is spared. Take still returns
//     its closes, so that events and metrics count them.
//
// If the publisher dies while a moved end waits, gates open at the end that they know of. The next owner counts the closure from
// the log and repeats it. A gate that starts while a moved end waits reads the old end, as the other gates do, and gets the moved
// end with them.
//
// # Chosen input
//
// Go maps by rule and caller hold everything. A decision that waits costs the logarithm of the number that wait; all others cost the
// same, however many there are. A caller that closes and opens again and again takes one place. What was published last is remembered
// for at most 65,536 callers. The lag comes from the topic of requests. A wrong lag spares closures that end within 2 s or a quarter
// of their window, whichever is less, and delays moved ends by up to a second.
package outbox
