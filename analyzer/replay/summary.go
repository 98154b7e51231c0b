package replay

import (
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/schemas"
)

// Close is one step of a caller from open to closed. Its JSON is what replay prints for it.
type Close struct {
	Type    string    `json:"type"` // "close"
	Rule    string    `json:"rule"`
	Caller  string    `json:"caller"`                  // kind:id
	Base64  string    `json:"caller_base64,omitempty"` // the same, if it is not UTF-8
	CloseAt time.Time `json:"close_at"`
	Until   time.Time `json:"until"`          // as decided at CloseAt
	Count   int64     `json:"count"`          // weight in the window at CloseAt
	Limit   int64     `json:"limit"`          // of this caller
	Mode    string    `json:"mode,omitempty"` // "shadow" if the rule blocks nobody

	// With a lag, if the caller's demand was measured: the overshoot that the decision expected, and the one that at most one close in 200
	// exceeds. Both are shares of the limit.
	Expected float64 `json:"overshoot_expected,omitempty"`
	Bound    float64 `json:"overshoot_bound,omitempty"`
}

func newClose(c *fold.Change) Close {
	out := Close{
		Type: "close", Rule: c.Rule.Name, Caller: c.Caller.String(), Base64: printable.Base64(c.Caller.String()),
		CloseAt: time.Unix(0, c.Closure.CloseAt).UTC(), Until: time.Unix(0, c.Closure.Until).UTC(),
		Count: c.Count.Total, Limit: c.Limit, Expected: c.Expected, Bound: c.Bound,
	}
	if c.Rule.Mode == schemas.ModeShadow {
		out.Mode = c.Rule.Mode.String()
	}
	return out
}

// Summary has the counts of a run. Its JSON is the last line that replay prints. Lines = the sum of RejectedByReason +
// Dropped + Late + Requests.
type Summary struct {
	Type      string  `json:"type"` // "summary"
	Lines     int64   `json:"lines"`
	Rejected  int64   `json:"rejected"`          // could not be read
	Dropped   int64   `json:"dropped,omitempty"` // lines that the mapping's drop filters dropped, and headers
	Late      int64   `json:"late"`              // older than an earlier line by more than the reorder span
	Requests  int64   `json:"requests"`          // counted or blocked
	Callers   int64   `json:"callers"`           // different ones
	Closes    int64   `json:"closes"`            // of all rules
	Blocked   int64   `json:"blocked"`           // requests that enforcing rules would have blocked, or that the log says were blocked
	Overshoot float64 `json:"overshoot"`         // the largest of any close

	Digest           string              `json:"digest"` // of all rows at the end: equal for equal counts
	RejectedByReason map[string]int64    `json:"rejected_by_reason"`
	RejectedLines    map[string][]string `json:"rejected_lines,omitempty"`    // see ingest.Samples
	ShadowCloses     int64               `json:"shadow_closes"`               // how many of Closes are of shadow rules
	ShadowBlocked    int64               `json:"shadow_blocked"`              // requests that shadow rules would have blocked, and no enforcing rule
	ReorderCut       int64               `json:"reorder_cut"`                 // lines, and responses of requests that last, that were counted early because the buffer was full, possibly out of order
	Uncounted        uint64              `json:"uncounted"`                   // requests of callers without a row, because the table was full: see Config.MaxRows
	CallersEstimated bool                `json:"callers_estimated,omitempty"` // there are too many to count them exactly
	Unused           []string            `json:"unused,omitempty"`            // what is said of each rule that had no effect, wholly or in part
	Accuracy         *Accuracy           `json:"accuracy,omitempty"`          // with a lag
	Pools            []Pool              `json:"pools,omitempty"`             // of each rule with a capacity
	Lasting          []Lasting           `json:"lasting,omitempty"`           // of each rule with charge: arrival or measure: in_flight
}

// add adds the counts of a block.
func (s *Summary) add(b *block) {
	s.Lines += b.total
	for r, n := range b.rejected {
		switch {
		case n == 0:
		case !ingest.Reason(r).Rejected():
			s.Dropped += n
		default:
			s.Rejected += n
			reason := ingest.Reason(r).String()
			s.RejectedByReason[reason] += n
		}
	}
	s.RejectedLines = b.samples.AddTo(s.RejectedLines)
}

// digestText returns a digest in the form that all of floodgate prints.
func digestText(d uint64) string { return fmt.Sprintf("%016x", d) }
