// Command peerbench measures floodgate's gate beside other libraries, in one run on one machine: only then do their
// figures compare. It prints a table of cases with their bars, what the gate takes and what the fastest rival takes.
//
//	go run .                  the table; about four minutes on two idle processors, and 4 GiB of memory
//	go run . --output json    the same, an object a line
//	go run . --update         the same, and rewrites the block in the repository's README.md
//
// Figures are processor time of the whole process (package meter), net of the loop around the question, the median of
// several rounds in which subjects take turns. Package peers has the subjects, package report the table.
//
// It exits 0 also if bars are missed: that is a result. It runs on Unix.
package main
