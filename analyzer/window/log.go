package window

import (
	"math"
	"sort"
	"strconv"
	"time"
)

const nameLog = "log"

// NewLog returns the exact window: it keeps the time and weight of the newest entries, as many as make up the limit, so
// it is for small limits. It panics if length is not positive.
func NewLog(length time.Duration) Algorithm { return log{length: nanoseconds(length)} }

// log keeps {weight of all pairs, time, weight, time, weight, …}, oldest first, no two of equal time. Pairs leave at the
// front, when they are length old, or before an entry is added if the newer ones make up the limit without them. So there
// are at most limit+1 pairs. The front is cut off by reslicing, and append moves the rest when its room is used up.
type log struct{ length int64 }

func (l log) Add(s State, limit, t, weight int64) (State, Count) {
	if weight <= 0 {
		return s, l.View(s, limit, t)
	}
	if len(s) == 0 || l.expired(s[len(s)-2], t) {
		s = append(s[:0], weight, t, weight)
		return s, l.count(s, 1, weight, limit, t)
	}
	newest := s[len(s)-2]
	if l.expired(t, newest) {
		return s, l.View(s, limit, t)
	}
	limit = max(limit, 1)
	first, total := l.live(s, max(t, newest))
	for s.rest(first, total) >= limit {
		total = s.rest(first, total)
		first += 2
	}
	s = s[first-1:]
	s[0] = add(total, weight)
	s = s.insert(t, weight)
	return s, l.count(s, 1, s[0], limit, t)
}

// insert puts an entry into its own place in time.
func (s State) insert(t, weight int64) State {
	if newest := s[len(s)-2]; t > newest {
		return append(s, t, weight)
	}
	pairs := len(s) / 2
	at := 1 + 2*sort.Search(pairs, func(i int) bool { return s[1+2*i] >= t })
	if s[at] == t {
		s[at+1] = add(s[at+1], weight)
		return s
	}
	s = append(s, 0, 0)
	copy(s[at+2:], s[at:])
	s[at], s[at+1] = t, weight
	return s
}

func (l log) View(s State, limit, t int64) Count {
	if len(s) == 0 {
		return Count{Start: sub(t, l.length), Until: t}
	}
	at := max(t, s[len(s)-2])
	first, total := l.live(s, at)
	c := l.count(s, first, total, limit, t)
	c.Start = sub(at, l.length)
	if l.expired(t, at) {
		c.Place = Late
	}
	return c
}

// expired reports whether time t is outside of the window that ends with newest.
func (l log) expired(t, newest int64) bool { return t < newest && since(newest, t) >= uint64(l.length) }

// live returns where the pairs begin that are in the window ending at the given time, and their weight.
func (l log) live(s State, at int64) (first int, total int64) {
	first, total = 1, s[0]
	for first < len(s) && l.expired(s[first], at) {
		total = s.rest(first, total)
		first += 2
	}
	return first, total
}

// rest returns the weight of the pairs behind the one at index i. total is the weight of that one and all behind it.
func (s State) rest(i int, total int64) int64 {
	if total < math.MaxInt64 {
		return total - s[i+1]
	}
	total = 0 // it may have saturated
	for i += 3; i < len(s); i += 2 {
		total = add(total, s[i])
	}
	return total
}

// count finds the limit-th newest unit of weight: the window reopens when it leaves.
func (l log) count(s State, first int, total, limit, t int64) Count {
	c := Count{Total: total, Start: sub(s[len(s)-2], l.length), Until: t}
	limit = max(limit, 1)
	if total < limit {
		return c
	}
	for rest := s.rest(first, total); rest >= limit; rest = s.rest(first, rest) {
		first += 2
	}
	c.Until = add(s[first], l.length)
	return c
}

func (l log) Expiry(s State) int64 {
	if len(s) == 0 {
		return math.MinInt64
	}
	return add(s[len(s)-2], l.length)
}

func (l log) Length(int64) int64 { return l.length }

func (l log) Valid(s State) bool {
	if len(s) == 0 {
		return true
	}
	if len(s) < 3 || len(s)%2 == 0 {
		return false
	}
	var total int64
	for i := 1; i < len(s); i += 2 {
		if s[i+1] <= 0 || i > 1 && s[i] <= s[i-2] {
			return false
		}
		total = add(total, s[i+1])
	}
	return s[0] == total
}

func (l log) Shape() string { return nameLog + "/" + strconv.FormatInt(l.length, 10) }

func (log) Capacity(limit int64) int64 { return max(limit, 1) }

func (log) Traits() Traits { return Traits{Truncates: true} }

// Forgets returns when the lost entry has left the window: the sums are the same then.
func (l log) Forgets(_ State, _, lost int64) int64 { return add(lost, l.length) }

func (l log) Coarse() Coarse { return pairs{halves{l, l.length}, l} }

// pairs is the Coarse of a log.
type pairs struct {
	halves
	of log
}

// Coarsen keeps the newest entries that make up half of the weight, as one pair with the time of the oldest of them.
func (c pairs) Coarsen(s State, t int64) State {
	total := c.of.View(s, 1, t).Total
	var kept int64
	for i := len(s) - 2; i > 0 && total > 0; i -= 2 {
		if kept = add(kept, s[i+1]); kept >= total-kept {
			return State{s[i], kept}
		}
	}
	return nil
}
