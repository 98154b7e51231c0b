// Package peers has what the gate is measured beside, all asked in the same way: rival limiters, each holding its callers
// as its own documentation would have it, and flags, which are the maps that somebody would use who builds a gate in an
// afternoon.
//
// A limiter decides by itself and a gate is told, so the two are not the same thing; but on the path of a request they
// are asked the same question: may this caller pass now?
//
// Each rival needs a quota that it can handle. Where that took some care, its constructor says what.
package peers
