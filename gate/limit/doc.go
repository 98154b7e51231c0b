// Package limit limits rates inside one process: without locks, exactly, and in bounded memory.
//
// floodgate uses it for three things: a gate falls back on it while decisions are stale (Local); a Keyed before the gate
// caps bursts that come before the first decision; tests compare the analyzer's windows with it. It needs nothing of
// floodgate, and can take the place of golang.org/x/time/rate.
//
// # Which limiter
//
//	            never more than the limit in     state            admits at once      cost of a call
//	Ring        any period                       8 B × limit      the limit           constant
//	Sliding     any period, by slots             8 B × slots × 2  the limit           a sum over the slots
//	Fixed       each period of the clock         16 B             twice the limit     constant
//	TokenBucket any interval: burst + rate × it  8 B              the burst           constant
//	LeakyBucket any interval: 1 + rate × it      8 B              one                 constant
//
// All have the same methods. An event is what a limiter limits, such as a request:
//
//	Allow()                   may one event happen now?
//	AllowN(at, n)             may n events happen at this time?
//	RetryAfter(at, n)         when could they happen? counts nothing
//	Reserve(), ReserveN(…)    book the next turn: a Reservation says how long to wait, and can be cancelled
//	Wait(ctx), WaitN(ctx, n)  book the next turn and sleep until then
//	SetLimit(n)               at any time
//
// Keyed is many limiters of one kind, one for each key, in memory that does not grow. Key is one of them. Do, Seq, Each and
// Schedule run functions and loops at a limiter's pace.
//
// # What exact means
//
// Each admission has a time: the time that was given, or the turn that was booked. Whatever the goroutines and their clocks
// do, no interval that the table names contains more of these times than the limit. For a time that goes backwards,
// everything counts that was admitted already. A time far in the future is accepted, and earlier times may then have to
// wait for it. A comment in the source of each algorithm contains the proof. The limiter cannot see what happens after a
// turn: a goroutine that wakes up late acts late.
//
// A change of the limit keeps what was counted. What was admitted before the change was admitted under the old limit.
//
// # Lock-free
//
// A goroutine that stops at any instruction stops no other. There are two exceptions, both off the path of requests:
// SetLimit of a Ring or bucket waits for another SetLimit, and keys that are new to a Keyed take turns in their set of
// seven.
//
// # Sources
//
// The circular buffer of timestamps is folklore. With a lock it is exact. Lock-free versions that move the head and write
// the time in two steps lose increments between the steps. Sub-windows on a circle come from LeapArray in Alibaba's
// Sentinel. Buckets are the Generic Cell Rate Algorithm (ATM Forum Traffic Management 4.0, 1996). Keyed is Space-Saving
// (Metwally, Agrawal, El Abbadi, 2005). Turns, and the words Allow, Reserve and Wait, come from golang.org/x/time/rate.
//
// # Chosen input
//
// The clients that are limited may choose the keys. This is what chosen keys cost, compared with random keys:
//   - Sets of a Keyed: nothing. The hash that picks the set of a key has a seed that is drawn for each Keyed. AllowHash
//     takes a hash from its caller, which must be seeded too; the hash of gate.Set is.
//   - More keys than expected: a new key looks at the seven places of its set. If all are taken, it displaces the one with
//     the lowest usage and takes over its charges. So a client gains nothing by coming under many names.
//   - A Ring, Sliding or bucket has a fixed size, and takes the same steps for all times and numbers. Only a Ring whose
//     limit grows, or whose turns are cancelled, copies its slots, and the program decides about both.
//
// BenchmarkChosenInput measures it.
package limit
