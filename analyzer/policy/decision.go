package policy

import (
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// Decision returns the decision for gates about a caller whose closure by a rule is c, with its evidence: at is the time of
// the entry that decided, in Unix nanoseconds; count is the caller's window after that entry, and limit its limit. The
// publisher adds the partition, the offset, the lag, the epoch and the sequence number.
func Decision(r *rules.Rule, caller schemas.Caller, c Closure, at, limit int64, count window.Count) schemas.Decision {
	return schemas.Decision{
		Rule: r.Name, RuleVersion: r.Fingerprint(), Caller: caller, Mode: r.Mode,
		CloseAt: c.CloseAt, Until: c.Until,
		Evidence: schemas.Evidence{
			Count: count.Total, Limit: limit, Window: r.Window.Length(at), WindowStart: count.Start, AsOfTime: at,
		},
	}
}
