package policy

import (
	"math/bits"

	"github.com/509da70d/floodgate/analyzer/rules"
)

// Overshoot says how far a caller's weight goes over its limit, as shares of the limit: what is expected, and a bound that all but one of
// 200 closes keep while the demand does not change.
type Overshoot struct{ Expected, Bound float64 }

// Mechanism is what held a caller to its limit when a close was counted.
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

// BoundOf returns the overshoot of a close at a rate, in thousandths of weight a second. It is not for closes under a share: see
// ShareBound.
func BoundOf(r *rules.Rule, limit, rate int64, lag Lag, by Mechanism) Overshoot {
	if slot := r.Window.Traits().Slot; slot < 2*lag.Mean {
		by = Reactive // closes and openings follow each other faster than gates learn of them
	}
	expected, spread := weightIn(rate, lag.Mean), deviation(rate, lag.Mean)
	bound := weightIn(rate, lag.Mean+lag.Deviation) + 3*spread
	if by == Predicted {
		expected = spread * 2 / 5
		bound = weightIn(rate, 2*lag.Deviation+int64(Flush)) + 3*spread
	}
	if rate > 0 {
		bound += 1000 // weight comes in whole requests, so that a small one deviates more
	}
	whole := 1000 * float64(r.Window.Capacity(limit))
	return Overshoot{Expected: float64(expected) / whole, Bound: float64(bound) / whole}
}

// ShareBound returns the overshoot of a caller that has a share in force at so many gates. In each period each gate spends a whole number
// of permits. Gates give up their fractions in periods that are spread evenly, so that over several periods together the part of a gate is
// wrong by little more than one permit. If windows and periods do not begin together, a window may contain the permits of one period more.
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
