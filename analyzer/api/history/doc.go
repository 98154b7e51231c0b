// Package history reads the topic of events when somebody asks for it.
//
//	Page(since, after, keep) ──▶ each partition: find the time, read on ──▶ merged by time ──▶ Page, with the places to go on from
//
// It keeps nothing between two questions. A page costs one search for a time in each partition, some twenty short fetches, and as
// many records as it looks at: 65,536 at most.
package history
