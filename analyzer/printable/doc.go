// Package printable makes text that somebody else wrote safe to print: caller ids, log lines, file names, a broker's
// settings. A client chooses its id. It may put characters into it that clear a terminal, that look like the next row of a
// table, that reverse the order of letters, or that are invisible.
//
//	id ──Of──▶ Text ──Cell──▶ a cell of a table
//	            │  └────────▶ a label, a line, an error
//	            └───Parse───▶ id
//
// A Text is printable ASCII. Other bytes are escaped as in Go, and a backslash is doubled, so that no id can look like the
// escape of another id. Each id has exactly one Text, and Parse returns the id from it.
//
// Three more functions limit whole outputs to these characters: Logger for logs, JSON for machines, and Error for errors.
package printable
