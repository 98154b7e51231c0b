package outbox

import (
	"time"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

const (
	// Flush is how long the last requests before a closure are under way to the analyzer, beside the lag: two flushes of a
	// server, in nanoseconds. One caller needs no two decisions about closures within that time.
	Flush = 2 * int64(policy.Flush)
	// maxWait is how long a moved end may wait: after that, people who ask a gate when it opens are answered right, and little is
	// lost if the publisher dies.
	maxWait = int64(time.Second)
	// maxSpared bounds the lag up to which closures are spared; so does a quarter of their window. Those who write to the topic of
	// requests say what the lag is: a wrong one must not keep closures from gates that would be there in time.
	maxSpared = int64(2 * time.Second)
)

// Terms are the times that Offer goes by, in nanoseconds.
type Terms struct {
	Now      int64 // by the publisher's clock, which need not agree with those of servers; since the Unix epoch
	AsOf     int64 // log time, since the Unix epoch
	Lag      int64 // mean, from a request until the decision about it holds at gates; 0: not known
	Margin   int64 // how much longer it may take
	Measured int64 // what decisions say the lag is; 0: not measured
	Urgent   bool  // the rules have changed: nothing waits, and nothing is spared
}

// MarginOf returns the margin for lags that deviate from their mean by so much, in nanoseconds.
func MarginOf(deviation int64) int64 { return policy.Lag{Deviation: deviation}.Margin() }

// over reports whether the first closure of the decision, which is about a window of a length, will have ended when gates learn of
// it. If the lag is beyond its bounds, no closure is taken to be over.
func (t *Terms) over(d *schemas.Decision, length int64) bool {
	return t.Lag > 0 && t.Lag <= min(maxSpared, length/4) && d.Until <= d.Evidence.AsOfTime+t.Lag
}

// isDue reports whether what is due at a time is to go out now. No due time is further ahead than maxWait, unless the clock was
// put back.
func isDue(due, now int64) bool { return due <= now || due-now > maxWait }
