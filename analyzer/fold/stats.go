package fold

import (
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// Stats is what a Fold has done since it was made. Weights and requests are sums, the rest counts.
type Stats struct {
	Frames    uint64 // folded
	Entries   uint64 // folded
	Requests  uint64 // folded, one for each caller of a request: the sum of the counts of entries that are arrivals
	Blocked   uint64 // those of Requests that gates had blocked
	Responses uint64 // folded: the sum of the counts of entries that are responses
	Duplicate uint64 // frames, or entries of sources, that were folded before
	TooOld    uint64 // frames that were not folded, because they are so old that they may have been folded before
	Gaps      uint64 // sequence numbers that never came
	Lost      uint64 // records that the log no longer held when they were to be folded
	Late      uint64 // weight older than its window, dropped
	Rules     []RuleStats
	Displaced uint64 // rows that were dropped to make room for other callers
	Waiting   int    // callers without a row that have a coarse count
	Expired   uint64 // rows dropped because nothing depended on them any more
	Closes    uint64
	Warnings  uint64
	Overshoot float64           // the largest of any close
	Rejected  map[string]uint64 // frames and entries refused, by reason
	Rows      int               // rules × callers held now
	Senders   int               // producers and sources remembered now

	predict.Stats

	InForce        int               // control records in force now, …
	InForceBy      override.Counts   // … and by action
	Controls       uint64            // control records that were applied, each once
	ControlRefused map[string]uint64 // control records that were refused: see override.Reason

	Pools       []PoolStats       // whose home this partition is
	PoolDropped map[string]uint64 // tallies and levels that were not folded, by reason: see PoolReasons
}

// RuleStats is what a Fold did under one rule, what it could not count, and what it could have counted.
type RuleStats struct {
	Rule       string
	Mode       schemas.Mode // now
	ByHand     int64        // when people put it into shadow mode, in Unix nanoseconds; 0: they have not
	Uncounted  uint64       // weight for which there was no row when it came
	Recovered  uint64       // the part of Uncounted that rows count after all, which were made later
	Enforced   Tally        // while the rule was in mode enforce
	Shadowed   Tally        // while it was in mode shadow
	Counted    uint64       // requests that the rule matched and that were not blocked
	Blocked    uint64       // requests that the rule matched in mode enforce, and that gates had blocked: by this rule or another of its kind
	WouldBlock uint64       // requests that came while their caller was closed under this rule in mode shadow

	Requests  uint64 // requests that the rule could have counted: of callers of its kind, and arrivals or responses, whichever the rule reads
	Shape     uint64 // of the rule: see rules.Rule.Shape
	Unmatched uint64 // bit i is set if pattern i of the rule's Match.Resources has matched none of Requests
	Sample    string // the resource of one of Requests, while some pattern has matched none
	Followed  Followed
}

// Tally counts closes and warnings of callers. Over is the weight that was counted while the window of its caller was full already.
type Tally struct{ Closes, Warnings, Over uint64 }

// UncountedWeight returns the weight that no row counts, over all rules.
func (s *Stats) UncountedWeight() uint64 {
	var sum uint64
	for _, r := range s.Rules {
		sum += r.Uncounted - min(r.Uncounted, r.Recovered)
	}
	return sum
}

// ruleCounters is the statistics of one rule. They are for people, and are not stored.
type ruleCounters struct {
	use      ruleUse // the requests that the rule could have counted
	predicts bool    // its closes are predicted
	holds    bool    // callers are closed by what their requests in flight hold
	tracks   int64   // a row is not tracked while it holds less than half of this, and less than half of its limit

	enforced, shadowed           Tally  // what the rule did in each mode
	counted, blocked, wouldBlock uint64 // see RuleStats
}

func newCounters(set *rules.Set, o predict.Options) []ruleCounters {
	list := make([]ruleCounters, len(set.Rules))
	for i, r := range set.Rules {
		list[i] = ruleCounters{use: newUse(r), predicts: o.Predicts(r), holds: o.Holds(r), tracks: o.TracksFrom(r)}
	}
	return list
}

// goOn continues with the counters that the same rule had before the rules changed.
func (c *ruleCounters) goOn(before *ruleCounters) {
	predicts, holds, tracks, follows := c.predicts, c.holds, c.tracks, c.use.follows
	*c = *before
	c.predicts, c.holds, c.tracks, c.use.follows = predicts, holds, tracks, follows
	if follows != before.use.follows {
		c.use.followed = Followed{} // nobody looked at arrivals
	}
}

// tally returns where closes and warnings are counted while the rule is in a mode.
func (c *ruleCounters) tally(mode schemas.Mode) *Tally {
	if mode == schemas.ModeShadow {
		return &c.shadowed
	}
	return &c.enforced
}

// countRequests counts requests that the rule matches. Call it once for each entry.
func (c *ruleCounters) countRequests(mode schemas.Mode, requests uint64, blocked, wouldBlock bool) {
	switch {
	case !blocked:
		c.counted += requests
	case mode == schemas.ModeEnforce:
		c.blocked += requests
	}
	if wouldBlock {
		c.wouldBlock += requests
	}
}

// stats returns the counters, with those of the rule's losses.
func (c *ruleCounters) stats(r *rules.Rule, a *ruleLosses) RuleStats {
	return RuleStats{
		Rule: r.Name, Mode: r.Mode, Uncounted: a.uncounted, Recovered: a.recovered,
		Enforced: c.enforced, Shadowed: c.shadowed,
		Counted: c.counted, Blocked: c.blocked, WouldBlock: c.wouldBlock,
		Requests: c.use.requests, Shape: r.Shape(), Unmatched: c.use.unmatched, Sample: c.use.sample, Followed: c.use.followed,
	}
}
