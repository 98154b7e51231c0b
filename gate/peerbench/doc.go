// Command peerbench measures floodgate's gate beside other libraries. It does so in one run on one machine, because only then
// figures can be compared. It prints a table of cases: for each, the bar (the figure that it must reach), the time
// of the gate, and that of the fastest rival.
//
//	go run .                  the table; about four minutes on two idle processors, and 4 GiB of memory
//	go run . --output json    the same, an object a line
//	go run . --update         the same, and rewrites the block in RESULTS.md
//
// A figure is the processor time of the whole process (package meter) without the loop around the question. It is the median
// of several rounds in which subjects take turns. Package peers contains the subjects, package report the table.
//
// It exits with 0 even if the gate misses bars. It runs on Unix.
package main
