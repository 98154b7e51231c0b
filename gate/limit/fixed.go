package limit

import (
	"math/bits"
	"strconv"
	"sync/atomic"
	"time"
)

// Fixed admits at most a number of events in each period. Periods begin at multiples of their length since 1970, in UTC.
// Around the end of a period twice the limit may come at once: where that matters, use a Ring or Sliding. Its state is two
// words. NewFixed makes one; the zero value is not usable. All methods may be called from any goroutine, and none takes a
// lock.
type Fixed struct {
	limiter
	fixed fixed
}

// NewFixed returns a Fixed that admits n events in each period. It panics if the period is not positive or over two years,
// or if n is negative. A limit above one event in a nanosecond counts as one in a nanosecond.
func NewFixed(n int, per time.Duration) *Fixed {
	period := nanoseconds(per)
	c := newClock()
	f := &Fixed{fixed: fixed{period: period, phase: c.phase(period), shift: bits.Len64(uint64(period))}}
	f.SetLimit(n)
	f.limiter = newLimiter(c, &f.fixed)
	return f
}

// SetLimit changes how many events are admitted in each period. It applies to the current period too, whose count stays. It
// panics if n is negative.
func (f *Fixed) SetLimit(n int) { f.fixed.limit.Store(checkLimit(n, f.fixed.period)) }

// checkLimit panics if a limit is negative, and returns it, or largest if it is larger.
func checkLimit(n int, largest int64) int64 {
	if n < 0 {
		panic("limit: a limit must not be negative; got " + strconv.Itoa(n))
	}
	return min(int64(n), largest)
}

// fixed is the algorithm. Its state is two words, for periods of even and of odd number, each number<<shift | count. A word
// says which period it counts. So one swap both begins a new period and counts in it, and a count that another goroutine
// makes at the same time can neither be lost nor go to the wrong period. The period before the newest is still there for
// times that come late. An admission is exact by the time that was given, because each period has one word only, and a word
// only moves on to later periods.
type fixed struct {
	period, phase int64
	shift         int // bits of a count: counts up to period and the numbers of all periods fit into one word
	limit         atomic.Int64
}

func (a *fixed) words() int { return 2 }

func (a *fixed) take(s []atomic.Uint64, t, n, maxWait int64) (wait int64, r receipt, ok bool) {
	limit := a.limit.Load()
	if n > limit {
		return never, r, false
	}
	own := (t + a.phase) / a.period
	for k := own; ; {
		word := &s[k&1]
		w := word.Load()
		if newest := int64(w >> a.shift); newest > k { // the word counts a later period than k
			k = newest - 1
			continue
		}
		begun := max(w, uint64(k)<<a.shift)
		if int64(begun&(1<<a.shift-1))+n > limit {
			k++
			continue
		}
		if wait = a.waitFor(k, own, t); wait > maxWait {
			return wait, r, false
		}
		if word.CompareAndSwap(w, begun+uint64(n)) {
			return wait, receipt{place: uint64(k)}, true
		}
	}
}

// refund reduces the count of the period, if a word still counts it.
func (a *fixed) refund(s []atomic.Uint64, r receipt, n int64) {
	word := &s[r.place&1]
	for w := word.Load(); w>>a.shift == r.place; w = word.Load() {
		if word.CompareAndSwap(w, w-uint64(n)) {
			return
		}
	}
}

// waitFor returns how long it is from t, which lies in period own, to period k.
func (a *fixed) waitFor(k, own, t int64) int64 {
	if k <= own {
		return 0
	}
	return k*a.period - a.phase - t
}

func (a *fixed) usage(s []atomic.Uint64, t int64) int64 {
	now := (t + a.phase) / a.period
	return int64(max(s[0].Load(), s[1].Load())) - now<<a.shift
}
