// Package bouncer lets CrowdSec's bouncers enforce floodgate's closures: it answers them as CrowdSec's local API does, in its
// version 1. Firewalls, proxies and scripts for which there is a bouncer then need no gate.
//
//	board.Board ──Run──▶ views: one item for each closed address ──▶ GET /v1/decisions/stream: all, then what changed
//	    └──────────────────────────────────────────────────────────▶ GET /v1/decisions?ip=: one address
//
// # What a bouncer sees
//
// Callers of kind ip that a counted closure in mode enforce closes now: one item for each address, with the end of the closure
// that lasts longest. An IPv6 network that is one client is an item of scope Range, all others are of scope Ip. These
// are left out, and Stats counts them: other kinds, mode shadow, ids that are no address, what is only predicted (early closures, shares),
// and closures shorter than Options.MinClosure. A bouncer asks about every ten seconds, so a shorter closure is usually over by then.
//
// # What bouncers need
//
//   - An address is in "deleted" when nothing closes it any more, and not before. No answer has it in both lists: some bouncers apply
//     "deleted" first, which lets it in for a moment, and others "new", which lets it in for good.
//   - An address whose closure got another end is in "new". Some bouncers then take the new end, and others skip what they hold. So it is
//     in "new" again at each poll from an earlier end that bouncers may hold until 30 s later. A bouncer that skips lets it in from
//     that end until its next poll.
//   - No duration is below a second: firewalls take a time-out of zero for no time-out.
//   - A delta always has status 200, because bouncers forget all addresses when one request fails. While decisions are stale, a delta is
//     empty, because nobody knows what the owner of a partition would have decided.
//   - A bouncer that starts gets 503 with a message if the server has not read all decisions within ten seconds. It then tries again.
//
// # Instances
//
// What an answer must contain depends on the answers before it. An instance is a key, the client's address and its User-Agent.
// Instances with the same filter of scenarios share a view, which numbers changes. Of each instance, the view keeps only the number of
// the newest change that the instance has. An instance that is new, was away for ten minutes, or did not take its answer gets
// everything that is closed in "new", and in "deleted" what is open and not forgotten. So does each instance that polls on after this
// process was started again. Which ends such an instance holds is unknown: it gets everything again after a minute, and whenever twice as
// long has passed, until it starts again itself. Two bouncers of one kind on one machine need two keys.
//
// # Bounds
//
// An address takes 200 bytes at most in each view. There are at most 8 views and 4096 instances in each; the one
// that was used least recently is removed to make room. A view keeps at most 1,048,576 addresses that are open again and that some instance
// does not know of.
package bouncer
