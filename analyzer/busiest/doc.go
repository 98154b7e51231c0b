// Package busiest finds the callers that send most, in bounded memory, from a sample of all requests.
//
//	entries ──Admitted, Blocked──▶ one of 32 ──▶ Space-Saving ──Lists──▶ callers with their rates
//
// It is for people: no count, no decision and no stored row depends on it. It is pure: it does no I/O, and has no clock, no log and no
// lock.
package busiest
