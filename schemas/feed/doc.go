// Package feed is the lines of a feed, by which gates in other programs learn over HTTP which callers are closed. schemas/FEED.md
// specifies them.
//
//	AppendStart, AppendDecision, AppendCurrent, AppendHeartbeat ──▶ lines ──▶ Parse ──▶ Line
//
// What is appended is read back exactly: times keep their nanoseconds.
package feed
