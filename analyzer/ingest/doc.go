// Package ingest reads the access logs that other software writes.
//
//	line ─▶ decoder ─▶ values ─▶ mapper ─▶ Line{Time, IDs, Resource, Status, Cost, Blocked}   counts
//	                                 └───▶ Reason                                             does not, and why
//
// Its nouns: a Format is how a log writes a request (combined, nginx, csv; see Formats) together with a Mapping, which says
// what the callers of a line are and where its fields stand. A Scanner reads lines of one format, one goroutine each: its
// decoder finds the fields, its mapper makes callers of them. A Line is what was read. A Reason says why a line does not
// count; it is never fatal, it is counted.
//
// The rule of what counts: a line counts if its time and at least one of its callers can be read, however damaged the
// rest is. What cannot be read of the rest is left zero.
//
// Scanners are written by hand and cost tens of nanoseconds: the ids and the resource of a Line are views into the bytes
// that were scanned (see Line for how long they live), and the date of a timestamp is computed once a minute of log. The
// text between the quotes is taken as the server wrote it: percent-encoding and the server's own escapes (\x22) stay.
package ingest
