package pool

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/509da70d/floodgate/analyzer/integer"
)

// Terms is what a rule says of its pool.
type Terms struct {
	Capacity int64 // requests of all callers in a window
	Protect  int64 // Units of level: who asks for less is never limited
}

// A level rises by at most rise thousandths each quarter: 1.5 times a window.
const rise = 107

// maxRises is the number of quarters after which a level may have risen from anything to anything.
const maxRises = 1000

// Level is what all callers of a pool may use. The zero value is no level: nobody is limited.
type Level struct {
	Quarter int64 // the newest quarter whose demand it divides
	Level   int64 // requests in a window of a caller of weight 1, in Units; 0 is no level
	Asked   int64 // requests that all callers asked for in a window
	Above   int64 // about how many callers asked for more than the level
}

// Limit returns the limit of a caller of a weight under the level, in Units; math.MaxInt64 if there is none.
func (l *Level) Limit(t *Terms, weight int64) int64 {
	if l.Level == 0 {
		return math.MaxInt64
	}
	return max(integer.MulDiv(l.Level, weight, Unit), t.Protect)
}

// next returns the level after l, for what callers ask for.
func (l *Level) next(terms *Terms, demand *Tally) Level {
	n := Level{Quarter: demand.Quarter, Asked: demand.Total}
	all := integer.MulDiv(terms.Capacity, Unit, 1)
	level := Fill(terms.Capacity, demand)
	if l.Level > 0 {
		level = min(level, risen(l.Level, demand.Quarter-l.Quarter))
	}
	if level = max(level, terms.Protect); level >= all && demand.Total <= terms.Capacity {
		return n
	}
	n.Level = level
	for _, c := range demand.Classes {
		if integer.MulDiv(c.Asked, Unit*Unit, c.Weight) > level {
			n.Above = integer.Add(n.Above, c.Callers)
		}
	}
	return n
}

// risen returns to what a level may have risen after some quarters.
func risen(level, quarters int64) int64 {
	for range min(max(quarters, 1), maxRises) {
		level = integer.Add(level, max(1, integer.MulDiv(level, rise, Unit)))
	}
	return level
}

// Fill returns the level at which demand uses the capacity; math.MaxInt64 if it is not more than that. Callers of a class count as if
// all of them asked for their mean. So the level is never too high, and at most 4.4 % of the capacity stay unused: that is when half of
// the demand is at each end of one class, and hardly over the capacity.
func Fill(capacity int64, demand *Tally) int64 {
	left := demand.Total - capacity
	if left <= 0 {
		return math.MaxInt64
	}
	below, weight := demand.Total, int64(0)
	for i := len(demand.Classes) - 1; i >= 0; i-- {
		c := &demand.Classes[i]
		below, weight = max(below-c.Asked, 0), integer.Add(weight, c.Weight)
		if below >= capacity {
			continue
		}
		level := integer.MulDiv(capacity-below, Unit*Unit, weight)
		if i == 0 || level >= integer.MulDiv(demand.Classes[i-1].Asked, Unit*Unit, demand.Classes[i-1].Weight) {
			return level
		}
	}
	return 0 // callers that nobody limits use all of it
}

// AppendTo appends the level.
func (l *Level) AppendTo(b []byte) []byte {
	b = binary.AppendVarint(b, l.Quarter)
	b = binary.AppendUvarint(b, uint64(l.Level))
	b = binary.AppendUvarint(b, uint64(l.Asked))
	return binary.AppendUvarint(b, uint64(l.Above))
}

// ReadLevel reads all of b, which AppendTo has appended.
func ReadLevel(b []byte) (Level, error) {
	r := reader{b: b}
	l := Level{r.signed(), r.number(), r.number(), r.number()}
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%w: got %d bytes after a level", errTally, len(r.b))
	}
	return l, r.err
}
