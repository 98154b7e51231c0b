package outbox

import (
	"time"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

const (
	// minInterval is the least time between two decisions about closures of one rule and caller, in nanoseconds. It is two flushes of
	// a server: in that time the last requests before a closure reach the analyzer.
	minInterval = 2 * int64(policy.Flush)
	// maxWait is how long a moved end may wait, in nanoseconds. It bounds for how long a gate names an old end, and what is lost if
	// the publisher dies.
	maxWait = int64(time.Second)
	// maxSpared is the longest lag at which closures are spared, in nanoseconds. A quarter of the window is another bound. The lag comes
	// from the topic of requests. A wrong lag must not keep back closures that gates would get in time.
	maxSpared = int64(2 * time.Second)
)

// Terms are the times by which Offer decides, in nanoseconds.
type Terms struct {
	Now      int64 // of the publisher's clock, since the Unix epoch. It need not agree with clocks of servers
	AsOf     int64 // log time, since the Unix epoch
	Lag      int64 // from a request until the decision about it holds at gates, on average; 0: not known
	Margin   int64 // how much longer it may take
	Measured int64 // the lag that decisions name; 0: not measured
	Urgent   bool  // the rules have changed: nothing waits, and nothing is spared
}

// MarginOf returns the margin for lags with a deviation from their mean, both in nanoseconds.
func MarginOf(deviation int64) int64 { return policy.Lag{Deviation: deviation}.Margin() }

// over reports whether the first closure of the decision will have ended when gates learn of it. length is that of the rule's
// window. If the lag is beyond its bounds, over returns false.
func (t *Terms) over(d *schemas.Decision, length int64) bool {
	return t.Lag > 0 && t.Lag <= min(maxSpared, length/4) && d.Until <= d.Evidence.AsOfTime+t.Lag
}

// isDue reports whether a decision that is due at a time must be published now. A due time that is further ahead than maxWait shows
// that the clock was put back. Then the decision is due, too.
func isDue(due, now int64) bool { return due <= now || due-now > maxWait }
