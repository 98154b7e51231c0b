package limit

import (
	"math/bits"
	"strconv"
	"sync/atomic"
	"time"
)

// Fixed admits at most a number in each period, where periods begin at multiples of their length since 1970, in UTC. Around
// the end of a period twice the limit may come at once: where that matters, take a Ring or Sliding. It is the smallest:
// two words. NewFixed makes one; the zero value is not usable. All methods may be called from any goroutine, and none
// takes a lock.
type Fixed struct {
	limiter
	fixed fixed
}

// NewFixed returns a Fixed that admits n in each period. It panics if the period is not positive or over two years, or
// if n is negative. More than one in a nanosecond is not told apart.
func NewFixed(n int, per time.Duration) *Fixed {
	period := nanoseconds(per)
	c := newClock()
	f := &Fixed{fixed: fixed{period: period, phase: c.phase(period), shift: bits.Len64(uint64(period))}}
	f.SetLimit(n)
	f.limiter = newLimiter(c, &f.fixed)
	return f
}

// SetLimit changes how many are admitted in each period, the current one included: what it has counted stays counted. It
// panics if n is negative.
func (f *Fixed) SetLimit(n int) { f.fixed.limit.Store(atMost(n, f.fixed.period)) }

// atMost checks a limit for counters that hold most.
func atMost(n int, most int64) int64 {
	if n < 0 {
		panic("limit: a limit must not be negative; got " + strconv.Itoa(n))
	}
	return min(int64(n), most)
}

// fixed is the algorithm. Its state is two words, for periods of even and of odd number, each number<<shift | count. As a
// word says which period it counts, there is no resetting it before counting in it: that is one swap, and no count
// that another goroutine makes in between can be lost, or land in the wrong period. The period before the newest is still
// there for times that come late. An admission is exact by the time that was given, as each period has only one word, which
// only ever goes on to later periods.
type fixed struct {
	period, phase int64
	shift         int // so that counts up to period, and all numbers of periods, fit beside each other
	limit         atomic.Int64
}

func (a *fixed) words() int { return 2 }

func (a *fixed) take(s []atomic.Uint64, t, n, most int64) (wait int64, r receipt, ok bool) {
	limit := a.limit.Load()
	if n > limit {
		return never, r, false
	}
	own := (t + a.phase) / a.period
	for k := own; ; {
		word := &s[k&1]
		w := word.Load()
		if newest := int64(w >> a.shift); newest > k { // k is forgotten, which periods that had room are not
			k = newest - 1
			continue
		}
		begun := max(w, uint64(k)<<a.shift)
		if int64(begun&(1<<a.shift-1))+n > limit {
			k++
			continue
		}
		if wait = a.until(k, own, t); wait > most {
			return wait, r, false
		}
		if word.CompareAndSwap(w, begun+uint64(n)) {
			return wait, receipt{place: uint64(k)}, true
		}
	}
}

// give uncounts, if the period is still remembered.
func (a *fixed) give(s []atomic.Uint64, r receipt, n int64) {
	word := &s[r.place&1]
	for w := word.Load(); w>>a.shift == r.place; w = word.Load() {
		if word.CompareAndSwap(w, w-uint64(n)) {
			return
		}
	}
}

// until returns how long it is from t, in period own, to period k.
func (a *fixed) until(k, own, t int64) int64 {
	if k <= own {
		return 0
	}
	return k*a.period - a.phase - t
}

func (a *fixed) debt(s []atomic.Uint64, t int64) int64 {
	now := (t + a.phase) / a.period
	return int64(max(s[0].Load(), s[1].Load())) - now<<a.shift
}
