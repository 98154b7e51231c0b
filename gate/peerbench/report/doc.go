// Package report writes figures, and whether they meet their bars: as a table for a terminal, as Markdown for the page
// RESULTS.md, and as JSON for programs.
//
//	Row: one case with its bar ──▶ Figure: at 1 CPU, at 2 CPUs ──▶ Rival: what the fastest rival takes
//	Grid: many subjects in many cases, for readers who want all figures
package report
