// Package gateview is the JSON of what the gates of one process hold about one caller: what a sidecar answers to
// GET /caller?caller=kind:id, and what the command line compares with the analyzer's answer. Gate and analyzer, which never import
// each other, both know it.
package gateview

import "time"

// Caller is what the gates of a process hold about a caller.
type Caller struct {
	Kind     string `json:"kind"`
	ID       string `json:"id"`                  // as gates compare it: canonical
	IDBase64 []byte `json:"id_base64,omitempty"` // the id, where it is not UTF-8

	Now       time.Time  `json:"now"`       // this process's clock
	Mode      string     `json:"mode"`      // of the gates: enforce, shadow or off
	Policy    string     `json:"policy"`    // what holds while decisions are stale: hold, open, closed or local
	Refused   bool       `json:"refused"`   // a closure refuses a request of this caller that comes now. Shares and the policy may refuse it, too
	Decisions []Decision `json:"decisions"` // that close the caller now, or will, or give it a share

	Cold    int    `json:"cold"`              // partitions of which nothing has been heard: their callers are open
	Fresh   int    `json:"fresh"`             // partitions whose decisions come
	Stale   int    `json:"stale"`             // partitions whose decisions have stopped coming
	AgeNS   int64  `json:"age_ns"`            // the longest time since a heartbeat of a partition that is not cold
	Dropped uint64 `json:"dropped,omitempty"` // decisions that were dropped because the gates hold as many callers as they may
}

// Decision is a span of a decision about the caller.
type Decision struct {
	Rule    string    `json:"rule"`
	Mode    string    `json:"mode"` // enforce or shadow
	CloseAt time.Time `json:"close_at"`
	Until   time.Time `json:"until"` // of this gate: later than was decided, by its jitter
	Early   bool      `json:"early,omitempty"`
	Share   bool      `json:"share,omitempty"`   // it gives permits instead of closing
	InForce bool      `json:"in_force"`          // now
	Ignored bool      `json:"ignored,omitempty"` // its partition is stale, and the policy is open

	Limit     int64  `json:"limit"`
	WindowNS  int64  `json:"window_ns"`
	Partition int    `json:"partition"`
	Freshness string `json:"freshness"` // of the partition: cold, fresh or stale
	Epoch     uint64 `json:"epoch"`     // of its newest heartbeat, as are the next two
	Watermark int64  `json:"watermark"` // offset of the next request to be counted
	LagNS     int64  `json:"lag_ns"`    // from a request to its decision
}
