package window

import (
	"math"
	"strconv"
	"time"

	"github.com/509da70d/floodgate/analyzer/integer"
)

// Quarters is the number of parts of a window in which a Pool measures demand.
const Quarters = 4

// PoolUnit is the limit of Spend that allows one request in a window.
const PoolUnit = 1000

// maxDebt is for how many windows a caller of a pool may be closed for what it has used.
const maxDebt = 5

// Pool is the Algorithm of one caller of a rule with a capacity that all its callers share. The limit is the caller's fair share, which
// changes all the time.
//
// A Pool does two things. It measures what the caller asks for, in the last four quarters of a window: that is a Count's Total. And it
// keeps a bucket of time: each admitted request costs window/limit, and the caller is closed while the bucket holds more than half a window.
// What gates admit after that is paid back later, but for no more than maxDebt windows. The bucket is a GCRA (ATM Forum Traffic Management
// 4.0, 1996) whose rate may change with each entry, because it holds time and not requests.
//
// All times are log time: an entry that is older than others counts now.
type Pool struct {
	length int64
}

// A state of a Pool is these numbers.
const (
	poolSlot  = iota                 // the quarter of the newest entry, counted since 1970-01-01
	poolAsked                        // what was asked for in that quarter, and in the three before it
	poolTAT   = poolAsked + Quarters // when the bucket has drained, in Unix nanoseconds
	poolState = poolTAT + 1
)

// NewPool returns the Pool for windows of a length, which must be positive.
func NewPool(length time.Duration) Pool { return Pool{nanoseconds(length)} }

// Quarter returns the length of a quarter, in nanoseconds.
func (p Pool) Quarter() int64 { return max(p.length/Quarters, 1) }

// Ask counts requests that the caller asked for, and that its own closure refused.
func (p Pool) Ask(s State, t, weight int64) State {
	if len(s) == 0 {
		s = append(s[:0], make([]int64, poolState)...)
		s[poolSlot], s[poolTAT] = integer.FloorDiv(t, p.Quarter()), t
	}
	p.turn(s, t)
	s[poolAsked], s[poolTAT] = add(s[poolAsked], max(weight, 0)), max(s[poolTAT], t)
	return s
}

// turn moves the quarters of a state on to a time.
func (p Pool) turn(s State, t int64) {
	slot := p.newest(s, t)
	passed := sub(slot, s[poolSlot])
	if passed <= 0 {
		return
	}
	s[poolSlot] = slot
	asked := s[poolAsked:poolTAT]
	for i := Quarters - 1; i >= 0; i-- {
		if from := int64(i) - passed; from >= 0 {
			asked[i] = asked[from]
		} else {
			asked[i] = 0
		}
	}
}

// Newest returns the time at which the quarter of the newest entry began. s is not nil.
func (p Pool) Newest(s State) int64 { return mul(s[poolSlot], p.Quarter()) }

// newest returns the newest quarter at a time. For most entries it is that of the entry before, which takes no division to find out.
func (p Pool) newest(s State, t int64) int64 {
	if len(s) == 0 {
		return integer.FloorDiv(t, p.Quarter())
	}
	if into := sub(t, p.Newest(s)); into < p.Quarter() {
		return s[poolSlot]
	}
	return integer.FloorDiv(t, p.Quarter())
}

// Asked returns what was asked for in the four quarters that end with the given one.
func (p Pool) Asked(s State, quarter int64) (sum int64) {
	if len(s) == 0 {
		return 0
	}
	if quarter == s[poolSlot] {
		for _, n := range s[poolAsked:poolTAT] {
			sum = add(sum, n)
		}
		return sum
	}
	for i := range int64(Quarters) {
		if q := sub(s[poolSlot], i); q <= quarter && sub(quarter, q) < Quarters {
			sum = add(sum, s[poolAsked+i])
		}
	}
	return sum
}

// Add counts requests that were admitted under a limit in requests. math.MaxInt64 is no limit, as for Spend.
func (p Pool) Add(s State, limit, t, weight int64) (State, Count) {
	units := int64(math.MaxInt64)
	if limit < math.MaxInt64 {
		units = min(addMul(0, max(limit, 1), PoolUnit), math.MaxInt64-1)
	}
	s = p.Spend(s, units, t, weight)
	return s, p.View(s, limit, t)
}

// Spend counts requests that were admitted under a limit in PoolUnits, so that a fair share of a few requests need not be rounded to a whole
// number. math.MaxInt64 is no limit: then requests cost nothing.
func (p Pool) Spend(s State, limit, t, weight int64) State {
	if weight <= 0 {
		return s
	}
	s = p.Ask(s, t, weight)
	if limit < math.MaxInt64 {
		cost := integer.MulDiv(p.length, addMul(0, weight, PoolUnit), max(limit, 1))
		s[poolTAT] = max(s[poolTAT], min(add(s[poolTAT], cost), addMul(t, p.length, maxDebt)))
	}
	return s
}

// Charge puts into the bucket what the caller asked for over its limit in the last window, up to the brim. It is for the moment at which there
// is a limit where there was none: nothing before that was put into it. Callers that reach the brim get up to a quarter more, by their phase,
// which is any number of theirs: else all of them would be closed together, and come back together. The limit is in PoolUnits.
func (p Pool) Charge(s State, limit, t int64, phase uint64) {
	over := addMul(0, p.Asked(s, p.newest(s, t)), PoolUnit) - limit
	if over <= 0 {
		return
	}
	fill, brim := integer.MulDiv(p.length, over, max(limit, 1)), p.length/2
	if fill >= brim {
		fill = brim + int64(phase%uint64(p.Quarter())) // < p.Quarter()
	}
	s[poolTAT] = max(s[poolTAT], add(t, fill))
}

// View returns what was asked for, and until when the bucket is fuller than its brim.
func (p Pool) View(s State, _, t int64) Count {
	quarter := p.newest(s, t)
	c := Count{Start: mul(sub(quarter, Quarters-1), p.Quarter()), Until: t, Total: p.Asked(s, quarter)}
	if len(s) > 0 {
		c.Until = max(t, sub(s[poolTAT], p.length/2))
	}
	return c
}

// Parts returns the quarters.
func (p Pool) Parts(s State, _, t int64, maxParts int) (parts []Part, more int) {
	if len(s) == 0 {
		return nil, 0
	}
	oldest := sub(p.newest(s, t), Quarters-1)
	return newestOf(maxParts, Quarters, func(age int) Part {
		q := sub(s[poolSlot], int64(age))
		if q < oldest {
			return Part{}
		}
		from := mul(q, p.Quarter())
		return Part{From: from, To: add(from, p.Quarter()), Leaves: add(from, p.length), Weight: s[poolAsked+age]}
	})
}

// Expiry returns when the state holds neither demand nor debt. A quarter later, the last tally that has its demand is over.
func (p Pool) Expiry(s State) int64 {
	if len(s) == 0 {
		return math.MinInt64
	}
	return max(s[poolTAT], mul(add(s[poolSlot], Quarters+1), p.Quarter()))
}

// Forgets returns when a full bucket has drained, and demand is over.
func (p Pool) Forgets(s State, _, lost int64) int64 {
	return addMul(max(lost, p.Expiry(s)), p.length, maxDebt+2)
}

// Coarse returns the demand of the last three quarters: the fourth may have left a Pool that counts the same entries.
func (p Pool) Coarse() Coarse {
	return poolCoarse{halves{full: p, length: (Quarters - 1) * p.Quarter()}}
}

// Length returns the length of the window.
func (p Pool) Length(int64) int64 { return p.length }

// Valid reports whether s has all numbers, and no negative demand.
func (Pool) Valid(s State) bool {
	if len(s) != 0 && len(s) != poolState {
		return false
	}
	for i := poolAsked; i < len(s)-1; i++ {
		if s[i] < 0 {
			return false
		}
	}
	return true
}

// Shape returns "pool" and the length.
func (p Pool) Shape() string { return "pool/" + strconv.FormatInt(p.length, 10) }

// Capacity returns the limit.
func (Pool) Capacity(limit int64) int64 { return max(limit, 1) }

// Traits says that what happens depends on older entries, too.
func (Pool) Traits() Traits { return Traits{Endless: true} }

// poolCoarse is the demand of a Pool as halves.
type poolCoarse struct{ halves }

// Coarsen keeps the demand of the newest three quarters, as of the oldest of them.
func (c poolCoarse) Coarsen(s State, t int64) State {
	parts, _ := c.full.Parts(s, 0, t, Quarters-1)
	s = s[:0]
	for _, p := range parts {
		switch {
		case !c.live(p.From, t):
		case len(s) == 0:
			s = append(s, p.From, p.Weight)
		default:
			s[1] = add(s[1], p.Weight)
		}
	}
	return s
}

// Refine returns a Pool that owes nothing for the demand: nobody knows how much of it was admitted, and under which limits.
func (c poolCoarse) Refine(s State, _, t int64) State { return c.halves.Refine(s, math.MaxInt64, t) }
