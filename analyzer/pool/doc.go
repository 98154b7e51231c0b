// Package pool divides a capacity among the callers that share it: it says how much each of them may use while they ask for more together.
//
// The owner of each partition says each quarter of a window what its callers have asked for: a Tally. One of them, the Home of the pool, adds
// up the tallies and finds the Level: the limit L of a caller of weight 1 under which all callers together use the capacity,
//
//	Σ min(askedᵢ, L·weightᵢ) = capacity.
//
// That is max-min fairness (Bertsekas and Gallager, Data Networks, 1992, 6.5.2), also called water-filling. Who asks for less than L is not
// touched. Who asks for more gets L, however much more it is. So a flood of refused requests neither helps its sender nor hurts others.
//
// A level falls at once. It rises by at most a tenth each quarter: 1.5 times a window. It is never under what the rule protects. It ends when
// callers ask for no more than the capacity, and it has risen to that.
//
// The package is pure: no clock, no I/O, no lock. All numbers are integers. So a tally is a function of one partition's log, and a level of
// the home's log.
package pool
