// Package busiest finds the callers that send most, in bounded memory, from a sample of all requests. If at most 500 come in a
// second, the sample has all of them.
//
//	entries ──Admitted, Blocked──▶ one of 1 to 32 ──▶ Space-Saving ──Lists──▶ callers with their rates, and how far off these may be
//
// It is for people: no count, no decision and no stored row depends on it. It is pure: it does no I/O, and has no clock, no log and no
// lock.
package busiest
