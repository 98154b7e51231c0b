// Package hold says what the requests in flight of one rule and one caller hold of its limit. An arrival adds to it, and its response takes
// it away. So what is in flight is a sum over the log. The package is pure: no I/O, no clock, no log and no lock. Time is an argument, and all
// arithmetic is in integers, so that every processor computes the same.
//
//	arrival  ──Arrive──▶ State: cohorts     n requests, D what they were expected to cost, A when they arrived
//	response ──End─────▶ State: cohorts, learned
//	State, Terms, limit, counted ──Room──▶ Room: held, margin, and what is left of the limit
//
// # Cohorts
//
// A cohort is the requests that arrived in one stretch of time and have no response yet, in sums. It is forgotten after a while, so that no lost
// response holds a part of the limit for ever. The order of entries does not matter for sums. If a response comes first, its cohort is one short
// until the arrival comes.
//
// What a server declares counts as at least a quarter of the rule's estimate: a caller may say in a request what it costs. A caller that
// declared 1 went 23 % over its limit on average before d was learned, and 0.7 % with this bound.
//
// # What was learned
//
// A request in flight is expected to cost D·m/d, where m is the mean cost of responses, D is what its server or its rule expects, and d is the
// mean of that. Requests that have run for long are dearer, because cheap ones end first:
//
//	held = Σ D·m/d + (n·now − A)·slope       slope = cov(duration, cost) / var(duration), 0 to 2m/duration
//	left = limit − counted − held − margin·1.5·x·√n − m/2
//
// x is the mean distance of a cost from what was expected. All of these are exponentially weighted means over the last M responses, where M
// is how many requests fit the limit, 128 to 4096. A shorter memory learns the cheap requests that end first: in a simulation, a caller at
// ten times its limit went 3.9 % over it with M = 32, and 1.5 % with 128. m is the larger of two means, over M and over M/4 responses, so
// that dearer requests are seen soon, and cheaper ones late. Without learning (requests in flight times their mean cost) the same caller went
// 72 % over its limit.
//
// The means depend on the order in which responses come; the sums of the cohorts do not.
package hold
