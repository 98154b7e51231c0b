package fold

import (
	"maps"

	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/schemas"
)

// Stats is what a Fold has done since it was made. Weights and requests are sums, the rest counts.
type Stats struct {
	Frames    uint64 // folded
	Entries   uint64 // folded
	Requests  uint64 // folded: the counts of the entries that are arrivals, one for each caller of a request
	Blocked   uint64 // of Requests: those that gates had refused
	Responses uint64 // folded: the counts of the entries that are responses
	Duplicate uint64 // frames, or entries of sources, that were folded before
	TooOld    uint64 // frames that may have been folded before, and so were not
	Gaps      uint64 // sequence numbers that never came
	Lost      uint64 // records that the log no longer held when they were to be folded
	Late      uint64 // weight older than its window, dropped
	Rules     []RuleStats
	Displaced uint64 // rows whose callers had to make room for others
	Waiting   int    // callers without a row, of whom a coarse count is kept
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
}

func (s Stats) clone(f *Fold) Stats {
	s.Rejected = maps.Clone(s.Rejected)
	s.Rules = f.ruleStats()
	s.Stats = f.predict.Stats(f.now)
	records := f.records.Stats()
	s.InForceBy, s.InForce = records.InForce, records.InForce.Sum()
	s.Controls, s.ControlRefused = records.Applied, maps.Clone(records.Refused)
	s.Waiting = len(f.waiting.callers)
	s.Rows, s.Senders, s.Gaps = f.table.used, len(f.dedupe.rows), f.dedupe.gaps
	return s
}

// RuleStats is what a Fold did under one rule, what it could not count, and what it could have counted.
type RuleStats struct {
	Rule       string
	Mode       schemas.Mode // now
	Uncounted  uint64       // weight for which there was no row when it came
	Recovered  uint64       // of that, what rows count which were made later
	Enforced   Tally        // while the rule was in mode enforce
	Shadowed   Tally        // while it was in mode shadow
	Counted    uint64       // requests that the rule matched and that were not blocked
	Blocked    uint64       // requests that the rule matched in mode enforce, and that gates had refused: by this rule or another of its kind
	WouldBlock uint64       // requests that came while their caller was closed under this rule in mode shadow

	Requests  uint64 // that could count: of callers of the rule's kind, and arrivals or responses as the rule reads them
	Shape     uint64 // of the rule: see rules.Rule.Shape
	Unmatched uint64 // bit i is set if pattern i of the rule's Match.Resources has matched none of them
	Sample    string // the resource of one of them, while some pattern has matched none
}

// Tally is how often callers were closed, or crossed a share of the limit at which the rule warns, and the weight that was
// counted while their windows were full already.
type Tally struct{ Closes, Warnings, Over uint64 }

// UncountedWeight returns the weight that no row counts, of all rules.
func (s *Stats) UncountedWeight() uint64 {
	var sum uint64
	for _, r := range s.Rules {
		sum += r.Uncounted - min(r.Uncounted, r.Recovered)
	}
	return sum
}

func (f *Fold) ruleStats() []RuleStats {
	list := make([]RuleStats, len(f.accounts))
	for i := range f.accounts {
		r, a := f.set.Rules[i], &f.accounts[i]
		list[i] = RuleStats{
			Rule: r.Name, Mode: r.Mode, Uncounted: a.uncounted, Recovered: a.recovered,
			Enforced: a.enforced, Shadowed: a.shadowed,
			Counted: a.counted, Blocked: a.blocked, WouldBlock: a.wouldBlock,
			Requests: a.use.requests, Shape: r.Shape(), Unmatched: a.use.unmatched, Sample: a.use.sample,
		}
	}
	return list
}

// tally returns where the closes and warnings of a rule are counted, by its mode now.
func (f *Fold) tally(rule int32) *Tally {
	if f.set.Rules[rule].Mode == schemas.ModeShadow {
		return &f.accounts[rule].shadowed
	}
	return &f.accounts[rule].enforced
}

// came counts requests that the rule matches, once each.
func (a *account) came(mode schemas.Mode, requests uint64, blocked bool) {
	switch {
	case !blocked:
		a.counted += requests
	case mode == schemas.ModeShadow:
		a.wouldBlock += requests
	default:
		a.blocked += requests
	}
}

// closed counts a close.
func (f *Fold) closed(rule int32) {
	f.stats.Closes++
	f.tally(rule).Closes++
}
