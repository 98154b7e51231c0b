package replay

import (
	"math"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// Accuracy says what a lag costs: how far callers exceed their limits, and which callers are closed without need. Overshoots are shares
// of the limit.
type Accuracy struct {
	Lag  float64 `json:"lag_seconds"`
	Over uint64  `json:"requests_over"` // weight that enforcing rules counted while the window was full already

	OvershootMean float64 `json:"overshoot_mean"`               // of all closes
	Expected      float64 `json:"overshoot_expected,omitempty"` // the mean of the overshoot that decisions expected
	Bound         float64 `json:"overshoot_bound,omitempty"`    // the mean of the overshoot that at most one close in 200 exceeds
	Foreseen      int64   `json:"foreseen,omitempty"`           // closes that Expected and Bound are about: of callers with a measured demand

	Early             int64   `json:"early_decisions"`                      // published before the limit was reached
	InnocentsClosed   int64   `json:"innocents_closed"`                     // callers with blocked requests that their rule, alone and without a lag, never closes
	InnocentRequests  int64   `json:"innocent_requests_blocked"`            // blocked requests of these callers
	InnocentLongest   float64 `json:"innocent_closed_longest_seconds"`      // how long one of them was closed without a break, at most
	InnocentUncertain bool    `json:"innocents_closed_uncertain,omitempty"` // there are too many closed callers to know

	Shares     int64       `json:"share_decisions"`      // that give a caller a share, or repeat it
	Mechanisms []Mechanism `json:"mechanisms,omitempty"` // the closes by what held callers to their limits; those without a close are left out
}

// Mechanism is the part of an Accuracy that is about the closes of one mechanism.
type Mechanism struct {
	Name     string  `json:"name"` // "reactive": closed after the count; "early": by a decision ahead of time; "shares": by permits
	Closes   int64   `json:"closes"`
	Mean     float64 `json:"overshoot_mean"`
	Expected float64 `json:"overshoot_expected,omitempty"`
	Bound    float64 `json:"overshoot_bound,omitempty"`
	Foreseen int64   `json:"foreseen,omitempty"`
}

// foresight sums up the overshoots that decisions named.
type foresight struct {
	closes          int64
	expected, bound float64
}

func (f *foresight) add(c *fold.Change) {
	if c.Bound > 0 {
		f.closes++
		f.expected += c.Expected
		f.bound += c.Bound
	}
}

// means returns the means of the expected overshoot and of its bound, and the number of closes that they are of.
func (f *foresight) means() (expected, bound float64, closes int64) {
	n := float64(max(1, f.closes))
	return f.expected / n, f.bound / n, f.closes
}

// meanOf returns the mean of n values, or 0 if n is 0. It is rounded, because the order of a sum of fractions is not fixed.
func meanOf(sum float64, n uint64) float64 {
	return math.Round(sum/float64(max(1, n))*1e9) / 1e9
}

// accuracy returns what the loop's lag costs; nil without a lag.
func (l *loop) accuracy(stats *fold.Stats) *Accuracy {
	if l.lag == 0 {
		return nil
	}
	a := &Accuracy{Lag: time.Duration(l.lag).Seconds()}
	for i := range stats.Rules {
		if stats.Rules[i].Mode == schemas.ModeEnforce {
			a.Over += stats.Rules[i].Enforced.Over
		}
	}
	a.OvershootMean = meanOf(stats.Overs.Sum, stats.Overs.Count)
	var all foresight
	for by := range policy.Mechanisms {
		f := &l.foreseen[by]
		all = foresight{all.closes + f.closes, all.expected + f.expected, all.bound + f.bound}
		m := Mechanism{Name: by.String(), Closes: int64(stats.OversBy[by].Count), Mean: meanOf(stats.OversBy[by].Sum, stats.OversBy[by].Count)} // a count
		if m.Expected, m.Bound, m.Foreseen = f.means(); m.Closes > 0 {
			a.Mechanisms = append(a.Mechanisms, m)
		}
	}
	a.Expected, a.Bound, a.Foreseen = all.means()
	if l.ahead != nil {
		a.Early, a.Shares = l.ahead.early, l.ahead.shares
		l.ahead.innocents.result(a, l.fold.LogTime())
	}
	return a
}
