// Package limit limits rates inside one process, without locks, exactly, and in bounded memory.
//
// In floodgate it is what a gate falls back on while decisions are stale (Local), a cap on bursts that come before the
// first decision (put a Keyed before the gate), and what tests compare the analyzer's windows with. It needs nothing of
// floodgate, and is of use wherever golang.org/x/time/rate is.
//
// # Which one
//
//	            never more than the limit in     state            admits at once      cost of a call
//	Ring        any period                       8 B × limit      the limit           constant
//	Sliding     any period, by slots             8 B × slots × 2  the limit           a sum over the slots
//	Fixed       each period of the clock         16 B             twice the limit     constant
//	TokenBucket any interval: burst + rate × it  8 B              the burst           constant
//	LeakyBucket any interval: 1 + rate × it      8 B              one                 constant
//
// All have the same methods:
//
//	Allow()                   may one happen now?
//	AllowN(at, n)             may n, at a time?
//	RetryAfter(at, n)         when could they? counts nothing
//	Reserve(), ReserveN(…)    book the next turn: a Reservation says how long to wait, and can be cancelled
//	Wait(ctx), WaitN(ctx, n)  book the next turn and sleep until then
//	SetLimit(n)               at any time
//
// Keyed is a million of any of them, in memory that does not grow; Key is one of those. Do, Seq, Each and Schedule run
// functions and loops at a limiter's pace.
//
// # What exact means
//
// Each admission has a time: the one that was given, or the turn that was booked. Of these times, whatever the goroutines
// and their clocks do, no interval that the table names holds more than the limit. A time that goes backwards is judged by
// what was admitted already; one far in the future is believed, and those before it may then have to wait for it. The
// argument is with each algorithm, in a comment of its source. What happens after a turn is the caller's: who is slow to
// wake up acts later than that.
//
// Changing a limit keeps what was counted. What was admitted before the change was admitted under the limit before it.
//
// # Lock-free
//
// A goroutine that stops at any instruction stops no other. Two exceptions, both off the path of requests: SetLimit of a
// Ring or bucket waits for another SetLimit, and keys that are new to a Keyed take turns in their set of seven.
//
// # Sources
//
// The circular buffer of timestamps is folklore: exact with a lock; lock-free versions that move the head and write the
// time in two steps lose increments between them. Sub-windows on a circle are LeapArray's of Alibaba's Sentinel. Buckets
// are the Generic Cell Rate Algorithm (ATM Forum Traffic Management 4.0, 1996). Keyed is Space-Saving (Metwally, Agrawal,
// El Abbadi, 2005). The turns and the words Allow, Reserve and Wait are golang.org/x/time/rate's.
package limit
