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

// TokenBucket admits a number per period on average, and up to burst at once: a bucket of burst tokens that refills
// evenly. It is one word. NewTokenBucket makes one; the zero value is not usable. All methods may be called from any
// goroutine, and none takes a lock.
//
// The time between two tokens is kept in sixths of a nanosecond, rounded up: a rate is never exceeded, and missed by less
// than 20 ppm up to 100 000 a second, 2 % up to 100 million.
type TokenBucket struct {
	limiter
	bucket bucket
}

// NewTokenBucket returns a TokenBucket, full, that admits n per period and burst at once; a burst of 0 is n. It panics if
// the period is not positive or over two years, or if n or burst is negative. No bucket holds more than what refills in
// two years. A limit of 0 admits nothing.
func NewTokenBucket(n int, per time.Duration, burst int) *TokenBucket {
	b := &TokenBucket{bucket: bucket{period: nanoseconds(per)}}
	b.limiter = newLimiter(newClock(), &b.bucket)
	b.bucket.own = b.state
	b.bucket.set(0, func(r *rate) { r.limit, r.burst = atMost(n, math.MaxInt64), atMost(burst, math.MaxInt64) })
	return b
}

// SetLimit changes how many are admitted per period, and the burst if that is the limit. As many tokens as are missing in
// the bucket are still missing, but no more than it holds; those that turns are booked on are still owed. It panics if n
// is negative.
func (b *TokenBucket) SetLimit(n int) { b.SetLimitAt(time.Now(), n) }

// SetLimitAt is SetLimit at a given time.
func (b *TokenBucket) SetLimitAt(at time.Time, n int) {
	b.bucket.set(b.clock.at(at), func(r *rate) { r.limit = atMost(n, math.MaxInt64) })
}

// SetBurst changes how many are admitted at once. What is missing is treated as by SetLimit. It panics if burst is negative.
func (b *TokenBucket) SetBurst(burst int) {
	b.bucket.set(b.clock.now(), func(r *rate) { r.burst = atMost(burst, math.MaxInt64) })
}

// LeakyBucket lets through one at a time, evenly spaced: a queue from which a number per period leak. AllowN admits what
// need not queue; Reserve and Wait queue, if there is room. What comes in n at once leaves as n would one after the other,
// beginning at its turn. It is one word. NewLeakyBucket makes one; the zero value is not usable. All methods may be
// called from any goroutine, and none takes a lock.
//
// It is the leaky bucket as a queue. The leaky bucket as a meter, which refuses what would overflow it and delays nothing,
// is a TokenBucket seen from the other side.
type LeakyBucket struct {
	limiter
	bucket bucket
}

// NewLeakyBucket returns a LeakyBucket, empty, that n per period leak from and in which up to queue wait. It panics if
// the period is not positive or over two years, or if n or queue is negative. A limit of 0 admits nothing.
func NewLeakyBucket(n int, per time.Duration, queue int) *LeakyBucket {
	b := &LeakyBucket{bucket: bucket{period: nanoseconds(per), leaky: true}}
	b.limiter = newLimiter(newClock(), &b.bucket)
	b.bucket.own = b.state
	b.bucket.set(0, func(r *rate) { r.limit, r.burst = atMost(n, math.MaxInt64), atMost(queue, math.MaxInt64-1)+1 })
	return b
}

// SetLimit changes how many leak per period. Who waits already keeps the turn that was booked, but who comes next queues
// behind as many as are waiting, at the new rate. It panics if n is negative.
func (b *LeakyBucket) SetLimit(n int) {
	b.SetLimitAt(time.Now(), n)
}

// SetLimitAt is SetLimit at a given time.
func (b *LeakyBucket) SetLimitAt(at time.Time, n int) {
	b.bucket.set(b.clock.at(at), func(r *rate) { r.limit = atMost(n, math.MaxInt64) })
}

// SetQueue changes how many may wait. It panics if queue is negative.
func (b *LeakyBucket) SetQueue(queue int) {
	b.bucket.set(b.clock.now(), func(r *rate) { r.burst = atMost(queue, math.MaxInt64-1) + 1 })
}

// bucket is the algorithm: the Generic Cell Rate Algorithm (ATM Forum Traffic Management 4.0, 1996). Its state is one
// word: the theoretical arrival time, which is when the bucket is full again if nothing more comes, in units, shifted left
// by one; the lowest bit tells under which of the last two rates that was so.
//
// A time is compared as it is given, and the later one of it and the state is charged. So if those admitted in an interval
// cost C, the last one, in order, found the state no later than its own time plus the burst, and it was by C later than the
// time of the first: C is at most the interval plus the burst, by the times that were given.
type bucket struct {
	period int64
	leaky  bool
	rate   atomic.Pointer[rate]

	mu    sync.Mutex // held by set: there is one change at a time
	own   []atomic.Uint64
	keyed []weak.Pointer[Keyed] // where there are more states
}

// units are what a bucket divides a nanosecond into.
const units = 6

// maxDepth bounds what a bucket may hold, in units. Times are at most 2·horizon·units, waits maxPeriod·units: their sum
// with this is less than math.MaxInt64.
const maxDepth = maxPeriod * units

// rate is what is in force. It is not changed, but replaced.
type rate struct {
	limit, burst int64
	interval     int64 // units between two, rounded up; 0 if the limit is 0
	depth        int64 // units in the full bucket: the burst; of a leaky one, the queue and the one who leaves
	parity       uint64

	since  int64 // when the change to this rate was, in units
	before int64 // the interval until then
	empty  int64 // how many units are missing, of that interval, in an empty bucket; 0 in a leaky one, whose are all booked
}

// set replaces the rate. Whoever charges a state that was written before reads it as of then; and before set returns all
// are rewritten, so that one bit is enough to tell.
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
	convert(&next, a.own)
	a.keyed = slices.DeleteFunc(a.keyed, func(p weak.Pointer[Keyed]) bool {
		k := p.Value()
		if k != nil {
			k.states(func(s []atomic.Uint64) { convert(&next, s) })
		}
		return k == nil
	})
}

// convert rewrites a state, unless whoever charged it did.
func convert(r *rate, s []atomic.Uint64) {
	for w := s[0].Load(); w&1 != r.parity; w = s[0].Load() {
		s[0].CompareAndSwap(w, uint64(r.read(w))<<1|r.parity)
	}
}

// follow makes set rewrite a Keyed's states, too.
func (a *bucket) follow(k *Keyed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keyed = append(a.keyed, weak.Make(k))
}

// intervalOf returns the units between two, rounded up.
func intervalOf(period, limit int64) int64 {
	if limit == 0 {
		return 0
	}
	return (period*units-1)/limit + 1
}

func (a *bucket) words() int { return 1 }

func (a *bucket) take(s []atomic.Uint64, t, n, most int64) (wait int64, paid receipt, ok bool) {
	now := t * units
	for {
		r := a.rate.Load()
		w := s[0].Load()
		if a.rate.Load() != r {
			continue
		}
		cost := times(r.interval, n)
		if cost == 0 || cost > r.depth {
			return never, paid, false
		}
		full := max(r.read(w), now) + cost
		ahead, room := full-r.depth-now, int64(0) // how far the turn is away
		if a.leaky {
			ahead, room = full-cost-now, r.depth-(full-now)
		}
		wait = (max(0, ahead) + units - 1) / units
		if wait > most || room < 0 {
			return wait, paid, false
		}
		next := uint64(full)<<1 | r.parity
		if s[0].CompareAndSwap(w, next) {
			return wait, receipt{place: next, more: uint64(cost)}, true
		}
	}
}

// give takes the last charge back. Charges after it have been given their times on account of it.
func (a *bucket) give(s []atomic.Uint64, r receipt, _ int64) {
	s[0].CompareAndSwap(r.place, r.place-r.more<<1)
}

// read returns when a state is full again. If it was written before the change, as many tokens are missing as were then,
// but no more than there can be; and those that are booked beyond that are still owed. It comes out one unit later than
// it is, so that a number does not come back: who was held up for two changes, and then found the number that it had
// read, would take it for the state of then.
func (r *rate) read(w uint64) int64 {
	full := int64(w >> 1)
	if w&1 == r.parity || full <= r.since || r.before == 0 || r.interval == 0 {
		return full
	}
	booked := max(0, full-r.since-r.empty)
	missing := r.scale(full - r.since - booked)
	return r.since + min(missing, r.depth) + min(r.scale(booked), maxDepth) + 1
}

// scale converts units of tokens at the rate before into units of as many now.
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

func (a *bucket) debt(s []atomic.Uint64, t int64) int64 {
	return a.rate.Load().read(s[0].Load()) - t*units
}

// times multiplies what is not negative, and saturates.
func times(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high != 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}
