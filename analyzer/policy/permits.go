package policy

import (
	"math"
	"math/bits"
	"time"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// Permits says what shares a rule gives to a caller with a limit. The zero value gives none.
type Permits struct {
	Period  int64 // nanoseconds
	Whole   int64 // permits of all gates together in one period, rounded up
	Aligned bool  // a period is a window, which begins empty

	limit  int64 // of a window
	window int64 // nanoseconds
	span   int64 // nanoseconds over which limit permits are spread: a window, and one slot more if it has slots
}

// minPeriod is the shortest period: recorders merge requests within that time.
const minPeriod = 10 * int64(time.Millisecond)

// PermitsOf returns the permits of a rule. A rule gives none if its closures may last longer than its windows are full. Nor does a rule
// that counts anything else than all admitted requests, because gates count only those.
func PermitsOf(r *rules.Rule, limit int64) (p Permits) {
	t := r.Window.Traits()
	if r.Predict < rules.PredictShares || r.CloseFor > 0 || r.Escalate.Factor > 0 || r.CountBlocked || r.Measure != rules.Requests ||
		len(r.Match.Statuses)+len(r.Match.Resources) > 0 || t.Endless || t.Slot == math.MaxInt64 {
		return Permits{}
	}
	p = Permits{limit: r.Window.Capacity(limit), window: r.Window.Length(0), Aligned: t.Aligned}
	switch {
	case t.Aligned:
		p.Period, p.span = p.window, p.window
	default:
		slot := max(1, t.Slot)
		p.Period, p.span = max(slot, (p.window/20+slot/2)/slot*slot, up(minPeriod, slot)), p.window+t.Slot
	}
	if p.Period < minPeriod || p.Period >= p.span && !p.Aligned {
		return Permits{}
	}
	p.Whole = mulDivUp(p.limit, p.Period, p.span)
	return p
}

// renewal returns the time between two renewals of a share, in nanoseconds: a whole number of periods.
func (p Permits) renewal() int64 { return up(max(p.Period, renewal), p.Period) }

// hold returns how long a share holds if it is not renewed.
func (p Permits) hold() int64 { return max(integer.Add(p.Period, 2*p.Period), minHold) }

// demand returns the demand to publish for a measured one. Whole is rounded up, so that it may be almost one permit more than the limit
// allows. demand raises the demand by the same ratio. So the rounding does not raise the part that each gate gets.
func (p Permits) demand(measured int64) int64 {
	if p.Aligned || p.Whole > 1<<20 || measured > math.MaxUint32 {
		return measured
	}
	return max(measured, mulDivUp(mulDivUp(measured*p.Whole, p.span, p.Period), 1, p.limit))
}

// fits reports whether permits can be given from a time on: whether weight leaves the window as fast as the permits are spent.
func (p Permits) fits(o *ShareOutlook, from int64) bool {
	if p.Aligned {
		return true
	}
	w, closed := o.Rule.Window, o.Closure.before(o.Now)
	unseen := int64(0) // weight that comes before the permits hold
	begins := from
	if closed {
		begins = max(from, o.Closure.Until)
	} else {
		unseen = min(weightIn(o.Rate, from-o.AsOf)/1000, max(0, p.limit-w.View(o.State, o.Limit, o.Now).Total))
	}
	allowed := integer.Add(p.limit, max(p.limit/100, o.Gates))
	given := unseen
	for at, ends := begins, integer.Add(begins, p.span); at < ends; {
		next := min(integer.Add(at, p.Period), ends)
		given += integer.MulDiv(p.limit, next-at, p.span)
		at = next
		if integer.Add(w.View(o.State, o.Limit, at).Total, given) > allowed {
			return false
		}
	}
	return true
}

// mulDivUp is mulDiv rounded up.
func mulDivUp(a, b, c int64) int64 {
	q := integer.MulDiv(a, b, c)
	hi, lo := bits.Mul64(uint64(a), uint64(b)) // ≥ 0
	if back, low := bits.Mul64(uint64(q), uint64(c)); back == hi && low == lo || q == math.MaxInt64 {
		return q
	}
	return q + 1
}

// saturatingMul returns a·b, or the largest int64, for a and b of at least 0.
func saturatingMul(a, b int64) int64 { return integer.MulDiv(a, b, 1) }

// up returns the first multiple of step at or after t.
func up(t, step int64) int64 {
	k := integer.FloorDiv(t, step)
	if k*step < t {
		k++
	}
	return k * step
}
