package apiv1

import "time"

// Series is the answer of GET /v1/series: what was counted in each of the newest seconds, in columns. All columns have the same length.
// Sample i covers the second that begins at From + i × StepNS.
type Series struct {
	From       time.Time `json:"from"`              // when the first sample's second begins, by the clocks of the analyzers
	StepNS     int64     `json:"step_ns"`           // length of a sample: one second
	Partitions int       `json:"partitions"`        // of the topic of requests
	Missing    []int     `json:"missing,omitempty"` // partitions whose owners do not count now, or have not answered

	Covered    []int     `json:"covered"`     // partitions that the sample is of: with fewer than all, the other columns lack something
	Requests   []int64   `json:"requests"`    // that were counted, blocked ones too: one for each caller of a request
	Blocked    []int64   `json:"blocked"`     // of these: those that gates refused
	WouldBlock []int64   `json:"would_block"` // that a rule in mode shadow would have refused: one for each such rule
	Closes     []int64   `json:"closes"`      // of all rules, those in mode shadow too
	LagNS      []int64   `json:"lag_ns"`      // the largest of any partition; 0: not measured yet
	Ended      []int64   `json:"ended"`       // closures by count that have ended, so that their overshoot is known; not those by a person or by a new limit
	Overshoot  []float64 `json:"overshoot"`   // their mean overshoot, as a share of the limit; 0 if none ended
}
