package policy

import (
	"math/bits"

	"github.com/509da70d/floodgate/analyzer/rules"
)

// Overshoot is how far a caller's weight is expected to go over its limit, and how far it goes at most in all but one of 200
// closes while its demand holds: as shares of the limit.
type Overshoot struct{ Expected, Bound float64 }

// Mechanism is by what a caller was held to its limit, when a close was counted.
type Mechanism uint8

// Mechanisms.
const (
	Reactive   Mechanism = iota // the limit was reached, and a decision followed
	Predicted                   // an early close was in force before
	Shared                      // a share was in force
	Mechanisms                  // how many there are
)

// String returns "reactive", "early" or "shares".
func (m Mechanism) String() string { return [...]string{"reactive", "early", "shares"}[m] }

// BoundOf returns the overshoot of a close at a rate in thousandths of weight a second; that of a share is ShareBound.
func BoundOf(r *rules.Rule, limit, rate int64, lag Lag, by Mechanism) Overshoot {
	if slot := r.Window.Traits().Slot; slot < 2*lag.Mean {
		by = Reactive // closes and openings follow each other faster than gates hear of them
	}
	expected, spread := weightIn(rate, lag.Mean), deviation(rate, lag.Mean)
	bound := weightIn(rate, lag.Mean+lag.Deviation) + 3*spread
	if by == Predicted {
		expected = spread * 2 / 5
		bound = weightIn(rate, 2*lag.Deviation+int64(Flush)) + 3*spread
	}
	if rate > 0 {
		bound += 1000 // weight comes in whole requests: of a few it deviates further
	}
	whole := 1000 * float64(r.Window.Capacity(limit))
	return Overshoot{Expected: float64(expected) / whole, Bound: float64(bound) / whole}
}

// ShareBound returns the overshoot of a caller that has a share in force at so many gates. In each period each gate spends a whole
// number of permits, and they give their fractions in periods that are spread evenly: of several periods together the part of a gate
// is wrong by little more than one. Where windows and periods do not begin together, a window may hold the beginnings of one period
// more.
func ShareBound(r *rules.Rule, limit, gates int64) Overshoot {
	p := PermitsOf(r, limit)
	if p.Whole == 0 {
		return Overshoot{}
	}
	fifths := 5 + int64(bits.Len64(uint64(p.span/p.Period))) // ≥ 0
	over := (gates*fifths + 4) / 5
	if !p.Aligned && r.Window.Traits().Slot < p.Period {
		over += p.Whole
	}
	return Overshoot{Bound: float64(over) / float64(p.limit)}
}
