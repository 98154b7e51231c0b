package limit

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

// TokenBucket admits a number of events per period on average, and up to burst at once: a bucket of burst tokens that
// refills evenly. Its state is one word. NewTokenBucket makes one; the zero value is not usable. All methods may be called
// from any goroutine. Only SetLimit, SetLimitAt and SetBurst take a lock, and wait only for each other.
//
// The time between two tokens is kept in sixths of a nanosecond, rounded up. So a rate is never exceeded. The real rate is
// lower than the limit by less than 20 ppm up to 100 000 a second, and by less than 2 % up to 100 million a second.
type TokenBucket struct {
	limiter
	bucket bucket
}

// NewTokenBucket returns a full TokenBucket that admits n events per period and burst at once; a burst of 0 means n. It
// panics if the period is not positive or over two years, or if n or burst is negative. No bucket holds more than what
// refills in two years. A limit of 0 admits nothing.
func NewTokenBucket(n int, per time.Duration, burst int) *TokenBucket {
	b := &TokenBucket{bucket: bucket{period: nanoseconds(per)}}
	b.limiter = newLimiter(newClock(), &b.bucket)
	b.bucket.ownState = b.state
	b.bucket.set(0, func(r *rate) { r.limit, r.burst = checkLimit(n, math.MaxInt64), checkLimit(burst, math.MaxInt64) })
	return b
}

// SetLimit changes how many events are admitted per period, and the burst if that is the limit. It panics if n is negative.
// As many tokens are missing from the bucket after the change as before it, but not more than the bucket holds. Tokens that
// were booked ahead of time stay booked.
func (b *TokenBucket) SetLimit(n int) { b.SetLimitAt(time.Now(), n) }

// SetLimitAt is SetLimit at a given time.
func (b *TokenBucket) SetLimitAt(at time.Time, n int) {
	b.bucket.set(b.clock.at(at), func(r *rate) { r.limit = checkLimit(n, math.MaxInt64) })
}

// SetBurst changes how many events are admitted at once. Missing tokens are treated as by SetLimit. It panics if burst is
// negative.
func (b *TokenBucket) SetBurst(burst int) {
	b.bucket.set(b.clock.now(), func(r *rate) { r.burst = checkLimit(burst, math.MaxInt64) })
}

// LeakyBucket admits events one at a time, evenly spaced: it is a queue from which a number of events leak per period.
// AllowN admits events that need not wait in the queue. Reserve and Wait put events into the queue, if there is room. N
// events of one call take as long as n calls of one event, beginning at their turn. Its state is one word. NewLeakyBucket
// makes one; the zero value is not usable. All methods may be called from any goroutine. Only SetLimit and SetLimitAt
// take a lock, and wait only for each other.
//
// This is the leaky bucket as a queue. The leaky bucket as a meter, which refuses what would overflow it and delays
// nothing, is the same as a TokenBucket.
type LeakyBucket struct {
	limiter
	bucket bucket
}

// NewLeakyBucket returns an empty LeakyBucket. N events leak from it per period, and up to queue events wait in it. It
// panics if the period is not positive or over two years, or if n or queue is negative. A limit of 0 admits nothing.
func NewLeakyBucket(n int, per time.Duration, queue int) *LeakyBucket {
	b := &LeakyBucket{bucket: bucket{period: nanoseconds(per), leaky: true}}
	b.limiter = newLimiter(newClock(), &b.bucket)
	b.bucket.ownState = b.state
	b.bucket.set(0, func(r *rate) { r.limit, r.burst = checkLimit(n, math.MaxInt64), checkLimit(queue, math.MaxInt64-1)+1 })
	return b
}

// SetLimit changes how many events leak per period. An event that waits already keeps the turn that was booked. The next
// event gets a turn behind all events that wait, computed at the new rate. It panics if n is negative.
func (b *LeakyBucket) SetLimit(n int) {
	b.SetLimitAt(time.Now(), n)
}

// SetLimitAt is SetLimit at a given time.
func (b *LeakyBucket) SetLimitAt(at time.Time, n int) {
	b.bucket.set(b.clock.at(at), func(r *rate) { r.limit = checkLimit(n, math.MaxInt64) })
}

// bucket is the algorithm: the Generic Cell Rate Algorithm (ATM Forum Traffic Management 4.0, 1996). Its state is one
// word: the theoretical arrival time, in units, shifted left by one. That is the time when the bucket is full again if no
// more events come. The lowest bit is the parity of the rate under which that time was computed.
//
// A charge begins at the given time or at the state, whichever is later. Say the events that were admitted in an interval
// cost C. When the last of them was admitted, the state was at least C later than the time of the first, and at most the
// burst later than its own time. So C is at most the interval plus the burst, by the times that were given.
type bucket struct {
	period int64
	leaky  bool
	rate   atomic.Pointer[rate]

	mu       sync.Mutex // held by set: there is one change at a time
	ownState []atomic.Uint64
	keyed    []weak.Pointer[Keyed] // they have more states under this rate
}

// units is how many units a nanosecond has.
const units = 6

// maxDepth is how much a bucket may hold, in units. Times are at most 2·horizon·units, and waits at most maxPeriod·units.
// The sum of these two and maxDepth is less than math.MaxInt64.
const maxDepth = maxPeriod * units

// rate is the rate in force. A rate is never changed; set replaces it.
type rate struct {
	limit, burst int64
	interval     int64 // units between two events, rounded up; 0 if the limit is 0
	depth        int64 // units in the full bucket: the burst; in a leaky one, the queue and the event that leaves
	parity       uint64

	since  int64 // when this rate came into force, in units
	before int64 // the interval of the rate before
	empty  int64 // the depth of the rate before: units missing from an empty bucket; 0 if leaky: all missing units are booked
}

// set replaces the rate. A goroutine that charges a state which was written under the rate before converts it (see read).
// Before set returns it has rewritten all states, so that one bit of parity tells the two rates apart.
func (a *bucket) set(t int64, change func(*rate)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := rate{}
	if old := a.rate.Load(); old != nil {
		next = *old
		next.parity, next.since, next.before, next.empty = old.parity^1, t*units, old.interval, old.depth
		if a.leaky {
			next.empty = 0
		}
	}
	change(&next)
	next.interval = intervalOf(a.period, next.limit)
	next.depth = min(times(next.interval, cmp.Or(next.burst, next.limit)), maxDepth)
	a.rate.Store(&next)
	convert(&next, a.ownState)
	a.keyed = slices.DeleteFunc(a.keyed, func(p weak.Pointer[Keyed]) bool {
		k := p.Value()
		if k != nil {
			k.states(func(s []atomic.Uint64) { convert(&next, s) })
		}
		return k == nil
	})
}

// convert rewrites a state for the new rate, unless a goroutine that charged it has done so.
func convert(r *rate, s []atomic.Uint64) {
	for w := s[0].Load(); w&1 != r.parity; w = s[0].Load() {
		s[0].CompareAndSwap(w, uint64(r.read(w))<<1|r.parity)
	}
}

// addKeyed makes set rewrite the states of a Keyed too.
func (a *bucket) addKeyed(k *Keyed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keyed = append(a.keyed, weak.Make(k))
}

// intervalOf returns the units between two events, rounded up.
func intervalOf(period, limit int64) int64 {
	if limit == 0 {
		return 0
	}
	return (period*units-1)/limit + 1
}

func (a *bucket) words() int { return 1 }

func (a *bucket) take(s []atomic.Uint64, t, n, maxWait int64) (wait int64, charged receipt, ok bool) {
	now := t * units
	for {
		r := a.rate.Load()
		w := s[0].Load()
		if a.rate.Load() != r {
			continue
		}
		cost := times(r.interval, n)
		if cost == 0 || cost > r.depth {
			return never, charged, false
		}
		full := max(r.read(w), now) + cost
		ahead, room := full-r.depth-now, int64(0) // ahead: the time until the turn
		if a.leaky {
			ahead, room = full-cost-now, r.depth-(full-now)
		}
		wait = (max(0, ahead) + units - 1) / units
		if wait > maxWait || room < 0 {
			return wait, charged, false
		}
		next := uint64(full)<<1 | r.parity
		if s[0].CompareAndSwap(w, next) {
			return wait, receipt{place: next, cost: uint64(cost)}, true
		}
	}
}

// refund takes the charge back if it is the last one. The turns of later charges depend on it.
func (a *bucket) refund(s []atomic.Uint64, r receipt, _ int64) {
	s[0].CompareAndSwap(r.place, r.place-r.cost<<1)
}

// read returns the time when a bucket with state w is full again. If w was written under the rate before, read converts it:
// as many tokens are missing as before, but not more than the bucket holds, and tokens that were booked ahead of time stay
// booked.
//
// A converted time is one unit late on purpose, so that it differs from all earlier ones. Otherwise a goroutine that was
// delayed across two changes could find the word that it had read, and mistake the new state for the old one (ABA).
func (r *rate) read(w uint64) int64 {
	full := int64(w >> 1)
	if w&1 == r.parity || full <= r.since || r.before == 0 || r.interval == 0 {
		return full
	}
	booked := max(0, full-r.since-r.empty)
	missing := r.scale(full - r.since - booked)
	return r.since + min(missing, r.depth) + min(r.scale(booked), maxDepth) + 1
}

// scale converts units at the rate before to units for as many tokens at this rate, rounded up.
func (r *rate) scale(v int64) int64 {
	high, low := bits.Mul64(uint64(v), uint64(r.interval))
	if high >= uint64(r.before) {
		return math.MaxInt64
	}
	q, rest := bits.Div64(high, low, uint64(r.before))
	if rest > 0 {
		q++
	}
	return int64(min(q, math.MaxInt64))
}

func (a *bucket) usage(s []atomic.Uint64, t int64) int64 {
	return a.rate.Load().read(s[0].Load()) - t*units
}

// times multiplies two numbers that are not negative. The product saturates at math.MaxInt64.
func times(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high != 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}
