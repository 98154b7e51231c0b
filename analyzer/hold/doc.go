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
//	held = Σ D·m/d + (n·now − A)·slope       slope = cov / √(var · (duration² + var)/2), 0 to 2m/duration
//	left = limit − counted − held − margin·1.5·x·√n − m/2
//
// cov is the covariance of duration and cost, and var the variance of durations. cov/var is the regression of the cost on the duration. It
// holds too much where durations are alike, because their age says little then: in the simulation, 94 % of the limit was used where durations
// deviate by 0.6 of their mean. 2·cov/(duration² + var) is right for requests that come evenly, and too little at the begin of a window, when all
// requests are young: 2.9 % over. The slope is the geometric mean of both: 1.6 % over, and 96 % used.
//
// x is the mean distance of a cost from what was expected. All of these are exponentially weighted means over the last M responses, where M
// is how many requests fit the limit, 128 to 4096. A shorter memory learns the cheap requests that end first: in a simulation, a caller at
// ten times its limit went 3.9 % over it with M = 32, and 1.5 % with 128. m is the larger of two means, over M responses and 7/8 of that over
// M/4, so that dearer requests are seen soon, and cheaper ones late. Without learning (requests in flight times their mean cost) the same caller went
// 72 % over its limit.
//
// The means depend on the order in which responses come; the sums of the cohorts do not.
package hold
