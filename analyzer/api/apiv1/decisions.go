package apiv1

import "time"

// DecisionList is the answer of GET /v1/decisions: what gates hold, or with since what has happened.
type DecisionList struct {
	Now        time.Time      `json:"now"`
	Ready      bool           `json:"ready"`                // all that was in force at the start is known
	Incomplete []int          `json:"incomplete,omitempty"` // partitions of which decisions may be missing
	Decisions  []DecisionView `json:"decisions"`
	Events     []Event        `json:"events,omitempty"` // of since: what has happened, the oldest first; decisions is empty then
	Next       string         `json:"next,omitempty"`   // the cursor of the next page; empty: this is the last one
}

// DecisionEvent is the data of an event of GET /v1/decisions/stream. Its kind is the event's type too: in_force, current, closed,
// changed, opened, ended, lost.
type DecisionEvent struct {
	Kind     string        `json:"kind"`
	Number   uint64        `json:"number"` // of the change; a stream can go on behind it
	At       time.Time     `json:"at,omitzero"`
	Missed   uint64        `json:"missed,omitempty"` // of lost: so many changes at least
	Decision *DecisionView `json:"decision,omitempty"`
}
