// Package override keeps the control records of one partition: what people decided about callers and rules, while it is in force.
//
//	control topic ──Apply──▶ Records ──Effect──▶ fold
//	log time ──────Expire──▶    │
//	                            └─ Of(caller): limit, closure · Shadow(rule): mode
//
// People close and open callers, give them other limits, reset their counts, and put rules in shadow mode. A Records knows which of
// these records are in force and what follows for a caller or a rule. It knows no rows and counts nothing: the fold changes its rows by
// the effects. The package is pure: it does no I/O, and has no clock, no log and no lock.
//
// If two records in force contradict each other, the newer one counts, by their order in the control topic; when it ends, the older one
// counts again. Records end by log time. A record that is delivered twice is known by its id until its time is over, and has no effect
// after that. MaxRecords, MaxOfCaller and MaxModes bound the memory.
package override
