// Package report says what was measured and whether it meets its bar: as a table for a terminal, as Markdown for the
// README, and as JSON for programs.
//
//	Row: one case with its bar ──▶ Figure: at 1 CPU, at 2 CPUs ──▶ Rival: what the fastest rival takes
//	Grid: many subjects in many cases, for whoever wants to see all of it
package report
