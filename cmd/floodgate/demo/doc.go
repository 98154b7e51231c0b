// Package demo is everything of floodgate in one process, under load: an embedded broker, an analyzer, and web servers with
// gates. It shows which callers are closed and how soon. In the end it compares three counts of the same requests, to the
// unit: those that the load generator sent, those in the log, and those that the store counted.
//
//	load ──HTTP──▶ servers with gates ──frames──▶ broker ──▶ analyzer ──decisions──▶ broker ──▶ gates
//	  │                                             │            │
//	  └──────── sent ──────────┬───── log ──────────┴─── store ──┘
//	                        audit
//
// Run is the only entry point. The nouns: an installation is all parts that run; load sends requests and counts them;
// closeWatch measures how soon gates close; Summary is the result.
package demo
