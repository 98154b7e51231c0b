// Package meter says what code costs in processor time: user and system time of the whole process, divided by the
// operations done. On a machine with other work the wall clock says little, and what a library leaves to goroutines of
// its own, or to the garbage collector, is counted with it.
//
//	Spread(cpus, rounds, trials…) ──▶ round 1: trial a, trial b, …   a Series for each trial
//	                                  round 2: trial b, …, trial a
//
// The nouns: a Work is what is measured, a Sample what one round of it took, and a Series its samples. Rounds of
// different trials take turns, so that what disturbs the machine for a while disturbs all of them, and the median drops
// it.
package meter
