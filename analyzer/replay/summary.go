package replay

import (
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/schemas"
)

// Close is one step of a caller from open to closed. Its JSON is what replay prints for it.
type Close struct {
	Type    string    `json:"type"` // "close"
	Rule    string    `json:"rule"`
	Caller  string    `json:"caller"` // kind:id
	CloseAt time.Time `json:"close_at"`
	Until   time.Time `json:"until"`          // as decided at CloseAt
	Count   int64     `json:"count"`          // weight in the window at CloseAt
	Limit   int64     `json:"limit"`          // of this caller
	Mode    string    `json:"mode,omitempty"` // "shadow" if the rule only says what it would do
}

func newClose(c *analyzer.Change) Close {
	out := Close{
		Type: "close", Rule: c.Rule.Name, Caller: c.Caller.String(),
		CloseAt: time.Unix(0, c.Closure.CloseAt).UTC(), Until: time.Unix(0, c.Closure.Until).UTC(),
		Count: c.Count.Total, Limit: c.Limit,
	}
	if c.Rule.Mode == schemas.ModeShadow {
		out.Mode = c.Rule.Mode.String()
	}
	return out
}

// Summary is what a run has counted. Its JSON is the last line that replay prints.
// Lines = the sum of RejectedByReason + Dropped + Late + Requests.
type Summary struct {
	Type      string  `json:"type"` // "summary"
	Lines     int64   `json:"lines"`
	Rejected  int64   `json:"rejected"`          // could not be read
	Dropped   int64   `json:"dropped,omitempty"` // by the mapping's drop filters, and headers
	Late      int64   `json:"late"`              // came after lines newer by more than the reorder span
	Requests  int64   `json:"requests"`          // counted or blocked
	Callers   int64   `json:"callers"`           // different ones
	Closes    int64   `json:"closes"`            // of all rules
	Blocked   int64   `json:"blocked"`           // requests that enforcing rules would have stopped, or the log says were
	Overshoot float64 `json:"overshoot"`         // the largest of any close

	Digest           string           `json:"digest"` // of the counts that are left in the end: equal for equal counts
	RejectedByReason map[string]int64 `json:"rejected_by_reason"`
	ShadowCloses     int64            `json:"shadow_closes"`               // how many of Closes are of shadow rules
	ShadowBlocked    int64            `json:"shadow_blocked"`              // requests that shadow rules alone would have stopped
	ReorderCut       int64            `json:"reorder_cut"`                 // lines counted before their turn was sure: the buffer was full
	Uncounted        uint64           `json:"uncounted"`                   // requests of callers for whom the table had no room
	CallersEstimated bool             `json:"callers_estimated,omitempty"` // there are too many to count them exactly
}

// add takes over what a block has counted.
func (s *Summary) add(b *block) {
	s.Lines += b.total
	for r, n := range b.rejected {
		switch {
		case n == 0:
		case !ingest.Reason(r).Rejected():
			s.Dropped += n
		default:
			s.Rejected += n
			s.RejectedByReason[ingest.Reason(r).String()] += n
		}
	}
}

// digestText writes a digest the way everything in floodgate prints one.
func digestText(d uint64) string { return fmt.Sprintf("%016x", d) }
