// Package window counts: it holds the counting state of one rule and one caller, and says when the window is full and
// when it reopens. It is pure code. Time is an argument, there is no I/O, no clock and no lock, and all state is a slice
// of integers that the caller keeps.
//
//	(State, limit, time, weight) ──Algorithm.Add──▶ (State, Count)
//	(State, limit, time)         ──Algorithm.View─▶ Count            the same answer, nothing counted
//
// Its nouns: an Algorithm is a kind of window with its parameters (a sliding minute of 20 slots, a calendar month in
// Berlin); a State is one caller's integers under it; a Count is what they amount to at a time.
//
// The algorithms, for a window of length W:
//
//	fixed    |‾‾‾‾‾‾‾‾‾|‾‾‾‾‾‾‾‾‾|     windows that start at multiples of W since 1970, or at dates of a calendar
//	sliding  |‾|‾|‾|‾|‾|‾|              slots+1 slots of ceil(W/slots): never more than the limit in any W
//	log        · ·· ·   ··· ·           the time and weight of each of the newest entries: exact
//	gcra     ──   ───── ───────TAT      when the bucket was not empty, up to the time at which it will be empty
//
// All times are nanoseconds since the Unix epoch and may be any int64; so may limits and weights. Arithmetic saturates
// instead of overflowing. Time math/MaxInt64 (in the year 2262) is treated as the end of time: a window never reopens
// there.
//
// Entries may come out of order. An older entry that is still inside the window is counted in the place of its own
// time, never in a newer one, and the answer holds for the time of the newest entry. So no order closes a caller that would stay open
// in the order of time. An entry that is too old is late:
// it is not counted and changes nothing. In fixed windows, entries of the window before the newest count there for two
// seconds of log time (no longer than a window), because servers' clocks differ: their Place is Past, and full or not it says
// nothing of the newest window. An entry of weight 0 (blocked, or free of cost) changes nothing either, so that a flood
// of blocked requests makes no state dirty.
package window
