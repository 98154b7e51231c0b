// Package ingest reads the access logs that other software writes.
//
//	bytes ─▶ Scanner.Scan ─▶ Line{Time, IDs, Resource, Status, Cost}   counts
//	                     └─▶ Reason                                    cannot be read, and why
//
// Its nouns: a Format is how a log writes a request (combined, common, json) together with a Mapping, which says what the
// callers of a line are and where its fields stand. A Scanner reads lines of one format, one goroutine each. A Line is
// what was read. A Reason says why a line could not be read; it is never fatal, it is counted.
//
// The rule of what counts: a line counts if its time and at least one of its callers can be read, however damaged the
// rest is. What cannot be read of the rest is left zero.
//
// Scanners are written by hand and cost tens of nanoseconds: the ids and the resource of a Line are views into the bytes
// that were scanned (see Line for how long they live), and the date of a timestamp is computed once a minute of log. The
// text between the quotes is taken as the server wrote it: percent-encoding and the server's own escapes (\x22) stay.
package ingest
