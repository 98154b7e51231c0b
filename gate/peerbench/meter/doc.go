// Package meter measures processor time: user and system time of the whole process, divided by the number of operations.
// Wall time says little on a machine that does other work too. And processor time includes the work that a library leaves
// to its own goroutines or to the garbage collector.
//
//	Spread(cpus, rounds, trials…) ──▶ round 1: trial a, trial b, …   a Series for each trial
//	                                  round 2: trial b, …, trial a
//
// The nouns: a Work is the code that is measured, a Sample the figures of one round of it, and a Series its samples. Rounds of
// different trials take turns. So a short disturbance of the machine hits all of them, and the median removes it.
package meter
